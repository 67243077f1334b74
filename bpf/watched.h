/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Where do threads that compile leave their CPU, and when are they back? For sessions of CPU time, which follow no other
 * switches: a compile whose thread waits (for XLA's threads, for a linker, for a CPU) would end at the tick before.
 *
 *    it leaves     SAMPLE_OFF_CPU with its stack, its values and WAIT_KEY_ASLEEP
 *    it is back    RECORD_WAIT of that key
 *
 * Such a thread has a second event, which fires as it leaves its CPU (daemon/broker/perf.h): other threads cost nothing.
 * That it is back is found at its next tick or switch; since when, the scheduler wrote down on its own clock. Part of
 * sampler.bpf.c, before the tick. */
#pragma once

#define WATCHED 16u
#define WATCHED_BUDGET 16u /* stacks that a thread may have taken at once; one a period in the long run */
struct watched {
	__u64 task;         /* its address; 0: none */
	__u64 start;
	__u64 valued;       /* its last record with values, CLOCK_MONOTONIC ns; the time that it was off its CPU since is added */
	__u64 left;         /* when it left its CPU, if that was recorded; else 0 */
	__u64 paid;         /* a token bucket, as in struct wait_slot */
	struct wait_point back; /* the record is made from this: its users have no stack left */
};
static struct watched watched[WATCHED];
static __u64 watched_skew; /* CLOCK_MONOTONIC minus the scheduler's clock, ns; 0: not known */

static __always_inline struct watched *watched_slot(const struct task_struct *task)
{
	return &watched[task->pid & (WATCHED - 1)];
}

/* Its memory may be another task's by now. */
static __always_inline int is_watched(const struct watched *of, const struct task_struct *task)
{
	return of->task == (__u64)task && of->start == task->start_boottime;
}

/* A record of the current thread has values, or its switches are followed since now. */
static __always_inline void watch(struct watched *of, struct task_struct *task, __u64 now)
{
	if (!is_watched(of, task)) {
		of->task = 0;
		of->start = task->start_boottime;
		of->left = of->paid = 0;
		of->task = (__u64)task;
	}
	of->valued = now;
}

/* At a tick or a switch of the current thread: it has been back since its last arrival on a CPU. This and the next ones
 * are functions of their own, so that the verifier goes through them once. */
HOST_APART int watched_back(__u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct watched *of = watched_slot(task);
	__u64 back = task->sched_info.last_arrival + watched_skew;

	if (!of->left || !is_watched(of, task))
		return 0;
	if (!watched_skew || back < of->left || back > now)
		back = now;
	of->back.key = WAIT_KEY_ASLEEP;
	of->back.begin = of->left;
	of->back.waited = back - of->left;
	of->back.count = 1;
	of->back.syscall = -1;
	of->valued += back - of->left;
	of->left = 0;
	wait_emit(&of->back, task, back);
	return 0;
}

/* At a switch: is its stack to be taken? The run queue's clock was brought up to date for this switch. */
HOST_APART int watched_leaves(__u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct watched *of = watched_slot(task);
	__u64 most = (__u64)tick_period * WATCHED_BUDGET, clock = 0, paid;

	if (task->flags & PF_EXITING)
		return 0;
	if (bpf_core_field_exists(task->se.cfs_rq))
		clock = BPF_CORE_READ(task, se.cfs_rq, rq, clock);
	watched_skew = clock ? now - clock : 0;
	watched_back(now);
	if (!is_watched(of, task))
		watch(of, task, now);
	paid = of->paid + most > now ? of->paid : now - most;
	if (now - of->valued > SCHEDULE_LATELY_NS || paid + tick_period > now)
		return 0;
	of->paid = paid + tick_period;
	return 1;
}

HOST_APART int watched_fill(struct part_wait *part)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct pt_regs___entry *regs = entered_with(task);

	if (!part)
		return 0;
	part->part.kind = PART_WAIT;
	part->part.loss = 0;
	part->part.size = sizeof(*part);
	part->key = WAIT_KEY_ASLEEP;
	part->args[0] = syscall_arg0(regs);
	part->args[1] = syscall_arg1(regs);
	part->args[2] = syscall_arg2(regs);
	part->syscall = (__s32)syscall_number(regs);
	part->state = task->__state;
	part->fd_mode = part->syscall >= 0 ? wait_fd_mode_here((__u32)syscall_arg0(regs)) : 0;
	part->flags = 0;
	part->holder = 0;
	part->own = thread_pointer(task);
	return 1;
}

static __always_inline __u32 watched_part(struct record_sample *record, __u8 *base, __u32 size)
{
	host_barrier(size);
	if (size > SAMPLE_RECORD_MAX - sizeof(struct part_wait))
		return size;
	watched_fill((struct part_wait *)(base + size));
	record->parts++;
	return size + sizeof(struct part_wait);
}

/* Its record was written. The engine reads values that are new, and code objects, at a poll: there may be no tick that
 * wakes it. */
HOST_APART int watched_left(__u64 now, int fresh)
{
	struct record_wake *record;

	watched_slot(bpf_get_current_task_btf())->left = now;
	if (!fresh)
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return 0;
	*record = (struct record_wake){.size = sizeof(*record), .kind = RECORD_SLEEPS};
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
	return 0;
}
