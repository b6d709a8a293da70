// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The life of TCP connections: connect, outcome, data, reader lag, close and who closed.
 *
 * Owners are taken in process context only (SYN_SENT, LISTEN, I/O, close):
 * most transitions run in softirq, where the current task is a stranger.
 */

#include "netdiag/plain.h"
#include "netdiag/process.h"
#include "netdiag/tcp.h"
#include "netdiag/tcp_look.h"
#include "netdiag/tls_calls.h"
#include <bpf/bpf_tracing.h>

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emit the layouts into BTF. */
const struct tcp_event *nd_layout_tcp_event __attribute__((unused));
const struct tcp_io_event *nd_layout_tcp_io_event __attribute__((unused));
const struct process_event *nd_layout_process_event __attribute__((unused));

static __always_inline void handle_connect(struct sock *sk, __u64 now)
{
	struct nd_sock *s;

	if (!nd_wanted_ports(0, nd_remote_port(sk)))
		return;
	s = nd_begin(sk, now);
	if (s)
		s->role = ND_ROLE_CLIENT;
}

static __always_inline void handle_listen(struct sock *sk, __u64 now)
{
	struct nd_sock *s;

	if (!nd_wanted_task())
		return;
	/* remotes are not known yet: each child is looked at when it is established */
	if (!nd_filter_hosts && !nd_wanted_ports(nd_local_port(sk), 0))
		return;
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	__builtin_memset(s, 0, sizeof(*s));
	s->opened = now;
	nd_take_owner(s);
	nd_meet_process(s->tgid);
}

/* A child has the listener's storage, owner included, until a process does I/O on it. */
static __always_inline void handle_child(struct nd_sock *s, __u64 now)
{
	s->role = ND_ROLE_SERVER;
	s->opened = now;
	s->established = 0;
	s->flags = 0;
}

static __always_inline void handle_established(struct sock *sk, struct nd_sock *s, __u64 now)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	nd_addr remote;

	if (s->role == ND_ROLE_SERVER) {
		nd_remote_address(sk, &remote);
		if (!nd_wanted_remote(&remote)) {
			bpf_sk_storage_delete(&tcp_sockets, sk);
			return;
		}
	}
	s->established = now;
	if (tp && s->role == ND_ROLE_CLIENT)
		s->syn_retransmits = tp->total_retrans;
	nd_write_tcp(sk, s, ND_TCP_ESTABLISHED, TCP_ESTABLISHED, now);
}

static __always_inline void note_arrival(struct sock *sk, struct nd_sock *s, __u64 now)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u64 received;

	if (!tp)
		return;
	received = tp->bytes_received - nd_fin_received(sk);
	if (received <= s->received_seen)
		return; /* a FIN or a wake-up without data */
	if (!s->first_received)
		s->first_received = now;
	s->last_received = now;
	s->received_seen = received;
	if (!s->arrived) {
		s->arrived = now;
		s->arrived_tick = tp->rx_opt.rcv_tsval;
	}
	if (!s->zero_since && nd_receive_window(tp) <= 0)
		s->zero_since = now;
}

static __always_inline void note_close(struct nd_sock *s, __u64 now, __u8 side, __u8 how)
{
	if (s->closing)
		return;
	s->closing = now;
	s->closed_by = side;
	s->close = how;
}

/*
 * After our FIN the kernel ends the socket itself when the peer's FIN or last ACK comes, while a program that only
 * shut down its sending side may still read what is queued: net/ipv4/tcp_input.c, tcp_fin() and tcp_rcv_state_process().
 */
static __always_inline bool closed_by_program(const struct sock *sk, int oldstate)
{
	return oldstate == TCP_ESTABLISHED || oldstate == TCP_CLOSE_WAIT ||
	       (oldstate != TCP_LAST_ACK && !nd_fin_received(sk));
}

static __always_inline void handle_end(struct sock *sk, struct nd_sock *s, int oldstate, __u64 now)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (oldstate == TCP_LISTEN) {
		nd_write_tcp(sk, s, ND_TCP_LISTENER, TCP_CLOSE, now);
		return;
	}
	if (oldstate == TCP_SYN_SENT || (oldstate == TCP_SYN_RECV && !s->established)) {
		s->error = sk->sk_err;
		if (tp)
			s->syn_retransmits = tp->total_retrans;
		if (!nd_local_port(sk))
			s->flags |= ND_TCP_NEVER_SENT; /* no local port was free: net/ipv4/tcp_ipv4.c, tcp_v4_connect() */
		nd_write_tcp(sk, s, ND_TCP_FAILED, oldstate, now);
		s->done = 1;
		return;
	}
	if (tp && nd_unread(tp, nd_fin_received(sk)) && !s->reset_received && !sk->sk_err &&
	    closed_by_program(sk, oldstate))
		s->flags |= ND_TCP_UNREAD_CLOSE;
	s->error = sk->sk_err;
	if (sk->sk_err == ETIMEDOUT)
		note_close(s, now, ND_SIDE_NONE, ND_CLOSE_TIMEOUT);
	else /* no FIN and no reset came in: ours goes out right after this transition */
		note_close(s, now, ND_SIDE_LOCAL, ND_CLOSE_RST);
	nd_flush_burst(s, bpf_get_socket_cookie(sk), now, 0);
	nd_write_tcp(sk, s, ND_TCP_CLOSED, oldstate, now);
	s->done = 1;
}

/* An accepted connection without a byte belongs to who closes it: our FIN leaves in process context. */
static __always_inline void take_closer(struct nd_sock *s)
{
	if (s->role != ND_ROLE_SERVER || s->first_io_tgid)
		return;
	nd_take_owner(s);
	nd_meet_process(s->tgid);
}

static __always_inline void handle_state(struct sock *sk, int oldstate, int newstate)
{
	__u64 now = bpf_ktime_get_ns();
	struct nd_sock *s;

	if (sk->sk_protocol != IPPROTO_TCP)
		return; /* an MPTCP socket: its subflows come by themselves */
	if (newstate == TCP_SYN_SENT)
		return handle_connect(sk, now);
	if (newstate == TCP_LISTEN)
		return handle_listen(sk, now);
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	if (!s || s->done)
		return;
	switch (newstate) {
	case TCP_SYN_RECV:
		if (!s->role)
			handle_child(s, now);
		break;
	case TCP_ESTABLISHED:
		handle_established(sk, s, now);
		break;
	case TCP_FIN_WAIT1:
		take_closer(s);
		note_close(s, now, ND_SIDE_LOCAL, ND_CLOSE_FIN);
		/* no descriptor leads to it any more, so no later look would find it */
		nd_write_tcp(sk, s, ND_TCP_SNAPSHOT, newstate, now);
		break;
	case TCP_CLOSE_WAIT:
		note_arrival(sk, s, now); /* the last data, when the FIN came with it */
		note_close(s, now, ND_SIDE_REMOTE, ND_CLOSE_FIN);
		break;
	case TCP_LAST_ACK:
		take_closer(s);
		break;
	case TCP_CLOSE:
		handle_end(sk, s, oldstate, now);
		break;
	}
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int oldstate, int newstate)
{
	handle_state(sk, oldstate, newstate);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_receive_reset, struct sock *sk)
{
	struct nd_sock *s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);

	if (!s)
		return 0;
	s->reset_received = 1;
	if (s->established || s->flags & ND_TCP_PREEXISTING)
		note_close(s, bpf_ktime_get_ns(), ND_SIDE_REMOTE, ND_CLOSE_RST);
	return 0;
}

/*
 * A connect() that fails before a SYN can leave (no route, a policy) shows in no TCP state: it is
 * marked here and, if nothing follows, written when the socket goes.
 */
static __always_inline void handle_attempt(struct bpf_sock_addr *ctx, const nd_addr *remote)
{
	__u64 now = bpf_ktime_get_ns();
	struct nd_sock *s;

	if (ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP || !ctx->sk)
		return;
	if (!nd_wanted_task() || !nd_wanted_remote(remote) || !nd_wanted_ports(0, bpf_ntohs(ctx->user_port)))
		return;
	s = bpf_sk_storage_get(&tcp_sockets, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	__builtin_memset(s, 0, sizeof(*s));
	s->opened = now;
	s->role = ND_ROLE_CLIENT;
	s->flags = ND_TCP_NEVER_SENT;
	s->wanted_port = bpf_ntohs(ctx->user_port);
	s->wanted = *remote;
	nd_take_owner(s);
	nd_meet_process(s->tgid);
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx)
{
	nd_addr remote;

	nd_map_v4(&remote, ctx->user_ip4);
	handle_attempt(ctx, &remote);
	return 1;
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx)
{
	volatile __u32 *from = ctx->user_ip6; /* read as four words, or the verifier refuses */
	nd_addr remote;
	__u32 *to = (__u32 *)&remote;

	for (int i = 0; i < 4; i++)
		to[i] = from[i];
	handle_attempt(ctx, &remote);
	return 1;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy_sock, struct sock *sk)
{
	struct nd_sock *s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);

	if (!s || s->done || !(s->flags & ND_TCP_NEVER_SENT))
		return 0;
	nd_write_tcp(sk, s, ND_TCP_FAILED, TCP_CLOSE, bpf_ktime_get_ns());
	s->done = 1;
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sk, struct sk_buff *skb)
{
	struct nd_sock *s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	struct tcp_io_event *e;

	if (!s)
		return 0;
	e = nd_reserve(io_events, struct tcp_io_event);
	if (!e)
		return 0;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = e->began = e->ended = bpf_ktime_get_ns();
	e->cookie = bpf_get_socket_cookie(sk);
	e->bytes = e->first_bytes = skb->len;
	e->calls = 1;
	e->direction = ND_RETRANSMIT;
	nd_submit(io_events, e);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sk_data_ready, struct sock *sk)
{
	struct nd_sock *s;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	if (s)
		note_arrival(sk, s, bpf_ktime_get_ns());
	return 0;
}

/* Sockets that a traced process got from elsewhere: inherited, passed, or accepted by a process that isn't traced. */
static __always_inline struct nd_sock *adopt(struct sock *sk, __u64 now)
{
	struct nd_sock *s;
	__u8 state = sk->__sk_common.skc_state;

	if (!nd_filter_tgids || state == TCP_LISTEN || state == TCP_CLOSE || state == TCP_SYN_SENT)
		return 0;
	if (!nd_wanted_task() || !nd_wanted_ports(nd_local_port(sk), nd_remote_port(sk)))
		return 0;
	s = nd_begin(sk, 0);
	if (s)
		nd_mark_older(sk, s, ND_TCP_PREEXISTING | ND_TCP_ADOPTED);
	return s;
}

static __always_inline void handle_io(struct sock *sk, int size, __u8 direction)
{
	const struct tcp_sock *tp;
	__u64 now, cookie;
	struct nd_sock *s;
	struct nd_io io = { .direction = direction, .bytes = size };

	if (sk->sk_protocol != IPPROTO_TCP || size <= 0)
		return;
	now = bpf_ktime_get_ns();
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	if (!s)
		s = adopt(sk, now);
	if (!s)
		return;
	cookie = bpf_get_socket_cookie(sk);
	io.tgid = nd_current_tgid();
	io.tid = nd_current_tid();
	nd_note_io_owner(s, io.tgid, io.tid);
	if (nd_tls_calls)
		nd_note_tls_io(cookie, direction == ND_SEND && !s->sends, now);
	if (nd_plain)
		nd_note_plain_io(cookie, direction == ND_SEND && s->wire_class <= ND_WIRE_TLS, size, now);
	if (direction == ND_RECEIVE) {
		io.arrived = s->arrived;
		io.sent_tick = s->arrived ? s->arrived_tick : 0;
		tp = bpf_skc_to_tcp_sock(sk);
		if (tp) {
			io.out_of_order = nd_out_of_order(tp) - s->out_of_order;
			s->out_of_order = nd_out_of_order(tp);
		}
		if (s->numbers.missing > s->missing) /* it falls where one was late */
			io.missing = s->numbers.missing - s->missing;
		s->missing = s->numbers.missing;
		if (tp && !nd_unread(tp, nd_fin_received(sk)))
			s->arrived = 0;
		/* once all is read, a window that was not announced anew holds nobody back */
		if (tp && s->zero_since && (!s->arrived || nd_receive_window(tp) > 0)) {
			s->zero_window += now - s->zero_since;
			s->zero_since = 0;
		}
		s->last_read = now;
		s->receives++;
	} else {
		if (!s->first_sent)
			s->first_sent = now;
		s->last_sent = now;
		s->sends++;
	}
	nd_note_burst(s, cookie, &io, now);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int ret)
{
	handle_io(sk, ret, ND_SEND);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int ret, int flags)
{
	if (!(flags & MSG_PEEK))
		handle_io(sk, ret, ND_RECEIVE);
	return 0;
}
