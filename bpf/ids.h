/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Ids of processes and threads as cprofd has them: those of its PID namespace. The kernel's own (task->tgid, task->pid) are those of the
 * first one, and in a container mean nothing. Who is not in the namespace of cprofd has the id 0, and so has who was released.
 *
 * In the first one nothing of this is in a program, but for a constant that is looked at. */
#ifndef CPROFD_BPF_IDS_H
#define CPROFD_BPF_IDS_H

const volatile __u32 nested = 0; /* in another one than the first */

/* The namespace, and how many are above it. */
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

/* Functions apart, for the room on the stack. Hidden they are verified only where they are called, with what the verifier knows there of
 * the task. */
#define IDS_APART __attribute__((noinline, weak, visibility("hidden")))

IDS_APART __u32 ids_number(struct task_struct *task, __u32 leader)
{
	__u32 own = own_namespace.level;
	struct pid *pid;

	pid = leader ? BPF_CORE_READ(task, group_leader, thread_pid) : BPF_CORE_READ(task, thread_pid);
	return pid && BPF_CORE_READ(pid, level) >= own ? ids_at(pid, own) : 0;
}

/* For less, where all threads of the machine pass by: the verifier follows the pointers, which takes it some ms. */
IDS_APART __u32 ids_of_passing(struct task_struct *task)
{
	struct pid *pid = task->group_leader->thread_pid;
	__u32 own = own_namespace.level;

	return pid && pid->level >= own ? ids_at(pid, own) : 0;
}

/* A task that the verifier knows as one; child_tgid() and child_tid() are of another. */
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

/* Do ids that the task has of itself mean the same here? */
IDS_APART int ids_are_its_own(struct task_struct *task)
{
	return BPF_CORE_READ(task, thread_pid, level) == own_namespace.level;
}

/* Run once by the broker, before any other program: where it is itself. */
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

#endif
