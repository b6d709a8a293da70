/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How a call that moved plaintext becomes records: which of its bytes are copied, and how many. */
#ifndef NETDIAG_PLAIN_TELL_H
#define NETDIAG_PLAIN_TELL_H

#include "event.h"
#include "filter.h"
#include "plain.h"
#include "ring.h"

ND_RING(plain_events, 1 << 20);
ND_RING(plain_large_events, 1 << 22);

__u32 plain_numbers = 0; /* of TLS objects */

#define ND_PLAIN_SMALL_FIRST 192 /* of a call that is cut to a small record */
#define ND_PLAIN_LARGE_FIRST 3072
#define ND_PLAIN_LARGE_CALL 8192
#define ND_PLAIN_BULK_CALLS 16 /* so many large calls in a row are a transfer, of which only the ends are looked at */
#define ND_PLAIN_PARTS 5 /* records for one call: a TLS record holds 16 KiB */
#define ND_PLAIN_LEAST_REQUEST 27 /* smaller ones may just open the window of a stream of HTTP/2 */

struct nd_plain_piece {
	__u64 now;
	__u64 entered;
	__u64 buffer; /* in the process's memory, or where in the packet */
	struct __sk_buff *packet;
	__u32 length;
	__u32 tgid;
	__u32 tid;
	__u8 direction;
	__u8 flags;
};

static __always_inline void nd_plain_head(struct plain_event *e, const struct nd_plain_object *o,
					  const struct nd_plain_piece *p, __u64 offset)
{
	e->time = p->now;
	e->entered = p->entered;
	e->cookie = o->cookie;
	e->offset = offset;
	e->handle = o->number;
	e->generation = o->generation;
	e->length = p->length;
	e->copied = 0;
	e->tail = 0;
	e->tgid = p->tgid;
	e->tid = p->tid;
	e->direction = p->direction;
	e->library = o->library;
	e->binding = o->binding;
	e->flags = p->flags | (o->whole ? ND_PLAIN_WHOLE : 0) | (o->mixed ? ND_PLAIN_MIXED : 0);
}

/* SIZE is a constant, or was tested right before. */
#define nd_plain_read(PIECE, TO, SIZE, FROM)                                                           \
	((PIECE)->packet ? bpf_skb_load_bytes((PIECE)->packet, (FROM), (TO), (SIZE)) :                 \
			   bpf_probe_read_user((TO), (SIZE), (const void *)(FROM)))

/* Copies all bytes, or the first and the last ones of more than there is room for. */
#define nd_plain_copy(DATA, ROOM, FIRST, EVENT, PIECE)                                                 \
	({                                                                                             \
		__u32 count_ = (PIECE)->length;                                                        \
		__u64 from_ = (PIECE)->buffer;                                                         \
		if (count_ > (ROOM)) {                                                                 \
			if (!nd_plain_read(PIECE, (DATA), (FIRST), from_)) {                           \
				(EVENT)->copied = (FIRST);                                             \
				if (!nd_plain_read(PIECE, (DATA) + (FIRST), (ROOM) - (FIRST),          \
						   from_ + count_ - ((ROOM) - (FIRST))))               \
					(EVENT)->tail = (ROOM) - (FIRST);                              \
			}                                                                              \
		} else {                                                                               \
			asm volatile("" : "+r"(count_));                                               \
			if (count_ > 0 && count_ <= (ROOM) && !nd_plain_read(PIECE, (DATA), count_, from_)) \
				(EVENT)->copied = count_;                                              \
		}                                                                                      \
		if (!(EVENT)->copied)                                                                  \
			(EVENT)->flags |= ND_PLAIN_UNSEEN;                                             \
	})

static __always_inline void nd_plain_tell_small(const struct nd_plain_object *o, const struct nd_plain_piece *p,
						__u64 offset)
{
	struct plain_event *e = nd_reserve(plain_events, struct plain_event);

	if (!e)
		return;
	nd_plain_head(e, o, p, offset);
	if (p->length && !(p->flags & ND_PLAIN_UNSEEN))
		nd_plain_copy(e->data, ND_PLAIN_SMALL_BYTES, ND_PLAIN_SMALL_FIRST, e, p);
	nd_submit(plain_events, e);
}

static __always_inline void nd_plain_tell_large(const struct nd_plain_object *o, const struct nd_plain_piece *p,
						__u64 offset)
{
	struct plain_large_event *e = nd_reserve(plain_large_events, struct plain_large_event);

	if (!e)
		return;
	nd_plain_head((struct plain_event *)e, o, p, offset);
	nd_plain_copy(e->data, ND_PLAIN_LARGE_BYTES, ND_PLAIN_LARGE_FIRST, e, p);
	nd_submit(plain_large_events, e);
}

/* HTTP/2 begins with "PRI * HTTP/2.0" (RFC 9113 section 3.4), whoever sends it. */
static __always_inline bool nd_plain_is_preface(const struct nd_plain_piece *p)
{
	__u64 start = 0;

	if (p->length < sizeof(start) || nd_plain_read(p, &start, sizeof(start), p->buffer))
		return false;
	return start == 0x5448202a20495250ULL; /* "PRI * HT", the first byte lowest */
}

/* All of a call, in as many records as it takes. */
static __always_inline void nd_plain_tell_parts(const struct nd_plain_object *o, const struct nd_plain_piece *whole,
						__u64 offset)
{
	struct nd_plain_piece p = *whole;
	__u32 left = whole->length;

	for (int i = 0; i < ND_PLAIN_PARTS && left; i++) {
		p.length = left > ND_PLAIN_LARGE_BYTES && i < ND_PLAIN_PARTS - 1 ? ND_PLAIN_LARGE_BYTES : left;
		nd_plain_tell_large(o, &p, offset);
		offset += p.length;
		p.buffer += p.length;
		left -= p.length;
	}
}

static __always_inline void nd_plain_tell(struct nd_plain_object *o, const struct nd_plain_piece *p)
{
	bool sent = p->direction == ND_SEND;
	__u64 *count = sent ? &o->moved[0] : &o->moved[1], offset = *count;
	__u32 *large = sent ? &o->large[0] : &o->large[1], *other = sent ? &o->large[1] : &o->large[0];

	*count += p->length;
	if (p->length < ND_PLAIN_LARGE_CALL)
		*large = 0;
	else
		(*large)++;
	if (p->length >= ND_PLAIN_LEAST_REQUEST)
		*other = 0;
	if (!offset && !o->framed && o->whole && !(p->flags & ND_PLAIN_UNSEEN))
		o->framed = nd_plain_is_preface(p);
	if (p->length <= ND_PLAIN_SMALL_BYTES || *large > ND_PLAIN_BULK_CALLS || p->flags & ND_PLAIN_UNSEEN)
		nd_plain_tell_small(o, p, offset);
	else if (o->framed && p->length > ND_PLAIN_LARGE_BYTES)
		nd_plain_tell_parts(o, p, offset);
	else
		nd_plain_tell_large(o, p, offset);
}

#endif
