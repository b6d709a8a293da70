// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Plaintext of requests and answers: at the functions of TLS libraries that send and receive, cut to what names a
 * request or an event of a stream. The records go to user space's dissector and to no file.
 *
 * Which function a probe stands on says its cookie, so two programs, one for entries and one for returns, serve all
 * functions of all libraries. User space attaches them to the traced processes alone.
 */

#include "netdiag/filter.h"
#include "netdiag/plain_tell.h"
#include "netdiag/plain_wire.h"
#include "netdiag/tls_calls.h"

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emit the layouts into BTF. */
const struct plain_event *nd_layout_plain_event __attribute__((unused));
const struct plain_large_event *nd_layout_plain_large_event __attribute__((unused));

/* Cookie: enum kind, enum nd_tls_library, enum moves, eight bits each. */
#define KIND(cookie) ((__u8)(cookie))
#define LIBRARY(cookie) ((__u8)((cookie) >> 8))
#define MOVES(cookie) ((__u8)((cookie) >> 16))

/* What a function is for. */
enum kind {
	END = 4, /* of the object */
	READ = 5,
	WRITE = 6,
	SEND_FILE = 7, /* the kernel encrypts what no buffer holds */
	GO_BEGIN = 8, /* of a connection */
	GO_END = 9,
	GO_READ = 10,
	GO_WRITE = 11,
	GO_READ_RETURN = 12,
	GO_WRITE_RETURN = 13,
};

/* Where a function says how much it moved. */
enum moves {
	RETURNS_INT = 1,
	RETURNS_LONG = 2,
	FOURTH = 3, /* it returns 1 and writes the number where its fourth argument points */
	LAST = 4, /* the same with its fourth argument, or its fifth where the fourth is a number: OpenSSL 3.3 put flags there */
};

#define LEAST_ADDRESS 0x10000
#define MOST_PUSHED 128 /* before the place of a probe on an entry */

static __always_inline struct nd_plain_key key_of(__u64 handle)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct nd_plain_key key = { .handle = handle, .tgid = bpf_get_current_pid_tgid() >> 32 };

	key.execs = BPF_CORE_READ(task, self_exec_id);
	return key;
}

static __always_inline struct nd_plain_thread *this_thread(__u64 id)
{
	static const struct nd_plain_thread none;
	struct nd_plain_thread *t = bpf_map_lookup_elem(&plain_threads, &id);

	if (t)
		return t;
	bpf_map_update_elem(&plain_threads, &id, &none, BPF_ANY);
	return bpf_map_lookup_elem(&plain_threads, &id);
}

static __always_inline struct nd_tls_handshake *handshake_of(const struct nd_plain_key *key)
{
	struct nd_tls_key its = { .handle = key->handle, .tgid = key->tgid };

	return bpf_map_lookup_elem(&tls_handshakes, &its);
}

/*
 * Was the handshake over before it was looked at? A ticket that comes later goes the same way as a handshake, in one call
 * that uses no socket; a handshake needs an answer from the other side.
 */
static __always_inline bool only_after(const struct nd_tls_handshake *h)
{
	return h->over && h->calls == 1 && !h->cookie;
}

/* The object of a call; a new one where the last one at this place is over. */
static __always_inline struct nd_plain_object *object_of(const struct nd_plain_key *key, __u8 library)
{
	struct nd_plain_object *o = bpf_map_lookup_elem(&plain_objects, key), fresh = { .library = library };
	struct nd_tls_handshake *h;

	if (o && !o->over)
		return o;
	if (o) {
		fresh.number = o->number;
		fresh.generation = o->generation + 1;
	} else {
		fresh.number = __sync_fetch_and_add(&plain_numbers, 1) + 1;
	}
	h = handshake_of(key);
	if (h && !h->plain) {
		h->plain = 1;
		fresh.whole = !only_after(h);
	}
	bpf_map_update_elem(&plain_objects, key, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&plain_objects, key);
}

/* Whose socket? That which the calls use, else that of the handshake. */
static __always_inline void bind(struct nd_plain_object *o, const struct nd_plain_key *key,
				 const struct nd_plain_call *call)
{
	struct nd_tls_handshake *h;

	if (o->mixed)
		return;
	if (call->cookie && !call->crossed) {
		if (call->mixed || (o->binding == ND_PLAIN_BOUND_INSIDE && o->cookie != call->cookie)) {
			o->mixed = 1;
			o->cookie = 0;
			o->binding = ND_PLAIN_BOUND_NOT;
			return;
		}
		o->cookie = call->cookie;
		o->binding = ND_PLAIN_BOUND_INSIDE;
		return;
	}
	if (o->cookie)
		return;
	h = handshake_of(key);
	if (h && h->cookie && !h->mixed) {
		o->cookie = h->cookie;
		o->binding = h->binding == ND_TLS_BOUND_INSIDE ? ND_PLAIN_BOUND_INSIDE : ND_PLAIN_BOUND_HANDSHAKE;
	}
}

/* The library wrote to memory: the thread will send it, and its size says whose it is. */
static __always_inline void owe(struct nd_plain_thread *t, const struct nd_plain_key *key, __u32 bytes, __u64 now)
{
	if (!t->owed_bytes || now - t->owed_at > ND_PLAIN_OWED_NS) {
		t->owed = *key;
		t->owed_bytes = t->owed_records = t->crowded = 0;
	} else if (t->owed.handle != key->handle) {
		t->crowded = 1;
	}
	t->owed_at = now;
	t->owed_bytes += bytes;
	t->owed_records += 1 + bytes / ND_PLAIN_RECORD_BYTES;
}

/* Returns the object whose bytes were moved, and fills in the piece. */
static __always_inline struct nd_plain_object *moved(struct nd_plain_thread *t, const struct nd_plain_call *call,
						     __u8 library, __u32 length, __u8 direction,
						     struct nd_plain_piece *piece)
{
	struct nd_plain_key key = key_of(call->handle);
	struct nd_plain_object *o = object_of(&key, library);

	if (!o)
		return 0;
	bind(o, &key, call);
	if (t && direction == ND_SEND && !call->cookie && (!o->cookie || t->owed_bytes))
		owe(t, &key, length, piece->now);
	piece->entered = call->entered;
	piece->buffer = call->buffer;
	piece->length = length;
	piece->direction = direction;
	piece->flags = call->buffer ? 0 : ND_PLAIN_UNSEEN;
	return o;
}

/* Returns the object that is over now; 0 where none was known. */
static __always_inline struct nd_plain_object *end_object(__u64 handle, struct nd_plain_piece *piece)
{
	struct nd_plain_key key = key_of(handle);
	struct nd_plain_object *o = bpf_map_lookup_elem(&plain_objects, &key);

	if (!o || o->over)
		return 0;
	o->over = 1;
	piece->flags = ND_PLAIN_END;
	return o;
}

/* --- C ---------------------------------------------------------------------------------------------------------- */

/* Is this the stack of the call's return? Its entry was noted at most a few pushes later. */
static __always_inline bool returns_here(const struct nd_plain_call *call, __u64 stack)
{
	return call->handle && stack >= call->stack && stack - call->stack <= MOST_PUSHED;
}

/* Makes room for a call that is made in the middle of another one. */
static __always_inline void begin_inner(struct nd_plain_thread *t, __u64 handle)
{
	if (t->call.handle != handle)
		t->call.crossed = 1;
	t->outermost = t->outer;
	t->outer = t->call;
}

static __always_inline void end_inner(struct nd_plain_thread *t)
{
	t->call = t->outer;
	t->outer = t->outermost;
	t->outermost.handle = 0;
}

static __always_inline void enter_call(struct pt_regs *ctx, __u64 cookie, __u64 now)
{
	struct nd_plain_thread *t = this_thread(bpf_get_current_pid_tgid());
	__u64 handle = nd_first_argument(ctx), buffer = nd_second_argument(ctx);
	bool receives = KIND(cookie) == READ;
	struct nd_plain_call *call;

	if (!t)
		return;
	call = &t->call;
	if (call->handle && nd_stack(ctx) < call->stack) {
		if (call->handle == handle && call->receives == receives && (call->buffer == buffer || !call->buffer))
			return; /* a function that calls another one that is probed as well */
		begin_inner(t, handle);
	}
	call->handle = handle;
	call->entered = now;
	call->stack = nd_stack(ctx);
	call->buffer = buffer;
	call->size = nd_third_argument(ctx);
	call->out = 0;
	call->cookie = 0;
	call->mixed = 0;
	call->crossed = 0;
	call->receives = receives;
	if (MOVES(cookie) == FOURTH || MOVES(cookie) == LAST)
		call->out = nd_fourth_argument(ctx);
	if (MOVES(cookie) == LAST && call->out < LEAST_ADDRESS)
		call->out = nd_fifth_argument(ctx);
	if (KIND(cookie) == SEND_FILE) {
		call->buffer = 0;
		call->size = nd_fourth_argument(ctx);
	}
}

static __always_inline __u64 amount(struct pt_regs *ctx, __u64 cookie, const struct nd_plain_call *call)
{
	long result = nd_returned(ctx);
	__u64 count = 0;

	if (MOVES(cookie) != RETURNS_LONG)
		result = (int)result;
	if (result <= 0)
		return 0;
	if (!call->out)
		return result;
	bpf_probe_read_user(&count, sizeof(count), (void *)call->out);
	return count;
}

static __always_inline struct nd_plain_object *leave_call(struct pt_regs *ctx, __u64 cookie,
							  struct nd_plain_piece *piece)
{
	__u64 id = bpf_get_current_pid_tgid(), stack = nd_stack(ctx) - ND_RETURN_BYTES, count;
	struct nd_plain_thread *t = bpf_map_lookup_elem(&plain_threads, &id);
	struct nd_plain_object *o = 0;

	if (!t)
		return 0;
	if (!returns_here(&t->call, stack)) { /* inside of it, or the return of the inner call was not seen */
		if (t->call.handle && stack < t->call.stack)
			return 0;
		end_inner(t);
		if (!returns_here(&t->call, stack))
			return 0;
	}
	count = amount(ctx, cookie, &t->call);
	/* GnuTLS sends the rest of the last call when it is given no bytes */
	if (count && (count <= t->call.size || !t->call.buffer) && count < 1U << 31)
		o = moved(t, &t->call, LIBRARY(cookie), count, t->call.receives ? ND_RECEIVE : ND_SEND, piece);
	end_inner(t);
	return o;
}

/* --- Go --------------------------------------------------------------------------------------------------------- */

static __always_inline void enter_go(struct pt_regs *ctx, __u64 now)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct nd_plain_goroutine key = { .address = nd_goroutine(ctx), .tgid = id >> 32 };
	struct nd_plain_thread *t = this_thread(id & ~0xffffffffULL); /* of the whole process: goroutines move */
	struct nd_plain_call call = {
		.handle = nd_go_first(ctx),
		.entered = now,
		.buffer = nd_go_second(ctx),
		.size = nd_go_third(ctx),
	};

	if (!t)
		return;
	t->go = 1;
	/* a stack that has to grow first runs the entry twice */
	bpf_map_update_elem(&plain_goroutines, &key, &call, BPF_ANY);
}

static __always_inline struct nd_plain_object *leave_go(struct pt_regs *ctx, __u64 cookie, struct nd_plain_piece *piece)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct nd_plain_goroutine key = { .address = nd_goroutine(ctx), .tgid = id >> 32 };
	struct nd_plain_call *call = bpf_map_lookup_elem(&plain_goroutines, &key);
	struct nd_plain_object *o = 0;
	long count = nd_go_first(ctx);

	if (!call || !call->handle)
		return 0;
	if (count > 0 && count <= (long)call->size && count < 1L << 31)
		o = moved(0, call, LIBRARY(cookie), count, KIND(cookie) == GO_READ_RETURN ? ND_RECEIVE : ND_SEND,
			  piece);
	call->handle = 0;
	return o;
}

/* The garbage collector tells nobody when an object goes: a handshake begins where a new one lies. */
static __always_inline void begin_go(struct pt_regs *ctx, __u64 cookie)
{
	struct nd_plain_key key = key_of(nd_go_first(ctx));
	struct nd_plain_object *o = object_of(&key, LIBRARY(cookie));

	if (o)
		o->whole = 1;
}

SEC("uprobe/enter")
int plain_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct nd_plain_piece piece = {
		.now = bpf_ktime_get_ns(),
		.tgid = nd_current_tgid(),
		.tid = nd_current_tid(),
	};
	struct nd_plain_object *o = 0;

	switch (KIND(cookie)) {
	case READ:
	case WRITE:
	case SEND_FILE:
		enter_call(ctx, cookie, piece.now);
		return 0;
	case GO_READ:
	case GO_WRITE:
		enter_go(ctx, piece.now);
		return 0;
	case GO_READ_RETURN:
	case GO_WRITE_RETURN:
		o = leave_go(ctx, cookie, &piece);
		break;
	case END:
		o = end_object(nd_first_argument(ctx), &piece);
		break;
	case GO_BEGIN:
	case GO_END:
		o = end_object(nd_go_first(ctx), &piece);
		break;
	}
	if (o) /* in one place: the verifier looks at each */
		nd_plain_tell(o, &piece);
	if (KIND(cookie) == GO_BEGIN)
		begin_go(ctx, cookie);
	return 0;
}

SEC("cgroup_skb/egress")
int plain_egress(struct __sk_buff *skb)
{
	nd_plain_packet(skb, ND_SEND);
	return 1;
}

SEC("cgroup_skb/ingress")
int plain_ingress(struct __sk_buff *skb)
{
	nd_plain_packet(skb, ND_RECEIVE);
	return 1;
}

SEC("uretprobe/leave")
int plain_leave(struct pt_regs *ctx)
{
	struct nd_plain_piece piece = {
		.now = bpf_ktime_get_ns(),
		.tgid = nd_current_tgid(),
		.tid = nd_current_tid(),
	};
	struct nd_plain_object *o = leave_call(ctx, bpf_get_attach_cookie(ctx), &piece);

	if (o)
		nd_plain_tell(o, &piece);
	return 0;
}
