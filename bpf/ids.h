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

struct ids {
	__u32 tgid, tid;
};

static __always_inline void ids_read(struct upid *to, const struct pid *pid, __u32 level)
{
	const struct upid *numbers = pid->numbers;

	bpf_probe_read_kernel(to, sizeof(*to), numbers + level);
}

/* Of a struct pid, whose address comes as a number: such a function is verified by itself, and only when it is called. */
__attribute__((noinline, weak)) __u32 ids_number(__u64 address)
{
	const struct pid *pid = (const void *)address;
	__u32 own = own_namespace.level;
	struct upid number = {};

	if (!pid || BPF_CORE_READ(pid, level) < own)
		return 0;
	ids_read(&number, pid, own);
	return (__u64)number.ns == own_namespace.address ? number.nr : 0;
}

/* A task that the verifier knows as one; word_ids() is of another. */
static __always_inline __u32 task_tgid(const struct task_struct *task)
{
	return nested ? ids_number((__u64)BPF_CORE_READ(task, group_leader, thread_pid)) : (__u32)task->tgid;
}

static __always_inline __u32 task_tid(const struct task_struct *task)
{
	return nested ? ids_number((__u64)BPF_CORE_READ(task, thread_pid)) : (__u32)task->pid;
}

static __always_inline struct ids task_ids(const struct task_struct *task)
{
	if (!nested)
		return (struct ids){task->tgid, task->pid};
	return (struct ids){task_tgid(task), task_tid(task)};
}

static __always_inline struct ids word_ids(const struct task_struct *task)
{
	if (nested)
		return task_ids(task);
	return (struct ids){BPF_CORE_READ(task, tgid), BPF_CORE_READ(task, pid)};
}

/* Do ids that the task has of itself mean the same here? */
static __always_inline int ids_are_its_own(const struct task_struct *task)
{
	return BPF_CORE_READ(task, thread_pid, level) == own_namespace.level;
}

/* Run once by the broker, before any other program: where it is itself. */
SEC("?raw_tp")
int find_namespace(void *context)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	const struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid number = {};

	ids_read(&number, pid, level);
	own_namespace.address = (__u64)number.ns;
	own_namespace.level = level;
	return 0;
}

#endif
