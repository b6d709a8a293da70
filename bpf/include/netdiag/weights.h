/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Records about how files get into memory: where the time of a thread went,
 * what was touched of a file, what a device was asked for. All of them are
 * cumulative pictures, written at most ten times a second and at the end.
 */
#ifndef NETDIAG_WEIGHTS_H
#define NETDIAG_WEIGHTS_H

#include "types.h"

/* What a thread was in the middle of when it ran or stopped. */
enum nd_weights_class {
	ND_IN_USER = 0,
	ND_IN_FAULT = 1, /* an exception from user mode: page faults */
	ND_IN_READ = 2, /* a system call that reads from a descriptor */
	ND_IN_POPULATE = 3, /* mmap, madvise, mlock: they may fault pages in by themselves */
	ND_IN_IOCTL = 4, /* how drivers are called */
	ND_IN_OTHER = 5, /* any other system call */
};

enum nd_weights_kind {
	ND_WEIGHTS_SNAPSHOT = 1,
	ND_WEIGHTS_EXIT = 2,
	ND_WEIGHTS_LAST = 3, /* still there when the trace ended */
};

struct weights_thread_event {
	nd_ktime_ns time;
	nd_ktime_ns began; /* first seen running */
	nd_duration_ns run; /* on a processor */
	nd_duration_ns ready; /* pushed off a processor */
	nd_duration_ns blocked_fault;
	nd_duration_ns blocked_read;
	nd_duration_ns blocked_populate;
	nd_duration_ns blocked_ioctl;
	nd_duration_ns blocked_other; /* in a system call, not to be interrupted */
	nd_duration_ns copying; /* inside calls that copy to a GPU: in none of the others */
	nd_duration_ns slept; /* it waited for something that may be anything */
	nd_bytes read_bytes; /* by read() and its kind, from memory or not */
	nd_bytes device_bytes; /* fetched from a device on its behalf */
	__u64 reads; /* calls */
	__u64 minor_faults;
	__u64 major_faults;
	__u64 copies; /* to a GPU */
	nd_bytes copy_bytes;
	nd_bytes copy_file_bytes; /* from mappings of files */
	nd_bytes copy_device_bytes; /* from memory that a driver mapped: pinned */
	__u64 copies_small; /* of under 256 KiB */
	nd_duration_ns reclaim; /* freeing memory before it got any: part of the others */
	__u64 reclaims;
	__u32 sampled_user;
	__u32 sampled_fault;
	__u32 sampled_read;
	__u32 sampled_populate;
	__u32 sampled_ioctl;
	__u32 sampled_other;
	__u32 waits_fault; /* faults that gave the processor away */
	__u32 waits_read;
	nd_pid tgid;
	nd_tid tid;
	__u8 kind; /* enum nd_weights_kind */
	__u8 reserved[7];
	char comm[16];
};

/* What one process touched of one file. */
struct weights_file_event {
	nd_ktime_ns time;
	nd_ktime_ns began; /* first touched */
	__u64 inode;
	nd_bytes size;
	__u64 pages_first; /* of it in the page cache before the first touch */
	__u64 pages_last; /* at this record */
	__u64 faults; /* that were not served by mapping what lies around an earlier one */
	__u64 faults_forward;
	__u64 faults_backward;
	__u64 faults_near; /* forward or backward by at most 4 MiB */
	__u64 around; /* faults that mapped pages of the cache around them */
	__u64 around_pages; /* pages of those ranges */
	__u64 around_forward;
	__u64 around_backward;
	__u64 around_near; /* at most 4 MiB from the one before */
	__u64 readahead_waited; /* begun because a page was missing */
	__u64 readahead_ahead; /* begun before it was needed */
	__u64 readahead_backward; /* at a lower place than the one before */
	__u64 gets; /* looks of read() into the page cache */
	__u64 get_pages; /* pages that they asked for */
	__u64 gets_backward;
	__u32 thread_changes; /* how often another thread than before touched it */
	__u32 sampled; /* looks at processors that found a thread reading it */
	__u32 window; /* largest readahead window, pages */
	__u32 device; /* major << 20 | minor */
	nd_pid tgid;
	__u32 reserved;
};

enum nd_weights_source {
	ND_FROM_DEVICE = 1, /* block requests for the page cache */
	ND_FROM_FUSE = 2,
	ND_FROM_DIRECT = 3, /* block requests into the program's own memory: O_DIRECT */
};

/* Requests for one file; those of FUSE and O_DIRECT by the process that waited. */
struct weights_request_event {
	nd_ktime_ns time;
	nd_ktime_ns began;
	__u64 inode;
	nd_bytes bytes;
	__u64 requests;
	__u64 answered; /* requests whose answer was seen */
	nd_duration_ns latency; /* of all those */
	nd_duration_ns latency_max;
	__u64 depth; /* requests under way when one began, itself included, summed */
	__u32 upto_4k;
	__u32 upto_16k;
	__u32 upto_64k;
	__u32 upto_128k;
	__u32 upto_256k;
	__u32 upto_512k;
	__u32 upto_1m;
	__u32 above_1m;
	__u32 device;
	nd_pid tgid; /* 0 = any */
	__u8 source; /* enum nd_weights_source */
	__u8 reserved[7];
};

#define ND_PATH_NAME_BYTES 128
#define ND_PATH_PART_BYTES 64

/* Where a file lies in its file system, written once: name first, then the folders up to the root of the mount. */
struct weights_path_event {
	nd_ktime_ns time;
	__u64 inode;
	nd_bytes size;
	__u32 device;
	nd_pid tgid;
	__u32 parts;
	__u32 magic; /* of the file system: uapi/linux/magic.h */
	char part_1[ND_PATH_NAME_BYTES];
	char part_2[ND_PATH_PART_BYTES];
	char part_3[ND_PATH_PART_BYTES];
	char part_4[ND_PATH_PART_BYTES];
	char part_5[ND_PATH_PART_BYTES];
	char part_6[ND_PATH_PART_BYTES];
	char part_7[ND_PATH_PART_BYTES];
	char part_8[ND_PATH_PART_BYTES];
	char part_9[ND_PATH_PART_BYTES];
	char part_10[ND_PATH_PART_BYTES];
	char part_11[ND_PATH_PART_BYTES];
	char part_12[ND_PATH_PART_BYTES];
};

#endif
