/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Kernel drift. The newest way first, chosen by what the running kernel's BTF
 * shows, never by its version; each with the commit that brought it.
 */
#ifndef NETDIAG_CORE_FIXES_H
#define NETDIAG_CORE_FIXES_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* include/uapi/linux/bpf.h; the value is looked up in the kernel's BTF */
enum bpf_func_id___loop { BPF_FUNC_loop = 181 };

/*
 * bpf_loop(): e6f2dd0f8067 "bpf: Add bpf_loop helper", v5.17. The verifier looks at
 * the body once instead of once per turn.
 */
#define nd_has_loop() bpf_core_enum_value_exists(enum bpf_func_id___loop, BPF_FUNC_loop)

#endif
