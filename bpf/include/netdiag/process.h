/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Records about processes, written by the process probe and by each probe that meets a new process. */
#ifndef NETDIAG_PROCESS_H
#define NETDIAG_PROCESS_H

#include "event.h"
#include "filter.h"
#include "ring.h"

/* Shared by all objects; the loader gives each the same map. */
ND_RING(process_events, 1 << 17);

/* Processes of which a record was written: tgid → 1. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} known_processes SEC(".maps");

static __always_inline void nd_write_process(struct task_struct *task, __u8 kind, __u32 exit_code, const char *filename)
{
	struct process_event *e = nd_reserve(process_events, struct process_event);

	if (!e)
		return;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->cgroup = nd_task_cgroup(task);
	e->tgid = nd_task_tgid(task);
	e->parent = nd_task_tgid(BPF_CORE_READ(task, real_parent));
	e->exit_code = exit_code;
	e->kind = kind;
	BPF_CORE_READ_STR_INTO(&e->comm, task, comm);
	if (filename)
		bpf_probe_read_kernel_str(e->filename, sizeof(e->filename), filename);
	nd_submit_now(e);
}

/* First meeting with a process: say so once, so that user space looks at it while it lives. */
static __always_inline void nd_write_process_once(struct task_struct *task, __u32 tgid)
{
	__u8 one = 1;

	if (!tgid || bpf_map_lookup_elem(&known_processes, &tgid))
		return; /* 0: of no PID namespace that is seen from here */
	if (bpf_map_update_elem(&known_processes, &tgid, &one, BPF_NOEXIST))
		return;
	nd_write_process(task, ND_PROCESS_SEEN, 0,
			 (const char *)BPF_CORE_READ(task, mm, exe_file, f_path.dentry, d_name.name));
}

static __always_inline void nd_meet_process(__u32 tgid)
{
	nd_write_process_once((void *)bpf_get_current_task(), tgid);
}

#endif
