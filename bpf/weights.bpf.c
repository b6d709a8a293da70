// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * How files get into memory, at a cost that does not grow with the number of ordinary page faults: where threads stop
 * is known at context switches, what they do while they run from samples, and of faults only those are seen that the
 * page cache is asked for. Nothing is attached to the faults of anonymous memory.
 */

#include "netdiag/filter.h"
#include "netdiag/regs.h"
#include "netdiag/ring.h"
#include "netdiag/weights.h"
#include "netdiag/weights_kernel.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL v2";

const struct weights_thread_event *nd_layout_weights_thread __attribute__((unused));
const struct weights_file_event *nd_layout_weights_file __attribute__((unused));
const struct weights_request_event *nd_layout_weights_request __attribute__((unused));
const struct weights_path_event *nd_layout_weights_path __attribute__((unused));

/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 2
/* include/linux/blk_types.h */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
/* include/uapi/linux/fuse.h */
#define FUSE_READ 15
/* include/linux/page-flags.h: a tail page points to its head, an anonymous one to no file */
#define ND_TAIL 1UL
#define ND_NO_FILE 3UL
#define ND_LOOP_MAJOR 7
#define ND_S_IFMT 0170000
#define ND_S_IFREG 0100000
#define ND_S_IFCHR 0020000
#define ND_IN_COPY 6

#define ND_FLUSH_NS 100000000ULL
#define ND_NEAR_PAGES 1024
#define ND_STORM 24 /* events between two samples on a processor: 12,000 a second */

ND_RING(weights_threads, 1 << 18);
ND_RING(weights_files, 1 << 18);
ND_RING(weights_requests, 1 << 18);
ND_RING(weights_paths, 1 << 18);

__u8 nd_weights_end = 0; /* the walk is the last one */

struct nd_thread {
	struct weights_thread_event e;
	__u64 since;
	__u64 flushed;
	__u64 base_read_bytes, base_device_bytes, base_reads, base_minor, base_major;
	__u64 inode; /* file that it last touched */
	__u64 copy_bytes; /* of the copy that it is in */
	__u8 copying;
	__u8 from; /* enum source_of */
	__u8 reserved[6];
	__u32 device;
	__u8 running;
	__u8 ready;
	__u8 class;
	__u8 slept;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct nd_thread);
} nd_threads SEC(".maps");

struct nd_file_key {
	__u64 inode;
	__u32 device;
	__u32 tgid;
};

struct nd_file {
	struct weights_file_event e;
	__u64 flushed;
	__u64 last_fault, last_around, last_ahead, last_get;
	__u32 tid;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nd_file_key);
	__type(value, struct nd_file);
} nd_files SEC(".maps");

/* Files that any target touched: device requests belong to them. tgid is 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nd_file_key);
	__type(value, __u8);
} nd_known_files SEC(".maps");

struct nd_request_key {
	__u64 inode;
	__u32 device;
	__u32 tgid;
	__u32 source;
	__u32 reserved;
};

struct nd_requests {
	struct weights_request_event e;
	__u64 flushed;
	__u64 under_way;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nd_request_key);
	__type(value, struct nd_requests);
} nd_request_sums SEC(".maps");

struct nd_started {
	struct nd_request_key key;
	__u64 at;
	__u64 sent; /* 1 = the device has it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct nd_started);
} nd_under_way SEC(".maps");

/* Room for what is too large for a stack. */
struct nd_room {
	struct nd_thread thread;
	struct nd_file file;
	struct nd_requests requests;
	const void *mapping; /* of the last event that was looked at */
	__u32 in_window; /* events since the last sample on this processor */
	__u32 turn;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nd_room);
} nd_rooms SEC(".maps");

static __always_inline struct nd_room *room(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nd_rooms, &zero);
}

static __always_inline bool is_target(struct task_struct *task)
{
	__u32 tgid = nd_task_tgid(task);

	return tgid && bpf_map_lookup_elem(&targets, &tgid);
}

/* ---- threads ---- */

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

SEC("tp_btf/sched_switch")
int BPF_PROG(weights_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	__u64 now = bpf_ktime_get_ns();

	leave(prev, preempt, state, now);
	enter(next, now);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(weights_exit, struct task_struct *task)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct nd_thread *t = bpf_map_lookup_elem(&nd_threads, &tid);
	__u64 now = bpf_ktime_get_ns();

	if (!t)
		return 0;
	account(t, now);
	write_thread(t, task, now, ND_WEIGHTS_EXIT);
	bpf_map_delete_elem(&nd_threads, &tid);
	return 0;
}

/* ---- files ---- */

static __always_inline bool is_file(struct inode *inode)
{
	return (BPF_CORE_READ(inode, i_mode) & ND_S_IFMT) == ND_S_IFREG;
}

static __always_inline void read_part(char *part, __u32 room, struct dentry___w *dentry)
{
	bpf_probe_read_kernel_str(part, room, (const void *)BPF_CORE_READ(dentry, d_name.name));
}

#define ND_PART(N)                                                             \
	do {                                                                   \
		read_part(p->part_##N, sizeof(p->part_##N), dentry);                                \
		p->parts = N;                                                  \
		parent = BPF_CORE_READ(dentry, d_parent);                      \
		if (parent == dentry)                                          \
			goto done;                                             \
		dentry = parent;                                               \
	} while (0)

/* Names are taken from the names that the inode has: file systems keep the one it was opened by first in the list. */
static __noinline int write_path(struct inode *inode, __u32 device, __u32 tgid)
{
	struct weights_path_event *p = nd_reserve(weights_paths, struct weights_path_event);
	struct hlist_node___w *node;
	struct dentry___w *dentry, *parent;

	if (!p)
		return 0;
	__builtin_memset(p, 0, sizeof(*p));
	p->time = bpf_ktime_get_ns();
	p->inode = BPF_CORE_READ(inode, i_ino);
	p->size = BPF_CORE_READ(inode, i_size);
	p->device = device;
	p->tgid = tgid;
	p->magic = BPF_CORE_READ(inode, i_sb, s_magic);
	node = BPF_CORE_READ(inode, i_dentry.first);
	if (!node)
		goto done;
	dentry = (void *)node - bpf_core_field_offset(struct dentry___w, d_u.d_alias);
	ND_PART(1);
	ND_PART(2);
	ND_PART(3);
	ND_PART(4);
	ND_PART(5);
	ND_PART(6);
	ND_PART(7);
	ND_PART(8);
	ND_PART(9);
	ND_PART(10);
	ND_PART(11);
	ND_PART(12);
done:
	nd_submit_now(p);
	return 0;
}

static __always_inline struct nd_file *meet_file(struct inode *inode, struct nd_file_key *key, __u64 now)
{
	struct nd_file_key any = { .inode = key->inode, .device = key->device };
	struct nd_room *r = room();
	struct nd_file *f;
	__u8 one = 1;

	if (!r || !is_file(inode))
		return 0;
	f = &r->file;
	__builtin_memset(f, 0, sizeof(*f));
	f->e.began = f->flushed = now;
	f->e.inode = key->inode;
	f->e.device = key->device;
	f->e.tgid = key->tgid;
	f->e.size = BPF_CORE_READ(inode, i_size);
	f->e.pages_first = BPF_CORE_READ(inode, i_mapping, nrpages);
	f->last_fault = f->last_around = f->last_ahead = f->last_get = ~0ULL;
	if (bpf_map_update_elem(&nd_files, key, f, BPF_NOEXIST))
		return 0;
	if (!bpf_map_update_elem(&nd_known_files, &any, &one, BPF_NOEXIST))
		write_path(inode, key->device, key->tgid);
	return bpf_map_lookup_elem(&nd_files, key);
}

static __always_inline void write_file(struct nd_file *f, __u64 now)
{
	f->e.time = now;
	f->flushed = now;
	__sync_fetch_and_add(bpf_ringbuf_output(&weights_files, &f->e, sizeof(f->e), BPF_RB_NO_WAKEUP) ?
				     &weights_files_lost :
				     &weights_files_seen,
			     1);
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

/* The file's sums for the process of thread `t`. */
static __always_inline struct nd_file *file_of(struct nd_thread *t, struct inode *inode, __u64 now)
{
	struct nd_file_key key = {
		.inode = BPF_CORE_READ(inode, i_ino),
		.device = BPF_CORE_READ(inode, i_sb, s_dev),
		.tgid = t->e.tgid,
	};
	struct nd_file *f = bpf_map_lookup_elem(&nd_files, &key);

	t->inode = key.inode;
	t->device = key.device;
	if (!f)
		f = meet_file(inode, &key, now);
	if (!f)
		return 0;
	if (f->tid != t->e.tid) {
		if (f->tid)
			f->e.thread_changes++;
		f->tid = t->e.tid;
	}
	return f;
}

static __always_inline void finish_file(struct nd_file *f, struct inode *inode, __u64 now)
{
	if (now - f->flushed < ND_FLUSH_NS)
		return;
	f->e.pages_last = BPF_CORE_READ(inode, i_mapping, nrpages);
	write_file(f, now);
}

/*
 * Of a storm in one file only one event in sixteen is looked at: returns what one counts for, 0 = leave it out. The
 * first one in another file is never left out: what devices are asked for it counts from then on.
 */
static __always_inline __u32 weigh(const void *mapping)
{
	struct nd_room *r = room();

	if (!r)
		return 0;
	if (r->in_window < ND_STORM || r->mapping != mapping) {
		r->in_window++;
		r->mapping = mapping;
		return 1;
	}
	return ++r->turn & 15 ? 0 : 16;
}

#define ND_APART(A, B) ((A) > (B) ? (A) - (B) : (B) - (A))

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(weights_fault, struct address_space___w *mapping, unsigned long index)
{
	__u32 weight = weigh(mapping);
	struct nd_thread *t;
	struct inode *inode;
	struct nd_file *f;
	__u64 now;

	if (!weight)
		return 0;
	t = current_thread();
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	inode = BPF_CORE_READ(mapping, host);
	f = file_of(t, inode, now);
	if (!f)
		return 0;
	f->e.faults += weight;
	if (f->last_fault != ~0ULL && f->last_fault != index) {
		if (index > f->last_fault)
			f->e.faults_forward += weight;
		else
			f->e.faults_backward += weight;
		if (ND_APART(index, f->last_fault) <= ND_NEAR_PAGES)
			f->e.faults_near += weight;
	}
	f->last_fault = index;
	finish_file(f, inode, now);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(weights_around, struct address_space___w *mapping, unsigned long first, unsigned long last)
{
	__u32 weight = weigh(mapping);
	struct nd_thread *t;
	struct inode *inode;
	struct nd_file *f;
	__u64 now;

	if (!weight)
		return 0;
	t = current_thread();
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	inode = BPF_CORE_READ(mapping, host);
	f = file_of(t, inode, now);
	if (!f)
		return 0;
	f->e.around += weight;
	f->e.around_pages += weight * (last - first + 1);
	if (f->last_around != ~0ULL && f->last_around != first) { /* after a fault the same range comes again */
		if (first > f->last_around)
			f->e.around_forward += weight;
		else
			f->e.around_backward += weight;
		if (ND_APART(first, f->last_around) <= ND_NEAR_PAGES)
			f->e.around_near += weight;
	}
	f->last_around = first;
	finish_file(f, inode, now);
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(weights_get, struct address_space___w *mapping, unsigned long first, unsigned long last)
{
	__u32 weight = weigh(mapping);
	struct nd_thread *t;
	struct inode *inode;
	struct nd_file *f;
	__u64 now;

	if (!weight)
		return 0;
	t = current_thread();
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	inode = BPF_CORE_READ(mapping, host);
	f = file_of(t, inode, now);
	if (!f)
		return 0;
	f->e.gets += weight;
	if (f->last_get != ~0ULL && first < f->last_get)
		f->e.gets_backward += weight;
	f->last_get = first;
	f->e.get_pages += weight * (last - first + 1);
	finish_file(f, inode, now);
	return 0;
}

static __always_inline void ahead(struct inode *inode, unsigned long index, struct file_ra_state *ra, bool waited)
{
	struct nd_thread *t = current_thread();
	__u64 now = bpf_ktime_get_ns();
	struct nd_file *f;
	__u32 size;

	f = t ? file_of(t, inode, now) : 0;
	if (!f)
		return;
	if (waited)
		f->e.readahead_waited++;
	else
		f->e.readahead_ahead++;
	if (f->last_ahead != ~0ULL && index < f->last_ahead)
		f->e.readahead_backward++;
	f->last_ahead = index;
	size = BPF_CORE_READ(ra, size);
	if (size > f->e.window)
		f->e.window = size;
	finish_file(f, inode, now);
}

SEC("tp_btf/page_cache_sync_ra")
int BPF_PROG(weights_ra_sync, struct inode *inode, unsigned long index, struct file_ra_state *ra)
{
	ahead(inode, index, ra, true);
	return 0;
}

SEC("tp_btf/page_cache_async_ra")
int BPF_PROG(weights_ra_async, struct inode *inode, unsigned long index, struct file_ra_state *ra)
{
	ahead(inode, index, ra, false);
	return 0;
}

/* ---- requests ---- */

static __always_inline struct nd_requests *sums_of(struct nd_request_key *key, __u64 now)
{
	struct nd_requests *s = bpf_map_lookup_elem(&nd_request_sums, key);
	struct nd_room *r;

	if (s)
		return s;
	r = room();
	if (!r)
		return 0;
	s = &r->requests;
	__builtin_memset(s, 0, sizeof(*s));
	s->e.began = s->flushed = now;
	s->e.inode = key->inode;
	s->e.device = key->device;
	s->e.tgid = key->tgid;
	s->e.source = key->source;
	bpf_map_update_elem(&nd_request_sums, key, s, BPF_NOEXIST);
	return bpf_map_lookup_elem(&nd_request_sums, key);
}

static __always_inline void count_size(struct weights_request_event *e, __u64 bytes)
{
	if (bytes <= 4096)
		e->upto_4k++;
	else if (bytes <= 16384)
		e->upto_16k++;
	else if (bytes <= 65536)
		e->upto_64k++;
	else if (bytes <= 131072)
		e->upto_128k++;
	else if (bytes <= 262144)
		e->upto_256k++;
	else if (bytes <= 524288)
		e->upto_512k++;
	else if (bytes <= 1048576)
		e->upto_1m++;
	else
		e->above_1m++;
}

static __always_inline void write_requests(struct nd_requests *s, __u64 now)
{
	s->e.time = now;
	s->flushed = now;
	__sync_fetch_and_add(bpf_ringbuf_output(&weights_requests, &s->e, sizeof(s->e), BPF_RB_NO_WAKEUP) ?
				     &weights_requests_lost :
				     &weights_requests_seen,
			     1);
}

/* A request that is made may still grow, or be merged into another one: it counts when it is sent. */
static __always_inline void make_request(__u64 id, struct nd_request_key *key)
{
	struct nd_started started = { .key = *key, .at = bpf_ktime_get_ns() };
	struct nd_started *before = bpf_map_lookup_elem(&nd_under_way, &id);
	struct nd_requests *s;

	if (before && before->sent) { /* the kernel runs no program inside itself: its end fell into such a moment */
		s = bpf_map_lookup_elem(&nd_request_sums, &before->key);
		if (s)
			__sync_fetch_and_add(&s->under_way, -1);
	}
	bpf_map_update_elem(&nd_under_way, &id, &started, BPF_ANY);
}

static __always_inline void send_request(__u64 id, __u64 bytes)
{
	struct nd_started *started = bpf_map_lookup_elem(&nd_under_way, &id);
	struct nd_request_key key;
	struct nd_requests *s;

	if (!started || started->sent)
		return;
	started->sent = 1;
	key = started->key;
	s = sums_of(&key, started->at);
	if (!s)
		return;
	__sync_fetch_and_add(&s->e.depth, __sync_fetch_and_add(&s->under_way, 1) + 1);
	__sync_fetch_and_add(&s->e.requests, 1);
	__sync_fetch_and_add(&s->e.bytes, bytes);
	count_size(&s->e, bytes);
}

static __always_inline void end_request(__u64 id)
{
	struct nd_started *started = bpf_map_lookup_elem(&nd_under_way, &id);
	struct nd_requests *s;
	__u64 now, took;

	if (!started)
		return;
	if (!started->sent) {
		bpf_map_delete_elem(&nd_under_way, &id);
		return;
	}
	now = bpf_ktime_get_ns();
	took = now - started->at;
	s = bpf_map_lookup_elem(&nd_request_sums, &started->key);
	if (s) {
		__sync_fetch_and_add(&s->under_way, -1);
		__sync_fetch_and_add(&s->e.answered, 1);
		__sync_fetch_and_add(&s->e.latency, took);
		if (took > s->e.latency_max)
			s->e.latency_max = took;
		if (now - s->flushed >= ND_FLUSH_NS)
			write_requests(s, now);
	}
	bpf_map_delete_elem(&nd_under_way, &id);
}

/* The regular file behind the descriptor that the current system call was given. */
static __always_inline struct inode *file_of_call(struct task_struct *task)
{
	struct task_struct___w *w = (void *)task;
	struct fdtable___w *table = BPF_CORE_READ(w, files, fdt);
	struct file___w **slots = BPF_CORE_READ(table, fd), *file = 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	__u64 fd = 0;

#ifdef __TARGET_ARCH_x86
	bpf_probe_read_kernel(&fd, sizeof(fd), &regs->rdi);
#else
	bpf_probe_read_kernel(&fd, sizeof(fd), &regs->regs[0]);
#endif
	if (!slots || fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), slots + fd);
	return file ? BPF_CORE_READ(file, f_inode) : 0;
}

static __always_inline struct address_space___w *mapping_of(struct request___w *rq)
{
	struct bio___w *bio = BPF_CORE_READ(rq, bio);
	struct page___w *page = 0;
	struct bio_vec___w *vec;
	unsigned long head;

	if (!bio)
		return 0;
	vec = (void *)BPF_CORE_READ(bio, bi_io_vec) +
	      (unsigned long)BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec___w);
	page = BPF_CORE_READ(vec, bv_page);
	if (!page)
		return 0;
	head = BPF_CORE_READ(page, compound_head);
	if (head & ND_TAIL)
		page = (void *)(head - 1);
	return BPF_CORE_READ((struct folio___w *)page, mapping);
}

SEC("tp_btf/block_io_start")
int BPF_PROG(weights_io_start, struct request___w *rq)
{
	struct address_space___w *mapping;
	struct nd_request_key key = {};
	struct nd_thread *t;
	struct inode *inode;

	if ((BPF_CORE_READ(rq, cmd_flags) & REQ_OP_MASK) != REQ_OP_READ)
		return 0;
	mapping = mapping_of(rq);
	if (mapping && !((unsigned long)mapping & ND_NO_FILE)) {
		struct nd_file_key file = {};

		inode = BPF_CORE_READ(mapping, host);
		file.inode = BPF_CORE_READ(inode, i_ino);
		file.device = BPF_CORE_READ(inode, i_sb, s_dev);
		if (!bpf_map_lookup_elem(&nd_known_files, &file))
			return 0;
		/* what a loop device asks of its own file in turn was counted already */
		if (file.device >> 20 == ND_LOOP_MAJOR && BPF_CORE_READ(rq, q, disk, major) != ND_LOOP_MAJOR)
			return 0;
		key.inode = file.inode;
		key.device = file.device;
		key.source = ND_FROM_DEVICE;
	} else {
		t = current_thread();
		if (!t)
			return 0;
		inode = file_of_call(bpf_get_current_task_btf());
		if (!inode || !is_file(inode))
			return 0;
		if (!file_of(t, inode, bpf_ktime_get_ns()))
			return 0;
		key.inode = t->inode;
		key.device = t->device;
		key.tgid = t->e.tgid;
		key.source = ND_FROM_DIRECT;
	}
	make_request((__u64)rq, &key);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(weights_io_send, struct request___w *rq)
{
	send_request((__u64)rq, BPF_CORE_READ(rq, __data_len));
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(weights_io_done, struct request___w *rq)
{
	end_request((__u64)rq);
	return 0;
}

SEC("tp_btf/fuse_request_send")
int BPF_PROG(weights_fuse_send, struct fuse_req___w *req)
{
	struct fuse_args___w *args = BPF_CORE_READ(req, args);
	struct nd_request_key key = { .source = ND_FROM_FUSE };
	struct nd_thread *t;
	const void *in;
	__u32 size = 0;

	if (BPF_CORE_READ(args, opcode) != FUSE_READ)
		return 0;
	t = current_thread();
	if (!t)
		return 0;
	in = BPF_CORE_READ(args, in_args[0].value);
	bpf_probe_read_kernel(&size, sizeof(size), in + 16); /* struct fuse_read_in: fh, offset, size */
	key.inode = t->inode;
	key.device = t->device;
	key.tgid = t->e.tgid;
	make_request((__u64)req, &key);
	send_request((__u64)req, size);
	return 0;
}

SEC("tp_btf/fuse_request_end")
int BPF_PROG(weights_fuse_end, struct fuse_req___w *req)
{
	end_request((__u64)req);
	return 0;
}

/* ---- samples and the last look ---- */

struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

SEC("perf_event")
int weights_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct nd_room *r = room();
	struct nd_thread *t;
	struct inode *inode;
	struct nd_file *f;
	__u64 now;
	__u8 class;

	if (r)
		r->in_window = 0;
	if (!tid)
		return 0;
	t = current_thread();
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	class = nd_in_user(&ctx->regs) ? ND_IN_USER : class_of(task);
	if (t->copying)
		class = ND_IN_COPY;
	else if (class == ND_IN_USER)
		t->e.sampled_user++;
	else if (class == ND_IN_FAULT)
		t->e.sampled_fault++;
	else if (class == ND_IN_READ)
		t->e.sampled_read++;
	else if (class == ND_IN_POPULATE)
		t->e.sampled_populate++;
	else if (class == ND_IN_IOCTL)
		t->e.sampled_ioctl++;
	else
		t->e.sampled_other++;
	if (class == ND_IN_READ) {
		inode = file_of_call(task);
		f = inode && is_file(inode) ? file_of(t, inode, now) : 0;
		if (f)
			f->e.sampled++;
	}
	if (now - t->flushed >= ND_FLUSH_NS) {
		account(t, now);
		write_thread(t, task, now, ND_WEIGHTS_SNAPSHOT);
	}
	return 0;
}

/* ---- copies to a GPU ---- */

enum source_of { FROM_MEMORY = 0, FROM_FILE = 1, FROM_DEVICE = 2 };

static long look_at_source(struct task_struct *task, struct vm_area_struct *vma, __u64 *from)
{
	struct file___w *file = BPF_CORE_READ(vma, vm_file);
	unsigned short kind;

	if (!file)
		return 0;
	kind = BPF_CORE_READ(file, f_inode, i_mode) & ND_S_IFMT;
	*from = kind == ND_S_IFREG ? FROM_FILE : kind == ND_S_IFCHR ? FROM_DEVICE : FROM_MEMORY;
	return 0;
}

SEC("uprobe/enter")
int weights_copy_enter(struct pt_regs *ctx)
{
	struct nd_thread *t = current_thread();
	__u64 from = FROM_MEMORY;

	if (!t || t->copying)
		return 0; /* one function of the driver may call another */
	account(t, bpf_ktime_get_ns());
	t->copying = 1;
	t->copy_bytes = nd_third_argument(ctx);
	bpf_find_vma(bpf_get_current_task_btf(), nd_second_argument(ctx), look_at_source, &from, 0);
	t->from = from;
	return 0;
}

SEC("uretprobe/leave")
int weights_copy_leave(struct pt_regs *ctx)
{
	struct nd_thread *t = current_thread();

	if (!t || !t->copying)
		return 0;
	account(t, bpf_ktime_get_ns());
	t->copying = 0;
	if (nd_returned(ctx) & 0xffffffff)
		return 0;
	t->e.copies++;
	t->e.copy_bytes += t->copy_bytes;
	if (t->from == FROM_FILE)
		t->e.copy_file_bytes += t->copy_bytes;
	if (t->from == FROM_DEVICE)
		t->e.copy_device_bytes += t->copy_bytes;
	if (t->copy_bytes < 262144)
		t->e.copies_small++;
	return 0;
}

static long last_file(void *map, struct nd_file_key *key, struct nd_file *f, void *ctx)
{
	write_file(f, bpf_ktime_get_ns());
	return 0;
}

static long last_requests(void *map, struct nd_request_key *key, struct nd_requests *s, void *ctx)
{
	write_requests(s, bpf_ktime_get_ns());
	return 0;
}

SEC("iter/task")
int weights_look(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct nd_thread *t;
	__u64 now;
	__u32 tid;

	if (!task) { /* after the last one */
		bpf_for_each_map_elem(&nd_files, last_file, 0, 0);
		bpf_for_each_map_elem(&nd_request_sums, last_requests, 0, 0);
		return 0;
	}
	tid = BPF_CORE_READ(task, pid);
	t = bpf_map_lookup_elem(&nd_threads, &tid);
	if (!t)
		return 0;
	now = bpf_ktime_get_ns();
	account(t, now);
	write_thread(t, task, now, nd_weights_end ? ND_WEIGHTS_LAST : ND_WEIGHTS_SNAPSHOT);
	return 0;
}
