/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Files that threads of a target touch: their names, how the page cache is walked, and which events are looked at. */
#ifndef NETDIAG_WEIGHTS_FILES_H
#define NETDIAG_WEIGHTS_FILES_H

#include "weights_threads.h"

#define ND_NEAR_PAGES 1024
#define ND_STORM 24 /* events between two samples on a processor: 12,000 a second */

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

/* The current thread's use of a file; no file where it is none of a target's, or is left out of a storm. */
struct nd_touch {
	struct nd_file *file;
	struct inode *inode;
	__u64 now;
	__u32 weight;
};

static __always_inline struct nd_touch touched(struct address_space___w *mapping)
{
	struct nd_touch touch = { .weight = weigh(mapping) };
	struct nd_thread *t = touch.weight ? current_thread() : 0;

	if (!t)
		return touch;
	touch.now = bpf_ktime_get_ns();
	touch.inode = BPF_CORE_READ(mapping, host);
	touch.file = file_of(t, touch.inode, touch.now);
	return touch;
}

#define ND_APART(A, B) ((A) > (B) ? (A) - (B) : (B) - (A))

/* Where in the file, against the time before: further on, further back, and whether it is near. */
static __always_inline void note_step(__u64 at, __u32 weight, __u64 *last, __u64 *forward, __u64 *backward, __u64 *near)
{
	if (*last != ~0ULL && *last != at) {
		if (at > *last)
			*forward += weight;
		else
			*backward += weight;
		if (ND_APART(at, *last) <= ND_NEAR_PAGES)
			*near += weight;
	}
	*last = at;
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

#endif
