/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which socket belongs to a TLS object. The plain probe notes what a thread is doing in its TLS library, the tcp probe
 * says which socket the thread reads or writes meanwhile, or right after.
 */
#ifndef NETDIAG_PLAIN_H
#define NETDIAG_PLAIN_H

#include "kernel.h"
#include "plain_event.h"
#include "regs.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Set when the plain probe is loaded as well: without it the verifier drops all this. */
const volatile bool nd_plain = false;

/* A library that works on memory hands what it encrypted to the program, which sends it right away. */
#define ND_PLAIN_OWED_NS 20000000ULL
/* RFC 8446 section 5.2, RFC 5246 section 6.2.3: what encryption adds to a record, header included. */
#define ND_PLAIN_LEAST_ADDED 21
#define ND_PLAIN_MOST_ADDED 85
#define ND_PLAIN_RECORD_BYTES 16384

struct nd_plain_key {
	__u64 handle; /* address of the library's object */
	__u32 tgid;
	__u32 execs; /* programs that the process ran before: each has an address space of its own */
};

/* A TLS object. Stays after its end: the next one at its place has the next generation. */
struct nd_plain_object {
	__u64 cookie;
	__u64 moved[2]; /* sent, received */
	__u32 large[2]; /* large calls in a row */
	__u32 skip[2]; /* HTTP/2: bytes up to where the next frame's head begins, or goes on */
	__u8 have[2]; /* so much of the head was there */
	__u8 reserved2[6];
	__u8 head[2][24]; /* nine bytes; longer, for the verifier's arithmetic */
	__u32 number;
	__u32 generation;
	__u8 binding; /* enum nd_plain_binding */
	__u8 library;
	__u8 mixed;
	__u8 whole;
	__u8 framed; /* HTTP/2: all of a call is needed to find the next frame */
	__u8 over;
	__u8 reserved[2];
};

/* The call that a thread, or a goroutine, is in. */
struct nd_plain_call {
	__u64 handle; /* 0 = in none */
	__u64 entered;
	__u64 stack;
	__u64 buffer;
	__u64 size;
	__u64 out; /* where the library writes how much it moved; 0 = it returns that */
	__u64 cookie; /* of the socket that was used meanwhile */
	__u8 mixed;
	__u8 crossed; /* another object's call was made meanwhile: the socket may be that one's */
	__u8 receives;
	__u8 reserved[5];
};

/*
 * A library calls the program back in the middle of a call, which may send on the same object: Node.js writes its first
 * request when SSL_read() says that the handshake is done.
 */
struct nd_plain_thread {
	struct nd_plain_call call; /* the innermost */
	struct nd_plain_call outer;
	struct nd_plain_call outermost;
	struct nd_plain_key owed; /* whose bytes the thread has yet to send; it is bound to no socket yet */
	__u64 owed_at;
	__u32 owed_bytes;
	__u32 owed_records;
	__u8 crowded; /* more than one object's */
	__u8 go; /* goroutines run here that use crypto/tls */
	__u8 reserved[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct nd_plain_key);
	__type(value, struct nd_plain_object);
} plain_objects SEC(".maps");

/* tgid and tid as the kernel counts them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct nd_plain_thread);
} plain_threads SEC(".maps");

struct nd_plain_goroutine {
	__u64 address;
	__u64 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct nd_plain_goroutine);
	__type(value, struct nd_plain_call);
} plain_goroutines SEC(".maps");

/* include/uapi/linux/bpf.h; the value is looked up in the kernel's BTF */
enum bpf_func_id___pt_regs { BPF_FUNC_task_pt_regs = 175 };

/* The goroutine that made the system call: the Go runtime keeps it in a register (ABIInternal). */
static __always_inline struct nd_plain_call *nd_plain_goroutine_call(__u64 id)
{
	struct nd_plain_goroutine key = { .tgid = id >> 32 };
	struct pt_regs *regs;

	/* bpf_task_pt_regs(): dd6e10fbd9fb "bpf: Add bpf_task_pt_regs() helper", v5.15 */
	if (!bpf_core_enum_value_exists(enum bpf_func_id___pt_regs, BPF_FUNC_task_pt_regs))
		return 0;
	regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	bpf_probe_read_kernel(&key.address, sizeof(key.address), &nd_goroutine(regs));
	return bpf_map_lookup_elem(&plain_goroutines, &key);
}

static __always_inline void nd_plain_pay(struct nd_plain_thread *t, __u64 cookie, __u32 bytes, __u64 now)
{
	__u32 owed = t->owed_bytes, records = t->owed_records;
	struct nd_plain_object *o;

	t->owed_bytes = 0;
	if (t->crowded || now - t->owed_at > ND_PLAIN_OWED_NS)
		return;
	if (bytes < owed + records * ND_PLAIN_LEAST_ADDED || bytes > owed + records * ND_PLAIN_MOST_ADDED)
		return;
	o = bpf_map_lookup_elem(&plain_objects, &t->owed);
	if (!o || o->cookie || o->mixed)
		return;
	o->cookie = cookie;
	o->binding = ND_PLAIN_BOUND_SIZE;
}

/* The current thread read or wrote a traced socket; `sent`: and what it sent may be TLS. */
static __always_inline void nd_note_plain_io(__u64 cookie, bool sent, __u32 bytes, __u64 now)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct nd_plain_thread *t = bpf_map_lookup_elem(&plain_threads, &id);
	struct nd_plain_call *call;

	if (!t) {
		/* a thread without calls of its own may run a goroutine that began one elsewhere: tid 0 stands for all */
		id &= ~0xffffffffULL;
		t = bpf_map_lookup_elem(&plain_threads, &id);
		if (!t)
			return;
	}
	call = &t->call;
	if (t->go)
		call = nd_plain_goroutine_call(id);
	if (call && call->handle && !call->crossed) {
		if (call->cookie && call->cookie != cookie)
			call->mixed = 1;
		call->cookie = cookie;
		if (t->owed.handle != call->handle)
			return;
	}
	if (sent && t->owed_bytes)
		nd_plain_pay(t, cookie, bytes, now);
}

#endif
