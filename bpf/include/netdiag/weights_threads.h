/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What threads of a target are in, told at context switches and by samples, and the sums of their times. */
#ifndef NETDIAG_WEIGHTS_THREADS_H
#define NETDIAG_WEIGHTS_THREADS_H

#include "weights_maps.h"

/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 2

#ifdef __TARGET_ARCH_x86
#define ND_SYSCALL_OFFSET __builtin_offsetof(struct pt_regs, orig_rax)
#define nd_in_user(regs) ((regs)->cs & 3)
#define ND_IS_READ(n) ((n) == 0 || (n) == 17 || (n) == 19 || (n) == 295 || (n) == 327 || (n) == 426 || (n) == 40 || (n) == 208)
#define ND_IS_POPULATE(n) ((n) == 9 || (n) == 28 || (n) == 149 || (n) == 151 || (n) == 325)
#define ND_IS_IOCTL(n) ((n) == 16)
#else
#define nd_in_user(regs) (((regs)->pstate & 0xf) == 0)
#define ND_IS_READ(n) ((n) == 63 || (n) == 67 || (n) == 65 || (n) == 69 || (n) == 286 || (n) == 426 || (n) == 71 || (n) == 4)
#define ND_IS_POPULATE(n) ((n) == 222 || (n) == 233 || (n) == 228 || (n) == 230 || (n) == 284)
#define ND_IS_IOCTL(n) ((n) == 29)
#endif

/* The number of the system call that a thread is in, -1 in an exception: both leave it in the saved registers. */
static __always_inline long syscall_of(struct task_struct *task)
{
	void *regs = (void *)bpf_task_pt_regs(task);

#ifdef __TARGET_ARCH_x86
	long number = -1;

	bpf_probe_read_kernel(&number, sizeof(number), regs + ND_SYSCALL_OFFSET);
	return number;
#else
	return BPF_CORE_READ((struct pt_regs___syscall *)regs, syscallno);
#endif
}

static __always_inline __u8 class_of(struct task_struct *task)
{
	long number = syscall_of(task);

	if (number < 0)
		return ND_IN_FAULT;
	if (ND_IS_READ(number))
		return ND_IN_READ;
	if (ND_IS_POPULATE(number))
		return ND_IN_POPULATE;
	return ND_IS_IOCTL(number) ? ND_IN_IOCTL : ND_IN_OTHER;
}

static __always_inline void take_counters(struct nd_thread *t, struct task_struct *task)
{
	struct task_struct___w *w = (void *)task;

	t->e.read_bytes = BPF_CORE_READ(w, ioac.rchar) - t->base_read_bytes;
	t->e.device_bytes = BPF_CORE_READ(w, ioac.read_bytes) - t->base_device_bytes;
	t->e.reads = BPF_CORE_READ(w, ioac.syscr) - t->base_reads;
	t->e.minor_faults = BPF_CORE_READ(w, min_flt) - t->base_minor;
	t->e.major_faults = BPF_CORE_READ(w, maj_flt) - t->base_major;
}

static __always_inline void write_thread(struct nd_thread *t, struct task_struct *task, __u64 now, __u8 kind)
{
	take_counters(t, task);
	BPF_CORE_READ_STR_INTO(&t->e.comm, task, comm);
	t->e.time = now;
	t->e.kind = kind;
	t->flushed = now;
	__sync_fetch_and_add(bpf_ringbuf_output(&weights_threads, &t->e, sizeof(t->e), BPF_RB_NO_WAKEUP) ?
				     &weights_threads_lost :
				     &weights_threads_seen,
			     1);
}

static __always_inline void meet_thread(struct task_struct *task, __u32 tid, __u64 now)
{
	struct task_struct___w *w = (void *)task;
	struct nd_room *r = room();
	struct nd_thread *t;

	if (!r)
		return;
	t = &r->thread;
	__builtin_memset(t, 0, sizeof(*t));
	t->e.began = now;
	t->e.tgid = nd_task_tgid(task);
	t->e.tid = nd_task_tid(task);
	t->base_read_bytes = BPF_CORE_READ(w, ioac.rchar);
	t->base_device_bytes = BPF_CORE_READ(w, ioac.read_bytes);
	t->base_reads = BPF_CORE_READ(w, ioac.syscr);
	t->base_minor = BPF_CORE_READ(w, min_flt);
	t->base_major = BPF_CORE_READ(w, maj_flt);
	t->since = t->flushed = now;
	t->running = 1;
	bpf_map_update_elem(&nd_threads, &tid, t, BPF_NOEXIST);
}

/* Add the time since the last change to what the thread was in. */
static __always_inline void account(struct nd_thread *t, __u64 now)
{
	__u64 passed = now - t->since;

	t->since = now;
	if (t->copying)
		t->e.copying += passed;
	else if (t->running)
		t->e.run += passed;
	else if (t->ready)
		t->e.ready += passed;
	else if (t->slept)
		t->e.slept += passed;
	else if (t->class == ND_IN_FAULT)
		t->e.blocked_fault += passed;
	else if (t->class == ND_IN_READ)
		t->e.blocked_read += passed;
	else if (t->class == ND_IN_POPULATE)
		t->e.blocked_populate += passed;
	else if (t->class == ND_IN_IOCTL)
		t->e.blocked_ioctl += passed;
	else
		t->e.blocked_other += passed;
}

static __always_inline void leave(struct task_struct *task, bool preempted, unsigned int state, __u64 now)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct nd_thread *t = bpf_map_lookup_elem(&nd_threads, &tid);

	if (!t)
		return;
	account(t, now);
	t->running = 0;
	t->ready = preempted || !state;
	t->slept = 0;
	if (t->ready || t->copying)
		return;
	t->class = class_of(task);
	/* whoever reads a pipe or waits in a driver sleeps as anybody does; only files can't be interrupted */
	t->slept = t->class != ND_IN_FAULT && !(state & TASK_UNINTERRUPTIBLE);
	if (t->slept)
		return;
	if (t->class == ND_IN_FAULT)
		t->e.waits_fault++;
	else if (t->class == ND_IN_READ)
		t->e.waits_read++;
}

static __always_inline void enter(struct task_struct *task, __u64 now)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct nd_thread *t = bpf_map_lookup_elem(&nd_threads, &tid);

	if (t) {
		account(t, now);
		t->running = 1;
	} else if (tid && is_target(task)) {
		meet_thread(task, tid, now);
	}
}

/* The thread that runs, if it is one of a target. */
static __always_inline struct nd_thread *current_thread(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct nd_thread *t = bpf_map_lookup_elem(&nd_threads, &tid);

	if (t || !is_target(task))
		return t;
	meet_thread(task, tid, bpf_ktime_get_ns()); /* it ran already when the trace began */
	return bpf_map_lookup_elem(&nd_threads, &tid);
}

#endif
