// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The life of the traced processes: fork, exec, exit. Children of targets become targets. */

#include "netdiag/process.h"
#include <bpf/bpf_tracing.h>

/* include/uapi/asm-generic/signal.h */
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22

/* The kernel knows no word for Apache-2.0 OR GPL-2.0: this names the half that it needs. */
char LICENSE[] SEC("license") = "GPL v2";

/* Emits the layout into BTF. */
const struct process_event *nd_layout_process_event __attribute__((unused));

static __always_inline bool is_target(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) || bpf_map_lookup_elem(&known_processes, &tgid);
}

static __always_inline void handle_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid, tgid;
	__u8 one = 1;

	if (BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid))
		return; /* a thread */
	parent_tgid = nd_task_tgid(parent);
	if (!bpf_map_lookup_elem(&targets, &parent_tgid))
		return;
	if (!nd_filter_follow)
		return;
	tgid = nd_task_tgid(child);
	bpf_map_update_elem(&targets, &tgid, &one, BPF_ANY);
	nd_write_process(child, ND_PROCESS_FORK, 0, 0);
}

/*
 * Is it the wanted program? By now the thread is named after the path that was run, without its folders
 * (fs/exec.c, begin_new_exec()); the file has another name where that was a link. Names are cut at 15 characters.
 */
static __always_inline bool same_program(struct task_struct *task, struct linux_binprm *bprm)
{
	const char *file = (const char *)BPF_CORE_READ(bprm, file, f_path.dentry, d_name.name);
	char name[16] = {};

	BPF_CORE_READ_STR_INTO(&name, task, comm);
	if (nd_same_name(nd_filter_exe, name))
		return true;
	return bpf_probe_read_kernel_str(name, sizeof(name), file) > 0 && nd_same_name(nd_filter_exe, name);
}

static __always_inline void handle_exec(struct task_struct *task, struct linux_binprm *bprm)
{
	const char *filename = BPF_CORE_READ(bprm, filename);
	__u32 tgid = nd_task_tgid(task);
	__u8 one = 1;

	if (nd_filter_exe[0] && same_program(task, bprm))
		bpf_map_update_elem(&targets, &tgid, &one, BPF_ANY);
	if (is_target(tgid))
		nd_write_process(task, ND_PROCESS_EXEC, 0, filename);
}

static __always_inline void handle_exit(struct task_struct *task)
{
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	__u32 tgid, code;

	if (BPF_CORE_READ(signal, live.counter))
		return; /* other threads live on */
	tgid = nd_task_tgid(task);
	if (!is_target(tgid))
		return;
	code = BPF_CORE_READ(signal, group_exit_code);
	nd_write_process(task, ND_PROCESS_EXIT, code ? code : BPF_CORE_READ(task, exit_code), 0);
	bpf_map_delete_elem(&targets, &tgid);
	bpf_map_delete_elem(&known_processes, &tgid);
}

/* Does it stop who gets it? The kernel takes it from whoever has no handler of his own: signal(7). */
static __always_inline bool stops(int signal, struct k_sigaction *action)
{
	return signal == SIGSTOP ||
	       ((signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) && !BPF_CORE_READ(action, sa.sa_handler));
}

static __always_inline void handle_stop(int signal, struct k_sigaction *action)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (stops(signal, action) && is_target(nd_task_tgid(task)))
		nd_write_process(task, ND_PROCESS_STOPPED, 0, 0);
}

static __always_inline void handle_continue(int signal, struct task_struct *task)
{
	if (signal == SIGCONT && is_target(nd_task_tgid(task)))
		nd_write_process(task, ND_PROCESS_CONTINUED, 0, 0);
}

/* Told for the cgroup that holds the processes, once all of them stand still; who is traced is found by its number. */
static __always_inline void handle_freeze(struct cgroup *cgroup, bool frozen)
{
	struct process_event *e = nd_reserve(process_events, struct process_event);

	if (!e)
		return;
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->cgroup = BPF_CORE_READ(cgroup, kn, id);
	e->kind = frozen ? ND_PROCESS_FROZEN : ND_PROCESS_THAWED;
	nd_submit_now(e);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	handle_fork(parent, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	handle_exec(task, bprm);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	handle_exit(task);
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal_deliver, int signal, void *info, struct k_sigaction *action)
{
	handle_stop(signal, action);
	return 0;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int signal, void *info, struct task_struct *task)
{
	handle_continue(signal, task);
	return 0;
}

SEC("tp_btf/cgroup_notify_frozen")
int BPF_PROG(cgroup_notify_frozen, struct cgroup *cgroup, const char *path, bool frozen)
{
	handle_freeze(cgroup, frozen);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *cgroup, const char *path, struct task_struct *task)
{
	if (is_target(nd_task_tgid(task)))
		nd_write_process(task, ND_PROCESS_MOVED, 0, 0);
	return 0;
}
