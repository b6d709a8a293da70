/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Readers of TCP sockets: addresses, ports, byte counts, flags. */
#ifndef NETDIAG_SOCK_H
#define NETDIAG_SOCK_H

#include "event.h"
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

static __always_inline __u16 nd_local_port(const struct sock *sk)
{
	/* skc_num is already 0 at TCP_CLOSE (inet_put_port ran first) */
	return bpf_ntohs(BPF_CORE_READ((const struct inet_sock *)sk, inet_sport));
}

static __always_inline __u16 nd_remote_port(const struct sock *sk)
{
	return bpf_ntohs(sk->__sk_common.skc_dport);
}

static __always_inline void nd_map_v4(nd_addr *to, __be32 from)
{
	__builtin_memset(to, 0, sizeof(*to));
	to->bytes[10] = to->bytes[11] = 0xff;
	__builtin_memcpy(&to->bytes[12], &from, 4);
}

/* An IPv6 socket that talks to an IPv4 peer keeps family AF_INET6 and holds ::ffff:a.b.c.d: that is IPv4. */
static __always_inline bool nd_is_mapped(const nd_addr *a)
{
	const __u32 *w = (const __u32 *)a;

	return !w[0] && !w[1] && w[2] == bpf_htonl(0xffff);
}

static __always_inline void nd_remote_address(const struct sock *sk, nd_addr *to)
{
	if (sk->__sk_common.skc_family == AF_INET6)
		BPF_CORE_READ_INTO(to, sk, __sk_common.skc_v6_daddr);
	else
		nd_map_v4(to, sk->__sk_common.skc_daddr);
}

static __always_inline void nd_local_address(const struct sock *sk, nd_addr *to)
{
	if (sk->__sk_common.skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(to, sk, __sk_common.skc_v6_rcv_saddr);
		if (!nd_is_mapped(to))
			return;
	}
	nd_map_v4(to, BPF_CORE_READ((const struct inet_sock *)sk, inet_saddr));
}

static __always_inline bool nd_flag(const struct sock *sk, __u32 flag)
{
	return sk->__sk_common.skc_flags & (1ULL << flag);
}

#define ND_SOCK_FLAG(NAME) bpf_core_enum_value(enum sock_flags, NAME)

/* The peer's FIN took one number of the sequence space: net/ipv4/tcp_input.c, tcp_fin() sets SOCK_DONE. */
static __always_inline __u32 nd_fin_received(const struct sock *sk)
{
	return nd_flag(sk, ND_SOCK_FLAG(SOCK_DONE));
}

static __always_inline __u32 nd_unread(const struct tcp_sock *tp, __u32 fin)
{
	__s32 unread = tp->rcv_nxt - tp->copied_seq - fin;

	return unread > 0 ? unread : 0;
}

/* Segments out of order are counted since f9af2dbbfe01 "tcp: Add TCP_INFO counter for packets received out-of-order". */
#define nd_counts_order() bpf_core_field_exists(struct tcp_sock, rcv_ooopack)

static __always_inline __u32 nd_out_of_order(const struct tcp_sock *tp)
{
	return nd_counts_order() ? tp->rcv_ooopack : 0;
}

/* Room that the peer may still fill: include/net/tcp.h, tcp_receive_window(). */
static __always_inline __s32 nd_receive_window(const struct tcp_sock *tp)
{
	return tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;
}

#endif
