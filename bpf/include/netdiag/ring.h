/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ring buffers: one fixed record size each, losses counted in the kernel,
 * the reader woken only when a quarter is full (it also looks on a timer), so
 * a busy program doesn't pay for a wake-up per event.
 */
#ifndef NETDIAG_RING_H
#define NETDIAG_RING_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define ND_RING(NAME, BYTES)                                                   \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                            \
		__uint(max_entries, BYTES);                                    \
	} NAME SEC(".maps");                                                   \
	__u64 NAME##_lost = 0;                                                 \
	__u64 NAME##_seen = 0

static __always_inline __u64 nd_wakeup(void *ring)
{
	__u64 available = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	__u64 size = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE);

	return available >= size / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#define nd_reserve(NAME, TYPE)                                                 \
	({                                                                     \
		TYPE *record_ = bpf_ringbuf_reserve(&NAME, sizeof(TYPE), 0);   \
		__sync_fetch_and_add(record_ ? &NAME##_seen : &NAME##_lost, 1); \
		record_;                                                       \
	})

#define nd_submit(NAME, RECORD) bpf_ringbuf_submit(RECORD, nd_wakeup(&NAME))

/* For rare records that user space must see while the process they speak of still lives. */
#define nd_submit_now(RECORD) bpf_ringbuf_submit(RECORD, BPF_RB_FORCE_WAKEUP)

#endif
