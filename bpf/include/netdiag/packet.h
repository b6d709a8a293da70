/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Finds header and payload of TCP and UDP in a packet as cgroup_skb programs see it: from the IP header on. */
#ifndef NETDIAG_PACKET_H
#define NETDIAG_PACKET_H

#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct nd_segment {
	__u32 seq; /* of the first payload byte */
	__u32 payload; /* offset in the packet */
	__u32 length;
	bool last; /* FIN or RST */
};

#define ND_MAX_EXTENSION_HEADERS 4

static __always_inline bool nd_is_extension(__u8 next)
{
	return next == 0 || next == 43 || next == 60; /* hop-by-hop, routing, destination options */
}

/* Returns the offset of the wanted protocol's header, or 0 when there is none. */
static __always_inline __u32 nd_transport(struct __sk_buff *skb, __u8 wanted)
{
	__u8 first, protocol, head[2];
	__u32 at = 40;

	if (bpf_skb_load_bytes(skb, 0, &first, 1))
		return 0;
	if (first >> 4 == 4) {
		if (bpf_skb_load_bytes(skb, 9, &protocol, 1) || protocol != wanted)
			return 0;
		return (first & 0xf) * 4;
	}
	if (first >> 4 != 6 || bpf_skb_load_bytes(skb, 6, &protocol, 1))
		return 0;
	for (int i = 0; i < ND_MAX_EXTENSION_HEADERS && nd_is_extension(protocol); i++) {
		if (bpf_skb_load_bytes(skb, at, head, 2))
			return 0;
		protocol = head[0];
		at += (head[1] + 1) * 8;
	}
	return protocol == wanted ? at : 0;
}

static __always_inline bool nd_segment(struct __sk_buff *skb, struct nd_segment *s)
{
	__u32 at = nd_transport(skb, IPPROTO_TCP);
	__u8 tcp[14];

	if (!at || bpf_skb_load_bytes(skb, at, tcp, sizeof(tcp)))
		return false;
	/* a SYN takes a number of its own, before that of the first byte: RFC 9293 section 3.4 */
	s->seq = ((__u32)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7]) + !!(tcp[13] & 2);
	s->payload = at + (tcp[12] >> 4) * 4;
	s->last = tcp[13] & 5;
	if (skb->len <= s->payload)
		return false;
	s->length = skb->len - s->payload;
	return true;
}

#endif
