/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ring buffers: one fixed record size each, losses counted in the kernel, the
 * reader woken only when another quarter has filled (it also looks on a timer).
 * A wake-up can cost the writer, which is the traced program, 50 times as much
 * as its record, so a reader that is late must not make every record wake it.
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

#define ND_RECORD_HEADER 8

/* Twice the record's room, since two processors may pass the mark together. */
static __always_inline __u64 nd_wakeup(void *ring, __u64 record)
{
	__u64 available = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	__u64 quarter = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 4;
	__u64 passed = available & (quarter - 1); /* a ring's size is a power of two */

	if (available >= quarter && passed < 2 * (record + ND_RECORD_HEADER))
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

#define nd_reserve(NAME, TYPE)                                                 \
	({                                                                     \
		TYPE *record_ = bpf_ringbuf_reserve(&NAME, sizeof(TYPE), 0);   \
		__sync_fetch_and_add(record_ ? &NAME##_seen : &NAME##_lost, 1); \
		record_;                                                       \
	})

#define nd_submit(NAME, RECORD) bpf_ringbuf_submit(RECORD, nd_wakeup(&NAME, sizeof(*(RECORD))))

/* For rare records that user space must see while the process they speak of still lives. */
#define nd_submit_now(RECORD) bpf_ringbuf_submit(RECORD, BPF_RB_FORCE_WAKEUP)

#endif
