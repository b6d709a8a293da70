/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the weights probe notes between events: sums of threads, files and requests, and the rings they go out by. */
#ifndef NETDIAG_WEIGHTS_MAPS_H
#define NETDIAG_WEIGHTS_MAPS_H

#include "filter.h"
#include "kernel.h"
#include "ring.h"
#include "weights.h"
#include "weights_kernel.h"

#define ND_FLUSH_NS 100000000ULL
/* include/linux/stat.h: kinds of files */
#define ND_S_IFMT 0170000
#define ND_S_IFREG 0100000
#define ND_S_IFCHR 0020000

ND_RING(weights_threads, 1 << 18);
ND_RING(weights_files, 1 << 18);
ND_RING(weights_requests, 1 << 18);
ND_RING(weights_paths, 1 << 18);

struct nd_thread {
	struct weights_thread_event e;
	__u64 since;
	__u64 flushed;
	__u64 base_read_bytes, base_device_bytes, base_reads, base_minor, base_major;
	__u64 inode; /* file that it last touched */
	__u64 copy_bytes; /* of the copy that it is in */
	__u64 reclaiming; /* since when, 0 = not */
	__u8 copying;
	__u8 from; /* enum source_of */
	__u8 reserved[6];
	__u32 device;
	__u8 running;
	__u8 ready;
	__u8 class;
	__u8 slept;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct nd_thread);
} nd_threads SEC(".maps");

struct nd_file_key {
	__u64 inode;
	__u32 device;
	__u32 tgid;
};

struct nd_file {
	struct weights_file_event e;
	__u64 flushed;
	__u64 last_fault, last_around, last_ahead, last_get;
	__u32 tid;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nd_file_key);
	__type(value, struct nd_file);
} nd_files SEC(".maps");

/* Files that any target touched: device requests belong to them. tgid is 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nd_file_key);
	__type(value, __u8);
} nd_known_files SEC(".maps");

struct nd_request_key {
	__u64 inode;
	__u32 device;
	__u32 tgid;
	__u32 source;
	__u32 reserved;
};

struct nd_requests {
	struct weights_request_event e;
	__u64 flushed;
	__u64 under_way;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nd_request_key);
	__type(value, struct nd_requests);
} nd_request_sums SEC(".maps");

struct nd_started {
	struct nd_request_key key;
	__u64 at;
	__u64 sent; /* 1 = the device has it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct nd_started);
} nd_under_way SEC(".maps");

/* Room for what is too large for a stack. */
struct nd_room {
	struct nd_thread thread;
	struct nd_file file;
	struct nd_requests requests;
	const void *mapping; /* of the last event that was looked at */
	__u32 in_window; /* events since the last sample on this processor */
	__u32 turn;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nd_room);
} nd_rooms SEC(".maps");

static __always_inline struct nd_room *room(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nd_rooms, &zero);
}

static __always_inline bool is_target(struct task_struct *task)
{
	__u32 tgid = nd_task_tgid(task);

	return tgid && bpf_map_lookup_elem(&targets, &tgid);
}

#endif
