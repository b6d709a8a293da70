// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Names: calls into the C library that look them up, and DNS messages on the wire for programs that ask by themselves.
 *
 * On the wire only messages are taken that a traced process sends to port 53 or gets from there, and only such as look
 * like DNS: what else a program may send to that port is never copied. They are read in user space, without privileges.
 */

#include "netdiag/name_calls.h"
#include "netdiag/packet.h"
#include "netdiag/process.h"
#include "netdiag/ring.h"
#include "netdiag/sock.h"

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emit the layouts into BTF. */
const struct name_lookup_event *nd_layout_name_lookup_event __attribute__((unused));
const struct dns_message_event *nd_layout_dns_message_event __attribute__((unused));

ND_RING(message_events, 1 << 20);

#define DNS_PORT 53
#define DNS_HEADER_BYTES 12
#define UDP_HEADER_BYTES 8

/* A socket of a traced process that talks to port 53. */
struct dns_sock {
	__u64 netns;
	__u32 tgid;
	__u32 tid;
	__u32 start[2]; /* TCP: sequence number of the first byte sent, received */
	__u8 started[2];
	__u8 is_dns; /* TCP: the first bytes that were sent looked like it */
	__u8 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dns_sock);
} dns_sockets SEC(".maps");

static __always_inline void take_socket(struct bpf_sock_addr *ctx)
{
	struct dns_sock *s;

	if (ctx->user_port != bpf_htons(DNS_PORT) || !ctx->sk)
		return;
	if ((ctx->protocol != IPPROTO_UDP && ctx->protocol != IPPROTO_TCP) || !nd_wanted_task())
		return;
	s = bpf_sk_storage_get(&dns_sockets, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	s->netns = bpf_get_netns_cookie(ctx);
	s->tgid = nd_current_tgid();
	s->tid = nd_current_tid();
	nd_meet_process(s->tgid);
}

SEC("cgroup/connect4")
int dns_connect4(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

SEC("cgroup/connect6")
int dns_connect6(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

SEC("cgroup/sendmsg4")
int dns_sendmsg4(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

SEC("cgroup/sendmsg6")
int dns_sendmsg6(struct bpf_sock_addr *ctx)
{
	take_socket(ctx);
	return 1;
}

struct packet {
	__u32 payload; /* offset */
	__u32 length;
	__u32 seq; /* TCP */
	__u16 source; /* ports, host order */
	__u16 target;
};

static __always_inline bool find_payload(struct __sk_buff *skb, struct packet *p, __u8 protocol)
{
	__u32 at = nd_transport(skb, protocol);
	__u8 head[14];

	if (!at)
		return false;
	if (protocol == IPPROTO_UDP) {
		if (bpf_skb_load_bytes(skb, at, head, UDP_HEADER_BYTES))
			return false;
		p->payload = at + UDP_HEADER_BYTES;
		p->seq = 0;
	} else {
		if (bpf_skb_load_bytes(skb, at, head, 14))
			return false;
		p->payload = at + (head[12] >> 4) * 4;
		p->seq = ((__u32)head[4] << 24 | head[5] << 16 | head[6] << 8 | head[7]) + !!(head[13] & 2);
	}
	p->source = (__u16)head[0] << 8 | head[1];
	p->target = (__u16)head[2] << 8 | head[3];
	if (skb->len <= p->payload)
		return false;
	p->length = skb->len - p->payload;
	return true;
}

/* One question, an ordinary one: opcode and the reserved bit are 0 (RFC 1035 section 4.1.1). */
static __always_inline bool looks_like_dns(struct __sk_buff *skb, __u32 at)
{
	__u8 h[6];

	return !bpf_skb_load_bytes(skb, at, h, sizeof(h)) && !(h[2] & 0x78) && !(h[3] & 0x40) && !h[4] && h[5] == 1;
}

static __always_inline bool is_dns_stream(struct __sk_buff *skb, struct dns_sock *s, const struct packet *p, __u32 offset)
{
	if (s->is_dns)
		return true;
	if (offset == 0 && p->length == 2)
		return true; /* the length of a message, on its own: nothing else yet */
	if (offset == 0 && p->length >= 2 + DNS_HEADER_BYTES)
		s->is_dns = looks_like_dns(skb, p->payload + 2);
	else if (offset == 2 && p->length >= DNS_HEADER_BYTES)
		s->is_dns = looks_like_dns(skb, p->payload);
	return s->is_dns;
}

static __always_inline void remote_of(struct __sk_buff *skb, nd_addr *to, bool sent)
{
	__be32 v4 = 0;
	__u8 first = 0;

	bpf_skb_load_bytes(skb, 0, &first, 1);
	if (first >> 4 == 4) {
		bpf_skb_load_bytes(skb, sent ? 16 : 12, &v4, sizeof(v4));
		nd_map_v4(to, v4);
	} else {
		bpf_skb_load_bytes(skb, sent ? 24 : 8, to, sizeof(*to));
	}
}

static __always_inline void write_message(struct __sk_buff *skb, const struct dns_sock *s, const struct packet *p,
					  __u8 direction, __u8 transport, __u32 offset)
{
	struct dns_message_event *e = nd_reserve(message_events, struct dns_message_event);
	__u32 size = p->length;

	if (!e)
		return;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->cookie = bpf_get_socket_cookie(skb);
	e->netns = s->netns;
	e->tgid = s->tgid;
	e->tid = s->tid;
	e->offset = offset;
	e->length = p->length > 0xffff ? 0xffff : p->length;
	e->direction = direction;
	e->transport = transport;
	e->local_port = direction == ND_SEND ? p->source : p->target;
	e->remote_port = DNS_PORT;
	remote_of(skb, &e->remote, direction == ND_SEND);
	if (size > ND_DNS_BYTES)
		size = ND_DNS_BYTES;
	if (size > 0 && size <= ND_DNS_BYTES && !bpf_skb_load_bytes(skb, p->payload, e->data, size))
		e->copied = size;
	nd_submit(message_events, e);
}

static __always_inline void handle_packet(struct __sk_buff *skb, __u8 direction)
{
	struct bpf_sock *sk = skb->sk;
	struct dns_sock *s;
	struct packet p;
	__u32 offset = 0, way = direction == ND_SEND ? 0 : 1;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk || (sk->protocol != IPPROTO_UDP && sk->protocol != IPPROTO_TCP))
		return;
	if (sk->protocol == IPPROTO_TCP && sk->dst_port != bpf_htons(DNS_PORT))
		return; /* most packets of a machine */
	s = bpf_sk_storage_get(&dns_sockets, sk, 0, 0);
	if (!s || !find_payload(skb, &p, sk->protocol))
		return;
	if ((direction == ND_SEND ? p.target : p.source) != DNS_PORT)
		return;
	if (sk->protocol == IPPROTO_UDP) {
		if (looks_like_dns(skb, p.payload))
			write_message(skb, s, &p, direction, ND_TRANSPORT_UDP, 0);
		return;
	}
	if (!s->started[way]) {
		s->started[way] = 1;
		s->start[way] = p.seq;
	}
	offset = p.seq - s->start[way];
	if (direction == ND_SEND ? is_dns_stream(skb, s, &p, offset) : s->is_dns)
		write_message(skb, s, &p, direction, ND_TRANSPORT_TCP, offset);
}

SEC("cgroup_skb/egress")
int dns_egress(struct __sk_buff *skb)
{
	handle_packet(skb, ND_SEND);
	return 1;
}

SEC("cgroup_skb/ingress")
int dns_ingress(struct __sk_buff *skb)
{
	handle_packet(skb, ND_RECEIVE);
	return 1;
}
