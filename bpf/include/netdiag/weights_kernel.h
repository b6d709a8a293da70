/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The kernel fields that the weights probe reads; ___w is dropped when they are looked up in the kernel's BTF. */
#ifndef NETDIAG_WEIGHTS_KERNEL_H
#define NETDIAG_WEIGHTS_KERNEL_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_io_accounting {
	__u64 rchar;
	__u64 syscr;
	__u64 read_bytes;
};

struct fdtable___w {
	unsigned int max_fds;
	struct file___w **fd;
};

struct files_struct___w {
	struct fdtable___w *fdt;
};

struct task_struct___w {
	struct task_io_accounting ioac;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct files_struct___w *files;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct address_space___w {
	struct inode *host;
	unsigned long nrpages;
};

struct hlist_node___w {
	struct hlist_node___w *next;
};

struct hlist_head___w {
	struct hlist_node___w *first;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
	long long i_size;
	unsigned short i_mode;
	struct address_space___w *i_mapping;
	struct hlist_head___w i_dentry;
};

struct file___w {
	struct inode *f_inode;
};

struct vm_area_struct {
	struct file___w *vm_file;
};

struct dentry___w {
	struct dentry___w *d_parent;
	struct qstr d_name;
	/* a union of its own before 6.x named it: the list node of the inode's names */
	union {
		struct hlist_node___w d_alias;
	} d_u;
};

struct folio___w {
	struct address_space___w *mapping;
};

struct page___w {
	unsigned long compound_head;
};

struct file_ra_state {
	unsigned int size;
};

struct bio_vec___w {
	struct page___w *bv_page;
};

struct bvec_iter___w {
	unsigned int bi_idx;
};

struct bio___w {
	struct bio_vec___w *bi_io_vec;
	struct bvec_iter___w bi_iter;
};

struct block_device___w {
	__u32 bd_dev;
};

struct gendisk___w {
	int major;
};

struct request_queue___w {
	struct gendisk___w *disk;
};

struct request___w {
	struct request_queue___w *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	struct bio___w *bio;
};

struct fuse_in_arg___w {
	unsigned int size;
	const void *value;
};

struct fuse_args___w {
	__u64 nodeid;
	__u32 opcode;
	struct fuse_in_arg___w in_args[1];
};

struct fuse_req___w {
	struct fuse_args___w *args;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#ifdef __TARGET_ARCH_arm64
struct pt_regs___syscall {
	int syscallno;
};
#endif

#pragma clang attribute pop

#endif
