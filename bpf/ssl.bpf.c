// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Calls into TLS libraries: handshakes from their first call to success over all retries, new contexts, loads of
 * trusted certificates. Nothing of what the program sends or receives is looked at.
 *
 * Which function a probe stands on says its cookie, so two programs, one for entries and one for returns, serve all
 * functions of all libraries. User space attaches them to the traced processes alone.
 */

#include "netdiag/filter.h"
#include "netdiag/regs.h"
#include "netdiag/ring.h"
#include "netdiag/tls_calls.h"

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emits the layout into BTF. */
const struct tls_call_event *nd_layout_tls_call_event __attribute__((unused));

ND_RING(call_events, 1 << 18);

/* Cookie: enum nd_tls_call_kind, enum nd_tls_library, enum success, eight bits each. */
#define KIND(cookie) ((__u8)(cookie))
#define LIBRARY(cookie) ((__u8)((cookie) >> 8))
#define SUCCESS(cookie) ((__u8)((cookie) >> 16))

/* What a function returns when it worked. */
enum success { RETURNS_ONE = 1, RETURNS_ZERO = 2, RETURNS_POINTER = 3, RETURNS_COUNT = 4 };

/* A call that makes a context or loads certificates; such a call may consist of others. */
struct setup {
	__u64 entered;
	__u64 stack;
	__u64 cpu;
	__u32 processor;
	__u32 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct setup);
} tls_setups SEC(".maps");

/*
 * CPU time of the current thread, plus a constant. What it used since the scheduler last looked is now minus
 * exec_start, on a clock of which only differences on one processor mean something.
 */
static __always_inline __u64 thread_cpu(__u64 now)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, se.sum_exec_runtime) + now - BPF_CORE_READ(task, se.exec_start);
}

/* 0 where the call ended on another processor than it began on: then the difference means nothing. */
static __always_inline __u64 cpu_used(__u64 before, __u32 processor, __u64 inside, __u64 now)
{
	__s64 used = thread_cpu(now) - before;

	if (processor != bpf_get_smp_processor_id() || used <= 0)
		return 0;
	return used < inside ? used : inside;
}

static __always_inline bool worked(__u64 cookie, long result)
{
	switch (SUCCESS(cookie)) {
	case RETURNS_ONE:
		return (int)result == 1;
	case RETURNS_ZERO:
		return (int)result == 0;
	case RETURNS_COUNT:
		return (int)result >= 0;
	default:
		return result != 0;
	}
}

static __always_inline struct tls_call_event *begin_event(__u64 cookie, __u64 now)
{
	struct tls_call_event *e = nd_reserve(call_events, struct tls_call_event);

	if (!e)
		return 0;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = now;
	e->tgid = nd_current_tgid();
	e->kind = KIND(cookie);
	e->library = LIBRARY(cookie);
	return e;
}

static __always_inline void write_handshake(__u64 cookie, const struct nd_tls_handshake *h, __u64 now)
{
	struct tls_call_event *e = begin_event(cookie, now);

	if (!e)
		return;
	e->kind = ND_TLS_CALL_HANDSHAKE; /* also where the end of the object is what ends it */
	e->first = h->first;
	e->done = h->done;
	e->inside = h->inside;
	e->cpu = h->cpu_unknown ? 0 : h->cpu;
	e->cookie = h->mixed ? 0 : h->cookie;
	e->calls = h->calls;
	e->result = h->result;
	e->tid = h->tid;
	e->binding = e->cookie ? h->binding : ND_TLS_BOUND_NOT;
	e->ok = h->over;
	nd_submit(call_events, e);
}

static __always_inline struct nd_tls_thread *this_thread(__u64 id)
{
	static const struct nd_tls_thread none;
	struct nd_tls_thread *t = bpf_map_lookup_elem(&tls_threads, &id);

	if (t)
		return t;
	bpf_map_update_elem(&tls_threads, &id, &none, BPF_ANY);
	return bpf_map_lookup_elem(&tls_threads, &id);
}

static __always_inline void keep_open(__u64 now)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&tls_open_until, &zero);

	if (until)
		*until = now + ND_TLS_OPEN_NS;
}

static __always_inline void enter_handshake(struct pt_regs *ctx, __u64 handle, __u64 now)
{
	static const struct nd_tls_handshake none;
	__u64 id = bpf_get_current_pid_tgid();
	struct nd_tls_key key = { .handle = handle, .tgid = id >> 32 };
	struct nd_tls_thread *t = this_thread(id);
	struct nd_tls_handshake *h;

	if (!t || !handle)
		return;
	if (t->call.handle == handle && nd_stack(ctx) <= t->call.stack)
		return; /* SSL_connect() calls or jumps to SSL_do_handshake() */
	h = bpf_map_lookup_elem(&tls_handshakes, &key);
	if (!h) {
		bpf_map_update_elem(&tls_handshakes, &key, &none, BPF_ANY);
		h = bpf_map_lookup_elem(&tls_handshakes, &key);
		if (!h)
			return;
		h->first = now;
		h->tid = nd_current_tid();
	}
	if (h->over)
		return;
	if (t->owed && now - t->owed_at > ND_TLS_OWED_NS)
		t->owed = t->crowded = 0;
	t->outer.handle = 0;
	if (t->call.handle && nd_stack(ctx) < t->call.stack && now - t->call.entered < ND_TLS_OPEN_NS)
		t->outer = t->call; /* else its return was not seen */
	t->call.handle = handle;
	t->call.stack = nd_stack(ctx);
	t->call.cookie = 0;
	t->call.mixed = 0;
	t->call.processor = bpf_get_smp_processor_id();
	t->call.entered = now;
	keep_open(now);
	t->call.cpu = thread_cpu(now);
}

/* Whose socket? That which the call used, else that which the thread is about to send the first message on. */
static __always_inline void bind_handshake(struct nd_tls_thread *t, struct nd_tls_handshake *h,
					   const struct nd_tls_call *call, __u64 now)
{
	if (call->cookie) {
		if (call->mixed || (h->cookie && h->cookie != call->cookie))
			h->mixed = 1;
		h->cookie = call->cookie;
		h->binding = ND_TLS_BOUND_INSIDE;
	} else if (h->calls == 1 && !h->over) {
		t->crowded |= t->owed > 0;
		t->owed++;
		t->owed_handle = call->handle;
		t->owed_at = now;
	}
}

static __always_inline void end_inner(struct nd_tls_thread *t)
{
	t->call = t->outer;
	t->outer.handle = 0;
}

static __always_inline void leave_handshake(struct pt_regs *ctx, __u64 cookie, __u64 now)
{
	__u64 id = bpf_get_current_pid_tgid(), used, inside, stack = nd_stack(ctx) - ND_RETURN_BYTES;
	struct nd_tls_thread *t = bpf_map_lookup_elem(&tls_threads, &id);
	struct nd_tls_key key = { .tgid = id >> 32 };
	struct nd_tls_handshake *h;
	struct nd_tls_call call;

	if (!t || !t->call.handle || stack < t->call.stack)
		return; /* a call inside the one that is timed */
	if (t->outer.handle && stack >= t->outer.stack)
		end_inner(t); /* whose return was not seen */
	call = t->call;
	end_inner(t);
	key.handle = call.handle;
	h = bpf_map_lookup_elem(&tls_handshakes, &key);
	if (!h)
		return;
	inside = now - call.entered;
	used = cpu_used(call.cpu, call.processor, inside, now);
	h->inside += inside;
	h->cpu += used;
	h->cpu_unknown |= !used;
	h->done = now;
	h->calls++;
	h->result = nd_returned(ctx);
	h->over = worked(cookie, nd_returned(ctx));
	bind_handshake(t, h, &call, now);
	if (h->over)
		write_handshake(cookie, h, now);
}

/* The object is gone, and its address free for another one: a handshake that did not end well never will. */
static __always_inline void forget_handshake(__u64 cookie, __u64 handle, __u64 now)
{
	struct nd_tls_key key = { .handle = handle, .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct nd_tls_handshake *h = bpf_map_lookup_elem(&tls_handshakes, &key);

	if (!h)
		return;
	if (!h->over && h->calls)
		write_handshake(cookie, h, now);
	bpf_map_delete_elem(&tls_handshakes, &key);
}

static __always_inline void enter_setup(struct pt_regs *ctx, __u64 cookie, __u64 now)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct setup *known = bpf_map_lookup_elem(&tls_setups, &id);
	struct setup s = {
		.entered = now,
		.stack = nd_stack(ctx),
		.processor = bpf_get_smp_processor_id(),
		.kind = KIND(cookie),
	};

	if (known && s.stack <= known->stack)
		return; /* SSL_CTX_new() is a call of SSL_CTX_new_ex() */
	s.cpu = thread_cpu(now);
	bpf_map_update_elem(&tls_setups, &id, &s, BPF_ANY);
}

static __always_inline void leave_setup(struct pt_regs *ctx, __u64 cookie, __u64 now)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct setup *s = bpf_map_lookup_elem(&tls_setups, &id);
	struct tls_call_event *e;

	if (!s || nd_stack(ctx) - ND_RETURN_BYTES < s->stack)
		return;
	e = begin_event(cookie, now);
	if (e) {
		e->kind = s->kind;
		e->first = s->entered;
		e->done = now;
		e->inside = now - s->entered;
		e->cpu = cpu_used(s->cpu, s->processor, e->inside, now);
		e->calls = 1;
		e->result = SUCCESS(cookie) == RETURNS_POINTER ? 0 : nd_returned(ctx); /* no addresses */
		e->ok = worked(cookie, nd_returned(ctx));
		e->tid = nd_current_tid();
		nd_submit(call_events, e);
	}
	bpf_map_delete_elem(&tls_setups, &id);
}

SEC("uprobe/enter")
int tls_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();

	if (KIND(cookie) == ND_TLS_CALL_HANDSHAKE)
		enter_handshake(ctx, nd_first_argument(ctx), now);
	else if (KIND(cookie) == ND_TLS_CALL_FREE)
		forget_handshake(cookie, nd_first_argument(ctx), now);
	else
		enter_setup(ctx, cookie, now);
	return 0;
}

SEC("uretprobe/leave")
int tls_leave(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();

	if (KIND(cookie) == ND_TLS_CALL_HANDSHAKE)
		leave_handshake(ctx, cookie, now);
	else
		leave_setup(ctx, cookie, now);
	return 0;
}
