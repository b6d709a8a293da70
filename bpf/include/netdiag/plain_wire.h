/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* HTTP without TLS: the payload of the traced sockets that begin with a request, in the order of its sequence numbers. */
#ifndef NETDIAG_PLAIN_WIRE_H
#define NETDIAG_PLAIN_WIRE_H

#include "packet.h"
#include "plain_tell.h"
#include "tcp_sock.h"

#define ND_PLAIN_MOST_UNKNOWN 8 /* payloads that begin with no request, on a connection that is older than the trace */

struct nd_plain_wire {
	struct nd_plain_object object; /* a socket, not a TLS object: its number is 0 */
	__u32 next[2]; /* sequence numbers: sent, received */
	__u8 started[2];
	__u8 ended[2];
	__u8 http;
	__u8 off; /* it speaks something else */
	__u8 unknown;
	__u8 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct nd_plain_wire);
} plain_wires SEC(".maps");

#define ND_FOUR(A, B, C, D) ((__u32)(A) | (__u32)(B) << 8 | (__u32)(C) << 16 | (__u32)(D) << 24)

/* The methods that are in use, and the preface of HTTP/2. A request to CONNECT is followed by something else. */
static __always_inline bool nd_plain_begins_request(struct __sk_buff *skb, const struct nd_segment *seg)
{
	__u32 start;

	if (seg->length < 16 || bpf_skb_load_bytes(skb, seg->payload, &start, sizeof(start)))
		return false;
	return start == ND_FOUR('G', 'E', 'T', ' ') || start == ND_FOUR('P', 'O', 'S', 'T') ||
	       start == ND_FOUR('P', 'U', 'T', ' ') || start == ND_FOUR('H', 'E', 'A', 'D') ||
	       start == ND_FOUR('P', 'A', 'T', 'C') || start == ND_FOUR('D', 'E', 'L', 'E') ||
	       start == ND_FOUR('O', 'P', 'T', 'I') || start == ND_FOUR('P', 'R', 'I', ' ');
}

/* Decide by the first payload, in whichever direction; an older connection may be met in the middle of an answer. */
static __always_inline bool nd_plain_is_http(struct __sk_buff *skb, const struct nd_segment *seg, const struct nd_sock *s,
					     struct nd_plain_wire *w)
{
	if (w->http)
		return true;
	if (!nd_plain_begins_request(skb, seg)) {
		if (!(s->flags & ND_TCP_PREEXISTING) || ++w->unknown >= ND_PLAIN_MOST_UNKNOWN)
			w->off = 1;
		return false;
	}
	w->http = 1;
	w->object.cookie = bpf_get_socket_cookie(skb);
	w->object.binding = ND_PLAIN_BOUND_PACKET;
	w->object.whole = !(s->flags & ND_TCP_PREEXISTING);
	return true;
}

static __always_inline void nd_plain_payload(struct __sk_buff *skb, const struct nd_segment *seg, const struct nd_sock *s,
					     struct nd_plain_wire *w, __u8 direction)
{
	bool sent = direction == ND_SEND;
	__u32 *next = sent ? &w->next[0] : &w->next[1];
	__u8 *started = sent ? &w->started[0] : &w->started[1];
	__u8 *ended = sent ? &w->ended[0] : &w->ended[1];
	__u64 *count = sent ? &w->object.moved[0] : &w->object.moved[1];
	struct nd_plain_piece piece = {
		.now = bpf_ktime_get_ns(),
		.buffer = seg->payload,
		.packet = skb,
		.length = seg->length,
		.tgid = s->first_io_tgid ? s->first_io_tgid : s->tgid,
		.tid = s->first_io_tid ? s->first_io_tid : s->tid,
		.direction = direction,
	};
	__s32 ahead;

	if (!*started) {
		*started = 1;
		*next = seg->seq;
	}
	ahead = seg->seq - *next;
	if (ahead < 0) { /* sent before, as a whole or in part */
		if (piece.length <= -ahead)
			piece.length = 0;
		else {
			piece.length += ahead;
			piece.buffer -= ahead;
		}
	} else if (ahead) {
		*count += ahead; /* something is missing, or comes too late to be told */
	}
	if (piece.length) {
		*next = seg->seq + seg->length;
		nd_plain_tell(&w->object, &piece);
	}
	if (seg->last && !*ended) {
		*ended = 1;
		piece.length = 0;
		piece.flags = ND_PLAIN_END;
		nd_plain_tell_small(&w->object, &piece, *count);
	}
}

static __always_inline void nd_plain_packet(struct __sk_buff *skb, __u8 direction)
{
	struct bpf_sock *sk = skb->sk;
	struct nd_segment seg = {};
	struct nd_plain_wire *w;
	struct nd_sock *s;
	bool payload;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	if (!s || s->wire_mode == ND_MODE_TLS)
		return;
	w = bpf_sk_storage_get(&plain_wires, sk, 0, 0);
	if (w && w->off)
		return;
	payload = nd_segment(skb, &seg);
	if (!payload && !(seg.last && w && w->http))
		return;
	if (!w) {
		w = bpf_sk_storage_get(&plain_wires, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!w)
			return;
	}
	if (nd_plain_is_http(skb, &seg, s, w))
		nd_plain_payload(skb, &seg, s, w, direction);
}

#endif
