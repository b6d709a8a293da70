/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Who and what is traced. Knobs are set before loading, so the verifier drops
 * the branches of the filters that are off. Filters decide when a socket gets
 * its storage; a socket without storage costs one failed look-up per hook.
 */
#ifndef NETDIAG_FILTER_H
#define NETDIAG_FILTER_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile bool nd_filter_tgids = false; /* only processes in `targets` */
const volatile bool nd_filter_follow = true; /* and their later children */
const volatile bool nd_filter_hosts = false; /* only remotes in `hosts` */
const volatile __u16 nd_filter_port = 0; /* local or remote, host order */
const volatile __u64 nd_filter_cgroup = 0; /* v2 id, with descendants */
const volatile __u32 nd_filter_cgroup_level = 0;
const volatile char nd_filter_comm[16] = {}; /* thread name */
const volatile char nd_filter_exe[16] = {}; /* start of the program's base name */

const volatile __u32 nd_pidns = 0; /* netdiag's own pid namespace by its inode; 0 = the machine's first */
__u32 nd_pidns_level = 0; /* how deep it lies; 0 = not known yet: a first program has to run in it */

/* tgid → 1: the wanted processes; with a cgroup filter those that were in it at the start. Shared by all objects. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

struct nd_prefix {
	__u32 bits;
	nd_addr address; /* v4 as v4-mapped */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 256);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct nd_prefix);
	__type(value, __u8);
} hosts SEC(".maps");

/*
 * A pid as netdiag's own pid namespace sees it: 0 when it can't see it. A task has one number in each namespace from
 * the root down to its own; at the same depth lie those of other containers, whose numbers mean nothing here.
 */
static __always_inline __u32 nd_pid_number(struct pid *pid)
{
	struct upid number = {};

	if (!nd_pidns_level || BPF_CORE_READ(pid, level) < nd_pidns_level)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number),
			      (const void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      nd_pidns_level * bpf_core_type_size(struct upid));
	return BPF_CORE_READ(number.ns, ns.inum) == nd_pidns ? number.nr : 0;
}

static __always_inline __u32 nd_task_tgid(struct task_struct *task)
{
	if (!nd_pidns)
		return BPF_CORE_READ(task, tgid);
	return nd_pid_number(BPF_CORE_READ(task, group_leader, thread_pid));
}

static __always_inline __u32 nd_task_tid(struct task_struct *task)
{
	if (!nd_pidns)
		return BPF_CORE_READ(task, pid);
	return nd_pid_number(BPF_CORE_READ(task, thread_pid));
}

static __always_inline __u32 nd_current_tgid(void)
{
	if (!nd_pidns)
		return bpf_get_current_pid_tgid() >> 32;
	return nd_task_tgid((void *)bpf_get_current_task());
}

static __always_inline __u32 nd_current_tid(void)
{
	if (!nd_pidns)
		return (__u32)bpf_get_current_pid_tgid();
	return nd_task_tid((void *)bpf_get_current_task());
}

static __always_inline __u64 nd_task_cgroup(struct task_struct *task)
{
	return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
}

static __always_inline bool nd_same_name(const volatile char *wanted, const char *name)
{
	for (int i = 0; i < 15; i++) {
		if (wanted[i] != name[i])
			return false;
		if (!wanted[i])
			return true;
	}
	return true;
}

/* Is the current task, in process context, one whose sockets are wanted? */
static __always_inline bool nd_wanted_task(void)
{
	if (nd_filter_tgids) {
		__u32 tgid = nd_current_tgid();

		if (!bpf_map_lookup_elem(&targets, &tgid))
			return false;
	}
	if (nd_filter_cgroup &&
	    bpf_get_current_ancestor_cgroup_id(nd_filter_cgroup_level) != nd_filter_cgroup)
		return false;
	if (nd_filter_comm[0]) {
		char comm[16];

		bpf_get_current_comm(comm, sizeof(comm));
		if (!nd_same_name(nd_filter_comm, comm))
			return false;
	}
	return true;
}

static __always_inline bool nd_wanted_ports(__u16 local, __u16 remote)
{
	return !nd_filter_port || local == nd_filter_port || remote == nd_filter_port;
}

static __always_inline bool nd_wanted_remote(const nd_addr *remote)
{
	struct nd_prefix key = { .bits = 128 };

	if (!nd_filter_hosts)
		return true;
	key.address = *remote;
	return bpf_map_lookup_elem(&hosts, &key) != 0;
}

#endif
