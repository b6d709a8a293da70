/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How a call that moved plaintext becomes records: which of its bytes are copied, and how many. */
#ifndef NETDIAG_PLAIN_TELL_H
#define NETDIAG_PLAIN_TELL_H

#include "core_fixes.h"
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
#define ND_PLAIN_PREFACE 24 /* RFC 9113 section 3.4 */
#define ND_PLAIN_FRAME_HEAD 9
#define ND_PLAIN_MOST_FRAMES 64 /* in one call */
#define ND_PLAIN_FEW_FRAMES 8 /* where the verifier looks at each turn */
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

struct nd_plain_parts {
	const struct nd_plain_object *o;
	struct nd_plain_piece piece;
	__u64 offset;
	__u32 left;
	__u32 parts;
};

static long nd_plain_part(__u32 turn, void *context)
{
	struct nd_plain_parts *w = context;

	w->piece.length = w->left > ND_PLAIN_LARGE_BYTES && turn + 1 < w->parts ? ND_PLAIN_LARGE_BYTES : w->left;
	nd_plain_tell_large(w->o, &w->piece, w->offset);
	w->offset += w->piece.length;
	w->piece.buffer += w->piece.length;
	w->left -= w->piece.length;
	return !w->left;
}

/* All of a call, in up to so many records; the last one is cut where they are not enough. */
static __always_inline void nd_plain_tell_parts(const struct nd_plain_object *o, const struct nd_plain_piece *p,
						__u64 offset, __u32 parts)
{
	struct nd_plain_parts w = { .o = o, .piece = *p, .offset = offset, .left = p->length, .parts = parts };

	if (nd_has_loop())
		bpf_loop(parts, nd_plain_part, &w, 0);
	else
		nd_plain_tell_large(o, p, offset);
}

/*
 * HTTP/2 (RFC 9113 section 4.1): frames are followed from head to head, so that of a transfer the head of each frame is
 * told and nobody loses the thread.
 */
struct nd_plain_walk {
	const struct nd_plain_object *o;
	struct nd_plain_piece piece;
	__u64 offset;
	__u64 buffer;
	__u32 length;
	__u32 at;
	__u32 *skip;
	__u8 *have;
	__u8 *head;
	bool tell;
};

/* One frame, or what this call has of it; returns whether there is more. */
static __always_inline bool nd_plain_step(struct nd_plain_walk *w)
{
	__u32 left = w->length - w->at, start = w->at, have = *w->have, take, part;

	if (!*w->skip || have) {
		if (have >= ND_PLAIN_FRAME_HEAD)
			return false;
		take = ND_PLAIN_FRAME_HEAD - have;
		if (take > left)
			take = left;
		asm volatile("" : "+r"(take));
		if (!take || take > ND_PLAIN_FRAME_HEAD ||
		    nd_plain_read(&w->piece, w->head + have, take, w->buffer + w->at))
			return false;
		have += take;
		w->at += take;
		left -= take;
		*w->have = have < ND_PLAIN_FRAME_HEAD ? have : 0;
		if (have == ND_PLAIN_FRAME_HEAD)
			*w->skip = (__u32)w->head[0] << 16 | (__u32)w->head[1] << 8 | w->head[2];
	}
	if (!*w->have) {
		part = *w->skip < left ? *w->skip : left;
		*w->skip -= part;
		w->at += part;
	}
	if (w->tell) {
		w->piece.buffer = w->buffer + start;
		w->piece.length = w->at - start;
		nd_plain_tell_small(w->o, &w->piece, w->offset + start);
	}
	return w->at < w->length;
}

static long nd_plain_step_once(__u32 turn, void *context)
{
	return !nd_plain_step(context);
}

static __always_inline void nd_plain_walk(struct nd_plain_object *o, const struct nd_plain_piece *p, __u64 offset,
					  bool tell)
{
	bool sent = p->direction == ND_SEND;
	struct nd_plain_walk w = {
		.o = o,
		.piece = *p,
		.offset = offset,
		.buffer = p->buffer,
		.length = p->length,
		.skip = sent ? &o->skip[0] : &o->skip[1],
		.have = sent ? &o->have[0] : &o->have[1],
		.head = sent ? o->head[0] : o->head[1],
		.tell = tell,
	};

	if (nd_has_loop())
		bpf_loop(ND_PLAIN_MOST_FRAMES, nd_plain_step_once, &w, 0);
	else
		for (int i = 0; i < ND_PLAIN_FEW_FRAMES; i++)
			if (!nd_plain_step(&w))
				break;
	if (tell && w.at < w.length) {
		w.piece.buffer = w.buffer + w.at;
		w.piece.length = w.length - w.at;
		nd_plain_tell_small(o, &w.piece, w.offset + w.at);
	}
}

static __always_inline void nd_plain_tell(struct nd_plain_object *o, const struct nd_plain_piece *p)
{
	bool sent = p->direction == ND_SEND;
	__u64 *count = sent ? &o->moved[0] : &o->moved[1], offset = *count;
	__u32 *large = sent ? &o->large[0] : &o->large[1], *other = sent ? &o->large[1] : &o->large[0];
	bool bulk;

	*count += p->length;
	if (p->length < ND_PLAIN_LARGE_CALL)
		*large = 0;
	else
		(*large)++;
	if (p->length >= ND_PLAIN_LEAST_REQUEST)
		*other = 0;
	if (!offset && !o->framed && o->whole && !(p->flags & ND_PLAIN_UNSEEN) && nd_plain_is_preface(p)) {
		o->framed = 1;
		o->skip[sent ? 0 : 1] = ND_PLAIN_PREFACE;
	}
	bulk = *large > ND_PLAIN_BULK_CALLS;
	if (o->framed && p->length && !(p->flags & ND_PLAIN_UNSEEN)) {
		bool cut = bulk || p->length > ND_PLAIN_PARTS * ND_PLAIN_LARGE_BYTES;

		nd_plain_walk(o, p, offset, cut);
		if (cut)
			return;
	}
	if (p->length <= ND_PLAIN_SMALL_BYTES || bulk || p->flags & ND_PLAIN_UNSEEN)
		nd_plain_tell_small(o, p, offset);
	else
		nd_plain_tell_parts(o, p, offset, o->framed ? ND_PLAIN_PARTS : 1);
}

#endif
