/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Semantic types. The typedef names survive in BTF, so user space knows the
 * unit and meaning of a column without being told a second time.
 */
#ifndef NETDIAG_TYPES_H
#define NETDIAG_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;

typedef __u64 nd_ktime_ns; /* CLOCK_MONOTONIC instant; 0 = not known */
typedef __u64 nd_duration_ns;
typedef __u32 nd_micros; /* duration in microseconds; 0 = not known */
typedef __u32 nd_jiffies; /* duration in jiffies of the traced kernel */
typedef __u64 nd_bytes;
typedef __u64 nd_cookie; /* SO_COOKIE */
typedef __u64 nd_cgroup; /* cgroup v2 id */
typedef __u64 nd_netns; /* net cookie */
typedef __u32 nd_pid; /* tgid */
typedef __u32 nd_tid;
typedef __s32 nd_errno; /* positive errno, 0 = none */
typedef __u16 nd_port; /* host order */
typedef __u16 nd_family;

typedef struct {
	__u8 bytes[16];
} nd_addr;

#endif
