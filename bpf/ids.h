/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Ids of processes and threads as cprofd sees them, in its PID namespace. The kernel's own (task->tgid, task->pid)
 * are those of the initial namespace, which mean nothing in a container. A task outside of cprofd's namespace, or
 * already released, has the id 0.
 *
 * If cprofd runs in the initial namespace, all this is dead code: `nested` is a constant for the verifier. */
#pragma once

const volatile __u32 nested = 0; /* cprofd is not in the initial namespace */

/* The namespace of cprofd, and its depth. */
struct {
	__u64 address;
	__u32 level, _pad;
} own_namespace;

static __always_inline void ids_read(struct upid *to, struct pid *pid, __u32 level)
{
	const struct upid *numbers = pid->numbers;

	bpf_probe_read_kernel(to, sizeof(*to), numbers + level);
}

static __always_inline __u32 ids_at(struct pid *pid, __u32 level)
{
	struct upid number = {};

	ids_read(&number, pid, level);
	return (__u64)number.ns == own_namespace.address ? number.nr : 0;
}

/* Functions of their own, because their callers have no stack left. "hidden": the verifier then checks them only
 * where they are called, with what it knows about the task there. */
#define IDS_APART __attribute__((noinline, weak, visibility("hidden")))

IDS_APART __u32 ids_number(struct task_struct *task, __u32 leader)
{
	__u32 own = own_namespace.level;
	struct pid *pid;

	pid = leader ? BPF_CORE_READ(task, group_leader, thread_pid) : BPF_CORE_READ(task, thread_pid);
	return pid && BPF_CORE_READ(pid, level) >= own ? ids_at(pid, own) : 0;
}

/* Faster, for programs that run for every thread of the machine. It follows plain pointers, which costs the verifier
 * some ms at load. */
IDS_APART __u32 ids_of_passing(struct task_struct *task)
{
	struct pid *pid = task->group_leader->thread_pid;
	__u32 own = own_namespace.level;

	return pid && pid->level >= own ? ids_at(pid, own) : 0;
}

/* For tasks that the verifier trusts; for others child_tgid() and child_tid(). */
static __always_inline __u32 task_tgid(struct task_struct *task)
{
	return nested ? ids_number(task, 1) : (__u32)task->tgid;
}

static __always_inline __u32 task_tid(struct task_struct *task)
{
	return nested ? ids_number(task, 0) : (__u32)task->pid;
}

static __always_inline __u32 passing_tgid(struct task_struct *task)
{
	return nested ? ids_of_passing(task) : (__u32)task->tgid;
}

static __always_inline __u32 child_tgid(struct task_struct *child)
{
	return nested ? ids_number(child, 1) : (__u32)BPF_CORE_READ(child, tgid);
}

static __always_inline __u32 child_tid(struct task_struct *child)
{
	return nested ? ids_number(child, 0) : (__u32)BPF_CORE_READ(child, pid);
}

/* Do the ids that the task itself uses (e.g. a stored native thread id) mean the same to cprofd? */
IDS_APART int ids_are_its_own(struct task_struct *task)
{
	return BPF_CORE_READ(task, thread_pid, level) == own_namespace.level;
}

/* The broker runs this once, before any other program: finds its own namespace. */
SEC("?raw_tp")
int find_namespace(void *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid number = {};

	ids_read(&number, pid, level);
	own_namespace.address = (__u64)number.ns;
	own_namespace.level = level;
	return 0;
}
