/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Two walks, run by user space. `holders` goes over the descriptors of all
 * processes and notes who holds which TCP socket; `look` goes over the TCP
 * sockets of one network namespace: it gives those that are older than the
 * trace their storage and flushes what waits in the storage of the rest.
 * (A socket found through a descriptor is not trusted by the verifier, and
 * some kernels refuse iterators over maps, so neither walk can do it alone.)
 */
#ifndef NETDIAG_TCP_LOOK_H
#define NETDIAG_TCP_LOOK_H

#include "tcp.h"
#include <bpf/bpf_tracing.h>

enum nd_look {
	ND_LOOK_SEED = 1, /* give older sockets their storage; note all listeners */
	ND_LOOK_TICK = 2, /* pending bursts, slow connects, changed counters */
	ND_LOOK_FINAL = 3, /* every socket that lives; all listeners once more */
};

/* Set by user space before each walk. */
__u32 nd_look_mode = ND_LOOK_SEED;
__u64 nd_look_began = 0;

/* For the reader: how long a jiffy is on this kernel. */
__u64 nd_look_time = 0;
__u64 nd_look_jiffies = 0;

struct nd_holder {
	__u64 walk; /* nd_look_began of the walk that found it: a socket's address is soon used again */
	__u64 cgroup;
	__u32 tgid;
	__u32 tid;
	char comm[16];
	bool wanted;
};

/*
 * struct sock * → a process that holds it, a wanted one where there is one. Only the first and the last walk fill
 * it, so it takes what they find and nothing before.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 17);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct nd_holder);
} socket_holders SEC(".maps");

#define ND_TICK_SNAPSHOT_NS 5000000000ULL
#define ND_TICK_CONNECT_NS 500000000ULL
#define ND_TICK_BURST_NS 500000000ULL

static __always_inline void look_tick(struct sock *sk, struct nd_sock *s, __u8 state, __u64 now)
{
	__u64 active = s->last_sent > s->last_received ? s->last_sent : s->last_received;

	if (s->burst.direction && now - s->burst.ended > ND_TICK_BURST_NS)
		nd_flush_burst(s, bpf_get_socket_cookie(sk), now, ND_IO_CONTINUED);
	if (state == TCP_SYN_SENT) {
		if (!s->written && now - s->opened > ND_TICK_CONNECT_NS)
			nd_write_tcp(sk, s, ND_TCP_SNAPSHOT, state, now);
		return;
	}
	if (s->closing > active)
		active = s->closing;
	if (active > s->written && now - s->written > ND_TICK_SNAPSHOT_NS)
		nd_write_tcp(sk, s, ND_TCP_SNAPSHOT, state, now);
}

static __always_inline void look_final(struct sock *sk, struct nd_sock *s, __u8 state, __u64 now)
{
	if (s->written >= nd_look_began)
		return; /* held by two descriptors */
	nd_flush_burst(s, bpf_get_socket_cookie(sk), now, ND_IO_CONTINUED);
	nd_write_tcp(sk, s, ND_TCP_SNAPSHOT, state, now);
}

/* The owner of an older socket is the task that holds its descriptor, not the one that runs the iterator. */
static __always_inline bool wanted_holder(struct task_struct *task, __u32 tgid)
{
	char comm[16];

	if ((nd_filter_tgids || nd_filter_cgroup) && !bpf_map_lookup_elem(&targets, &tgid))
		return false;
	if (nd_filter_comm[0]) {
		BPF_CORE_READ_STR_INTO(&comm, task, comm);
		if (!nd_same_name(nd_filter_comm, comm))
			return false;
	}
	return true;
}

/*
 * What a walk prints is not read by anybody, but a read of user space ends when it has had enough of it: so the
 * rings are emptied on the way, and a walk over many sockets writes more records than they hold.
 */
static __always_inline void let_reader_drain(struct seq_file *seq)
{
	char line[16] = {};

	bpf_seq_write(seq, line, sizeof(line));
}

SEC("iter/task_file")
int holders(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct nd_holder holder = { .walk = nd_look_began }, *known;
	struct socket *socket;
	struct sock *sk;
	__u64 key;

	if (!task || !file) {
		struct task_struct *self = (void *)bpf_get_current_task();

		nd_pidns_level = BPF_CORE_READ(self, thread_pid, level);
		return 0;
	}
	if (task->pid != task->tgid)
		return 0; /* threads share the table */
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	key = (__u64)sk;
	holder.tgid = nd_task_tgid(task);
	holder.tid = nd_task_tid(task);
	holder.cgroup = nd_task_cgroup(task);
	holder.wanted = wanted_holder(task, holder.tgid);
	BPF_CORE_READ_STR_INTO(&holder.comm, task, comm);
	known = bpf_map_lookup_elem(&socket_holders, &key);
	if (!known || known->walk != holder.walk || (holder.wanted && !known->wanted))
		bpf_map_update_elem(&socket_holders, &key, &holder, BPF_ANY);
	if (holder.wanted) {
		nd_write_process_once(task, holder.tgid);
		let_reader_drain(ctx->meta->seq);
	}
	return 0;
}

static __always_inline void take_holder(struct nd_sock *s, const struct nd_holder *holder)
{
	s->tgid = holder->tgid;
	s->tid = holder->tid;
	s->cgroup = holder->cgroup;
	__builtin_memcpy(s->comm, holder->comm, sizeof(s->comm));
}

static __always_inline void write_listener(struct sock *sk, const struct nd_holder *holder, __u64 now)
{
	struct nd_sock s = {};

	if (holder)
		take_holder(&s, holder);
	nd_write_tcp(sk, &s, ND_TCP_LISTENER, TCP_LISTEN, now);
}

static __always_inline bool wanted_socket(const struct sock *sk, __u8 state)
{
	nd_addr remote;

	if (state == TCP_LISTEN)
		return nd_filter_hosts || nd_wanted_ports(nd_local_port(sk), 0);
	nd_remote_address(sk, &remote);
	return nd_wanted_ports(nd_local_port(sk), nd_remote_port(sk)) && nd_wanted_remote(&remote);
}

static __always_inline void look_seed(struct sock *sk, const struct nd_holder *holder, __u8 state, __u64 now)
{
	struct nd_sock *s;

	if (!holder || !holder->wanted || !wanted_socket(sk, state))
		return;
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	take_holder(s, holder);
	if (state == TCP_LISTEN)
		return;
	nd_mark_older(sk, s, ND_TCP_PREEXISTING);
	nd_write_tcp(sk, s, ND_TCP_SNAPSHOT, state, now);
}

static __always_inline void look_at(struct sock *sk)
{
	__u64 now = bpf_ktime_get_ns(), key = (__u64)sk;
	__u8 state = sk->__sk_common.skc_state;
	struct nd_holder *holder = 0;
	struct nd_sock *s;

	if (state == TCP_CLOSE || sk->sk_protocol != IPPROTO_TCP)
		return;
	if (nd_look_mode != ND_LOOK_TICK)
		holder = bpf_map_lookup_elem(&socket_holders, &key);
	if (holder && holder->walk != nd_look_began)
		holder = 0;
	if (state == TCP_LISTEN && nd_look_mode != ND_LOOK_TICK)
		write_listener(sk, holder, now);
	s = bpf_sk_storage_get(&tcp_sockets, sk, 0, 0);
	if (!s) {
		if (nd_look_mode == ND_LOOK_SEED)
			look_seed(sk, holder, state, now);
		return;
	}
	if (s->done || state == TCP_LISTEN)
		return;
	if (nd_look_mode == ND_LOOK_TICK)
		look_tick(sk, s, state, now);
	else if (nd_look_mode == ND_LOOK_FINAL)
		look_final(sk, s, state, now);
}

SEC("iter/tcp")
int look(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	__u64 written = events_seen;
	struct sock *sk;

	if (!skc) {
		nd_look_time = bpf_ktime_get_ns();
		nd_look_jiffies = bpf_jiffies64();
		return 0;
	}
	sk = (struct sock *)bpf_skc_to_tcp_sock(skc);
	if (sk)
		look_at(sk);
	if (events_seen != written)
		let_reader_drain(ctx->meta->seq);
	return 0;
}

#endif
