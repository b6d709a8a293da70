/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The registers of a probed function, as the kernel promises them to user space: uapi/asm/ptrace.h. */
#ifndef NETDIAG_REGS_H
#define NETDIAG_REGS_H

#include "types.h"

#ifdef __TARGET_ARCH_x86
struct pt_regs {
	unsigned long r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
	unsigned long rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags, rsp, ss;
};
#define nd_first_argument(ctx) ((__u64)(ctx)->rdi)
#define nd_returned(ctx) ((long)(ctx)->rax)
#define nd_stack(ctx) ((__u64)(ctx)->rsp)
#define ND_RETURN_BYTES 8 /* `ret` takes the return address from the stack */
#else
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#define nd_first_argument(ctx) ((ctx)->regs[0])
#define nd_returned(ctx) ((long)(ctx)->regs[0])
#define nd_stack(ctx) ((ctx)->sp)
#define ND_RETURN_BYTES 0
#endif

#endif
