/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Requests that devices and FUSE servers are asked for files: made, sent, ended; and whose pages a request fills. */
#ifndef NETDIAG_WEIGHTS_REQUESTS_H
#define NETDIAG_WEIGHTS_REQUESTS_H

#include "weights_maps.h"

/* include/linux/page-flags.h: a tail page points to its head */
#define ND_TAIL 1UL

static __always_inline struct nd_requests *sums_of(struct nd_request_key *key, __u64 now)
{
	struct nd_requests *s = bpf_map_lookup_elem(&nd_request_sums, key);
	struct nd_room *r;

	if (s)
		return s;
	r = room();
	if (!r)
		return 0;
	s = &r->requests;
	__builtin_memset(s, 0, sizeof(*s));
	s->e.began = s->flushed = now;
	s->e.inode = key->inode;
	s->e.device = key->device;
	s->e.tgid = key->tgid;
	s->e.source = key->source;
	bpf_map_update_elem(&nd_request_sums, key, s, BPF_NOEXIST);
	return bpf_map_lookup_elem(&nd_request_sums, key);
}

static __always_inline void count_size(struct weights_request_event *e, __u64 bytes)
{
	if (bytes <= 4096)
		e->upto_4k++;
	else if (bytes <= 16384)
		e->upto_16k++;
	else if (bytes <= 65536)
		e->upto_64k++;
	else if (bytes <= 131072)
		e->upto_128k++;
	else if (bytes <= 262144)
		e->upto_256k++;
	else if (bytes <= 524288)
		e->upto_512k++;
	else if (bytes <= 1048576)
		e->upto_1m++;
	else
		e->above_1m++;
}

static __always_inline void write_requests(struct nd_requests *s, __u64 now)
{
	s->e.time = now;
	s->flushed = now;
	__sync_fetch_and_add(bpf_ringbuf_output(&weights_requests, &s->e, sizeof(s->e), BPF_RB_NO_WAKEUP) ?
				     &weights_requests_lost :
				     &weights_requests_seen,
			     1);
}

/* A request that is made may still grow, or be merged into another one: it counts when it is sent. */
static __always_inline void make_request(__u64 id, struct nd_request_key *key)
{
	struct nd_started started = { .key = *key, .at = bpf_ktime_get_ns() };
	struct nd_started *before = bpf_map_lookup_elem(&nd_under_way, &id);
	struct nd_requests *s;

	if (before && before->sent) { /* the kernel runs no program inside itself: its end fell into such a moment */
		s = bpf_map_lookup_elem(&nd_request_sums, &before->key);
		if (s)
			__sync_fetch_and_add(&s->under_way, -1);
	}
	bpf_map_update_elem(&nd_under_way, &id, &started, BPF_ANY);
}

static __always_inline void send_request(__u64 id, __u64 bytes)
{
	struct nd_started *started = bpf_map_lookup_elem(&nd_under_way, &id);
	struct nd_request_key key;
	struct nd_requests *s;

	if (!started || started->sent)
		return;
	started->sent = 1;
	key = started->key;
	s = sums_of(&key, started->at);
	if (!s)
		return;
	__sync_fetch_and_add(&s->e.depth, __sync_fetch_and_add(&s->under_way, 1) + 1);
	__sync_fetch_and_add(&s->e.requests, 1);
	__sync_fetch_and_add(&s->e.bytes, bytes);
	count_size(&s->e, bytes);
}

static __always_inline void end_request(__u64 id)
{
	struct nd_started *started = bpf_map_lookup_elem(&nd_under_way, &id);
	struct nd_requests *s;
	__u64 now, took;

	if (!started)
		return;
	if (!started->sent) {
		bpf_map_delete_elem(&nd_under_way, &id);
		return;
	}
	now = bpf_ktime_get_ns();
	took = now - started->at;
	s = bpf_map_lookup_elem(&nd_request_sums, &started->key);
	if (s) {
		__sync_fetch_and_add(&s->under_way, -1);
		__sync_fetch_and_add(&s->e.answered, 1);
		__sync_fetch_and_add(&s->e.latency, took);
		if (took > s->e.latency_max)
			s->e.latency_max = took;
		if (now - s->flushed >= ND_FLUSH_NS)
			write_requests(s, now);
	}
	bpf_map_delete_elem(&nd_under_way, &id);
}

static __always_inline struct address_space___w *mapping_of(struct request___w *rq)
{
	struct bio___w *bio = BPF_CORE_READ(rq, bio);
	struct page___w *page = 0;
	struct bio_vec___w *vec;
	unsigned long head;

	if (!bio)
		return 0;
	vec = (void *)BPF_CORE_READ(bio, bi_io_vec) +
	      (unsigned long)BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec___w);
	page = BPF_CORE_READ(vec, bv_page);
	if (!page)
		return 0;
	head = BPF_CORE_READ(page, compound_head);
	if (head & ND_TAIL)
		page = (void *)(head - 1);
	return BPF_CORE_READ((struct folio___w *)page, mapping);
}

#endif
