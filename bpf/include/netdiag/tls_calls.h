/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which socket belongs to the TLS handshake that a thread is in the middle of. The ssl probe notes the thread, the
 * tcp probe says which socket the thread then reads or writes. Both only while handshakes go on.
 */
#ifndef NETDIAG_TLS_CALLS_H
#define NETDIAG_TLS_CALLS_H

#include "event.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* Set when the ssl probe is loaded as well: without it the verifier drops all this. */
const volatile bool nd_tls_calls = false;

/* How long after a call its thread's sends and receives are looked at: a blocking call may wait for the server. */
#define ND_TLS_OPEN_NS 10000000000ULL
/* A library that works on memory hands its ClientHello to the program, which sends it right away. */
#define ND_TLS_OWED_NS 100000000ULL

struct nd_tls_key {
	__u64 handle; /* address of the library's object */
	__u64 tgid;
};

/* A handshake from its first call on. */
struct nd_tls_handshake {
	__u64 first;
	__u64 done; /* return of the last call */
	__u64 inside;
	__u64 cpu;
	__u64 cookie;
	__u32 calls;
	__s32 result;
	__u32 tid;
	__u8 over; /* it ended well: later calls say nothing new */
	__u8 binding; /* enum nd_tls_binding */
	__u8 mixed; /* more than one socket: none is the right one */
	__u8 cpu_unknown;
	__u8 plain; /* the plain probe follows what is sent and received from the start */
	__u8 reserved[7];
};

/* A handshake call that a thread is in. */
struct nd_tls_call {
	__u64 handle; /* 0 = in none */
	__u64 entered;
	__u64 stack;
	__u64 cpu;
	__u64 cookie; /* of the socket that this call read or wrote */
	__u32 processor;
	__u8 mixed;
	__u8 reserved[3];
};

struct nd_tls_thread {
	struct nd_tls_call call; /* the innermost */
	struct nd_tls_call outer; /* a library calls the program back, which may begin another handshake meanwhile */
	__u64 owed_handle; /* the one whose first message still has to be sent */
	__u64 owed_at;
	__u32 owed; /* so many have to be sent */
	__u8 crowded; /* more than one had to be sent at once: none of them can be told apart */
	__u8 reserved[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct nd_tls_key);
	__type(value, struct nd_tls_handshake);
} tls_handshakes SEC(".maps");

/* tgid and tid as the kernel counts them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct nd_tls_thread);
} tls_threads SEC(".maps");

/* Until when there may be threads in a handshake: all other sends and receives cost one comparison. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tls_open_until SEC(".maps");

static __always_inline void nd_pay_owed(struct nd_tls_thread *t, __u64 id, __u64 cookie, __u64 now)
{
	struct nd_tls_key key = { .handle = t->owed_handle, .tgid = id >> 32 };
	struct nd_tls_handshake *h;

	if (!t->crowded && now - t->owed_at < ND_TLS_OWED_NS) {
		h = bpf_map_lookup_elem(&tls_handshakes, &key);
		if (h && !h->cookie) {
			h->cookie = cookie;
			h->binding = ND_TLS_BOUND_AFTER;
		}
	}
	if (--t->owed == 0)
		t->crowded = 0;
}

/* A traced socket was read or written by the current thread; `first` = its first send. */
static __always_inline void nd_note_tls_io(__u64 cookie, bool first, __u64 now)
{
	__u64 id, *until;
	struct nd_tls_thread *t;
	__u32 zero = 0;

	until = bpf_map_lookup_elem(&tls_open_until, &zero);
	if (!until || now > *until)
		return;
	id = bpf_get_current_pid_tgid();
	t = bpf_map_lookup_elem(&tls_threads, &id);
	if (!t)
		return;
	if (t->call.handle) {
		if (t->call.cookie && t->call.cookie != cookie)
			t->call.mixed = 1;
		t->call.cookie = cookie;
	} else if (first && t->owed) {
		nd_pay_owed(t, id, cookie, now);
	}
}

#endif
