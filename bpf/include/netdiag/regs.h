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
#define nd_second_argument(ctx) ((__u64)(ctx)->rsi)
#define nd_third_argument(ctx) ((__u64)(ctx)->rdx)
#define nd_fourth_argument(ctx) ((__u64)(ctx)->rcx)
#define nd_fifth_argument(ctx) ((__u64)(ctx)->r8)
#define nd_sixth_argument(ctx) ((__u64)(ctx)->r9)
#define ND_ARGUMENTS_IN_REGISTERS 6 /* the seventh lies on the stack, behind the return address */
#define nd_returned(ctx) ((long)(ctx)->rax)
/* Go since 1.17, src/cmd/compile/abi-internal.md: receiver, then the parts of a slice; the goroutine */
#define nd_go_first(ctx) ((__u64)(ctx)->rax)
#define nd_go_second(ctx) ((__u64)(ctx)->rbx)
#define nd_go_third(ctx) ((__u64)(ctx)->rcx)
#define nd_goroutine(ctx) ((ctx)->r14)
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
#define nd_second_argument(ctx) ((ctx)->regs[1])
#define nd_third_argument(ctx) ((ctx)->regs[2])
#define nd_fourth_argument(ctx) ((ctx)->regs[3])
#define nd_fifth_argument(ctx) ((ctx)->regs[4])
#define nd_sixth_argument(ctx) ((ctx)->regs[5])
#define ND_ARGUMENTS_IN_REGISTERS 8
#define nd_seventh_argument(ctx) ((ctx)->regs[6])
#define nd_returned(ctx) ((long)(ctx)->regs[0])
#define nd_go_first(ctx) ((ctx)->regs[0])
#define nd_go_second(ctx) ((ctx)->regs[1])
#define nd_go_third(ctx) ((ctx)->regs[2])
#define nd_goroutine(ctx) ((ctx)->regs[28])
#define nd_stack(ctx) ((ctx)->sp)
#define ND_RETURN_BYTES 0
#endif

#endif
