/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What is remembered of a TCP socket while it lives, and how it becomes records. */
#ifndef NETDIAG_TCP_H
#define NETDIAG_TCP_H

#include "event.h"
#include "filter.h"
#include "ring.h"
#include "sock.h"
#include "tcp_sock.h"

/* Pauses shorter than this join calls of one direction into one record. */
const volatile __u64 nd_burst_gap_ns = 1000000;

/* Kernel memory only: the reader maps a window of each. A million records a second fill the second in 0.1 s. */
ND_RING(events, 1 << 20);
ND_RING(io_events, 1 << 23);

struct nd_io {
	__u64 arrived;
	__u32 bytes;
	__u32 tgid;
	__u32 tid;
	__u8 direction;
	__u32 sent_tick;
	__u32 out_of_order;
	__u32 missing;
};

static __always_inline void nd_take_owner(struct nd_sock *s)
{
	s->tgid = nd_current_tgid();
	s->tid = nd_current_tid();
	s->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(s->comm, sizeof(s->comm));
}

/* Storage for a socket that the current task, in process context, opens or uses; 0 when it isn't wanted. */
static __always_inline struct nd_sock *nd_begin(struct sock *sk, __u64 opened)
{
	struct nd_sock *s;
	nd_addr remote;

	nd_remote_address(sk, &remote);
	if (!nd_wanted_task() || !nd_wanted_remote(&remote))
		return 0;
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return 0;
	__builtin_memset(s, 0, sizeof(*s));
	s->opened = opened;
	nd_take_owner(s);
	nd_meet_process(s->tgid);
	return s;
}

/* A server's worker is known at its first call, not at accept: there the softirq made the socket. */
static __always_inline void nd_note_io_owner(struct nd_sock *s, __u32 tgid, __u32 tid)
{
	if (!s->first_io_tgid) {
		s->first_io_tgid = tgid;
		s->first_io_tid = tid;
		s->last_io_tid = tid;
		if (s->role != ND_ROLE_CLIENT) {
			nd_take_owner(s);
			nd_meet_process(s->tgid);
		}
		return;
	}
	if (tgid != s->first_io_tgid)
		s->flags |= ND_TCP_SHARED;
	if (tid != s->last_io_tid) {
		s->last_io_tid = tid;
		s->io_tids++;
	}
}

/* Enough packets had the number that was next to say so of a connection. */
static __always_inline bool nd_is_numbered(const struct nd_numbers *n)
{
	return n->usual >= 8 && n->odd <= n->usual / 2;
}

static __always_inline void nd_flush_burst(struct nd_sock *s, __u64 cookie, __u64 now, __u8 flags)
{
	__u32 direction = __sync_lock_test_and_set(&s->burst.direction, 0);
	struct tcp_io_event *e;

	if (!direction)
		return;
	e = nd_reserve(io_events, struct tcp_io_event);
	if (!e)
		return;
	e->time = now;
	e->cookie = cookie;
	e->began = s->burst.began;
	e->ended = s->burst.ended;
	e->arrived = s->burst.arrived;
	e->max_lag = s->burst.max_lag / 1000;
	e->bytes = s->burst.bytes;
	e->calls = s->burst.calls;
	e->first_bytes = s->burst.first_bytes;
	e->tgid = s->burst.tgid;
	e->tid = s->burst.tid;
	e->direction = direction;
	e->flags = flags;
	if (direction == ND_RECEIVE)
		e->flags |= (nd_counts_order() ? ND_IO_ORDER : 0) | (nd_is_numbered(&s->numbers) ? ND_IO_NUMBERED : 0);
	e->out_of_order = s->burst.out_of_order > 0xffff ? 0xffff : s->burst.out_of_order;
	e->sent_tick = s->burst.sent_tick;
	e->missing = s->burst.missing > 0xffff ? 0xffff : s->burst.missing;
	__builtin_memset(e->reserved, 0, sizeof(e->reserved));
	nd_submit(io_events, e);
}

static __always_inline void nd_note_burst(struct nd_sock *s, __u64 cookie, const struct nd_io *io, __u64 now)
{
	__u64 lag = io->arrived && now > io->arrived ? now - io->arrived : 0;
	struct nd_burst *b = &s->burst;

	if (b->direction == io->direction && b->tid == io->tid && now - b->ended < nd_burst_gap_ns &&
	    b->bytes < (1U << 30)) {
		b->ended = now;
		b->bytes += io->bytes;
		b->calls++;
		b->out_of_order += io->out_of_order;
		b->missing += io->missing;
		if (lag > b->max_lag)
			b->max_lag = lag;
		return;
	}
	nd_flush_burst(s, cookie, now, 0);
	b->began = b->ended = now;
	b->arrived = io->arrived;
	b->max_lag = lag;
	b->bytes = b->first_bytes = io->bytes;
	b->calls = 1;
	b->tgid = io->tgid;
	b->tid = io->tid;
	b->sent_tick = io->sent_tick;
	b->out_of_order = io->out_of_order;
	b->missing = io->missing;
	b->direction = io->direction;
}

static __always_inline void nd_read_counters(struct tcp_event *e, const struct sock *sk, const struct tcp_sock *tp)
{
	__u32 fin = nd_fin_received(sk);
	__u32 min_rtt = tp->rtt_min.s[0].v;

	e->bytes_sent = tp->bytes_sent - tp->bytes_retrans;
	e->bytes_received = tp->bytes_received - (tp->bytes_received ? fin : 0);
	e->srtt = tp->srtt_us >> 3;
	e->min_rtt = min_rtt == ~0U ? 0 : min_rtt;
	e->retransmits = tp->total_retrans;
	e->unread = nd_unread(tp, fin);
	e->unacked = tp->write_seq - tp->snd_una;
	e->mss = tp->mss_cache;
	e->rwnd_limited = tp->chrono_stat[1]; /* TCP_CHRONO_RWND_LIMITED - 1 */
}

static __always_inline void nd_write_tcp(struct sock *sk, struct nd_sock *s, __u8 kind, __u8 state, __u64 now)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tcp_event *e = nd_reserve(events, struct tcp_event);

	if (!e)
		return;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = now;
	e->cookie = bpf_get_socket_cookie(sk);
	e->cgroup = s->cgroup;
	e->netns = sk->__sk_common.skc_net.net->net_cookie;
	e->opened = s->opened;
	e->established = s->established;
	e->closing = s->closing;
	e->first_sent = s->first_sent;
	e->last_sent = s->last_sent;
	e->first_received = s->first_received;
	e->last_received = s->last_received;
	e->last_read = s->last_read;
	e->zero_window = s->zero_window + (s->zero_since ? now - s->zero_since : 0);
	if (tp && kind != ND_TCP_LISTENER)
		nd_read_counters(e, sk, tp);
	if (tp && tp->is_mptcp)
		e->flags = ND_TCP_MPTCP;
	e->syn_retransmits = s->syn_retransmits;
	e->sends = s->sends;
	e->receives = s->receives;
	e->drops = sk->sk_drops.counter;
	if (kind == ND_TCP_LISTENER) {
		e->accept_queue = sk->sk_ack_backlog;
		e->accept_queue_max = sk->sk_max_ack_backlog;
	}
	e->tgid = s->tgid;
	e->tid = s->tid;
	e->first_io_tgid = s->first_io_tgid;
	e->first_io_tid = s->first_io_tid;
	e->io_tids = s->io_tids;
	e->error = s->error;
	e->sport = nd_local_port(sk);
	e->dport = nd_remote_port(sk);
	e->kind = kind;
	e->state = state;
	e->role = s->role;
	e->closed_by = s->closed_by;
	e->close = s->close;
	e->flags |= s->flags;
	if (nd_flag(sk, ND_SOCK_FLAG(SOCK_KEEPOPEN)))
		e->flags |= ND_TCP_KEEPALIVE;
	__builtin_memcpy(e->comm, s->comm, sizeof(e->comm));
	nd_local_address(sk, &e->saddr);
	nd_remote_address(sk, &e->daddr);
	if (s->flags & ND_TCP_NEVER_SENT && !e->dport) {
		e->dport = s->wanted_port;
		e->daddr = s->wanted;
	}
	e->family = sk->__sk_common.skc_family == AF_INET6 && !nd_is_mapped(&e->daddr) ? AF_INET6 : AF_INET;
	s->written = now;
	nd_submit(events, e);
}

/*
 * A socket older than its storage: opened and established are not known. Who connected shows in
 * bytes_acked, which counts the SYN for the side that sent it first (net/ipv4/tcp_input.c,
 * tcp_snd_una_update() runs on the client's SYN only).
 */
static __always_inline void nd_mark_older(struct sock *sk, struct nd_sock *s, __u8 flags)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	s->flags |= flags;
	if (!tp)
		return;
	s->received_seen = tp->bytes_received;
	s->out_of_order = nd_out_of_order(tp);
	if (tp->snd_una == tp->snd_nxt) {
		__u64 payload = tp->bytes_sent - tp->bytes_retrans;

		if (tp->bytes_acked == payload + 1)
			s->role = ND_ROLE_CLIENT;
		else if (tp->bytes_acked == payload)
			s->role = ND_ROLE_SERVER;
	}
	if (nd_unread(tp, nd_fin_received(sk)))
		s->arrived = bpf_ktime_get_ns();
}

#endif
