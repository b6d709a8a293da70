// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * How files get into memory, at a cost that does not grow with the number of ordinary page faults: where threads stop
 * is known at context switches, what they do while they run from samples, and of faults only those are seen that the
 * page cache is asked for. Nothing is attached to the faults of anonymous memory.
 */

#include "netdiag/regs.h"
#include "netdiag/weights_files.h"
#include "netdiag/weights_requests.h"
#include "netdiag/weights_threads.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL v2";

const struct weights_thread_event *nd_layout_weights_thread __attribute__((unused));
const struct weights_file_event *nd_layout_weights_file __attribute__((unused));
const struct weights_request_event *nd_layout_weights_request __attribute__((unused));
const struct weights_path_event *nd_layout_weights_path __attribute__((unused));

/* include/linux/blk_types.h */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
/* include/uapi/linux/fuse.h */
#define FUSE_READ 15
/* include/linux/page-flags.h: the mapping of an anonymous page has one of these bits */
#define ND_NO_FILE 3UL
/* include/uapi/linux/major.h */
#define ND_LOOP_MAJOR 7
/* after the classes that a thread may be in by its registers */
#define ND_IN_COPY 6

__u8 nd_weights_end = 0; /* the walk is the last one */

/* ---- threads ---- */

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

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(weights_fault, struct address_space___w *mapping, unsigned long index)
{
	struct nd_touch touch = touched(mapping);
	struct nd_file *f = touch.file;

	if (!f)
		return 0;
	f->e.faults += touch.weight;
	note_step(index, touch.weight, &f->last_fault, &f->e.faults_forward, &f->e.faults_backward, &f->e.faults_near);
	finish_file(f, touch.inode, touch.now);
	return 0;
}

/* After a fault the same range comes again. */
SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(weights_around, struct address_space___w *mapping, unsigned long first, unsigned long last)
{
	struct nd_touch touch = touched(mapping);
	struct nd_file *f = touch.file;

	if (!f)
		return 0;
	f->e.around += touch.weight;
	f->e.around_pages += touch.weight * (last - first + 1);
	note_step(first, touch.weight, &f->last_around, &f->e.around_forward, &f->e.around_backward, &f->e.around_near);
	finish_file(f, touch.inode, touch.now);
	return 0;
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(weights_get, struct address_space___w *mapping, unsigned long first, unsigned long last)
{
	struct nd_touch touch = touched(mapping);
	struct nd_file *f = touch.file;

	if (!f)
		return 0;
	f->e.gets += touch.weight;
	f->e.get_pages += touch.weight * (last - first + 1);
	if (f->last_get != ~0ULL && first < f->last_get)
		f->e.gets_backward += touch.weight;
	f->last_get = first;
	finish_file(f, touch.inode, touch.now);
	return 0;
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

/* ---- memory that has to be freed first ---- */

static __always_inline int reclaim_begins(void)
{
	struct nd_thread *t = current_thread();

	if (t)
		t->reclaiming = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int reclaim_ends(void)
{
	struct nd_thread *t = current_thread();

	if (!t || !t->reclaiming)
		return 0;
	t->e.reclaim += bpf_ktime_get_ns() - t->reclaiming;
	t->e.reclaims++;
	t->reclaiming = 0;
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(weights_reclaim)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(weights_reclaimed)
{
	return reclaim_ends();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(weights_group_reclaim)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(weights_group_reclaimed)
{
	return reclaim_ends();
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
