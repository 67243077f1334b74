/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Wall mode: the programs that run when a thread leaves its CPU, comes back, or is woken, and the two iterators that
 * report threads which sleep throughout, at the start and the end of a session. The sums are kept by offcpu.h. These
 * programs run at each context switch of the machine, so each checks first whether a target is concerned. Part of
 * sampler.bpf.c. */
#pragma once

/* Bits: the thread that leaves the CPU is a target's, the one that gets it is. */
#define LEFT 1
#define CAME 2

IDS_APART int passing_targets(struct task_struct *prev, struct task_struct *next)
{
	__u32 left = ids_of_passing(prev), came = ids_of_passing(next);

	return (is_perhaps_target(left) && is_target(left) ? LEFT : 0) | (is_perhaps_target(came) && is_target(came) ? CAME : 0);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	int only = each_tick.only_target, which;
	struct wait_capture c;

	if (only && prev->tgid != only && next->tgid != only)
		return 0;
	which = nested ? passing_targets(prev, next)
		       : (is_perhaps_target(prev->tgid) ? LEFT : 0) | (is_perhaps_target(next->tgid) ? CAME : 0);

	if (!which || !waits_since || waits_over)
		return 0;
	c = (struct wait_capture){.task = prev, .state = preempt ? 0 : state, .now = bpf_ktime_get_ns()};
	if (which & CAME && (nested || is_target(next->tgid)) && wait_allowed(next, passing_tgid(next)))
		wait_in(next, c.now);
	if (!(which & LEFT) || !(nested || is_target(prev->tgid)) || !wait_allowed(prev, passing_tgid(prev)) || !wait_out(&c))
		return 0;
	if (take(NULL, &c))
		c.point->taken = 0;
	else
		wait_taken();
	return 0;
}

SEC("?iter/task")
int each_first(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && authorised(task, task_tgid(task)) == AUTHORISED_YES)
		wait_first(task);
	return 0;
}

SEC("?iter/task")
int each_last(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || !is_target(task_tgid(task)))
		return 0;
	if (wait_allowed(task, task_tgid(task)))
		wait_last(task);
	else
		emit_lost(task); /* it may not have been switched since */
	return 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	int only = each_tick.only_target;
	struct wait_slot *slot;
	__u32 tgid;
	__u64 now;

	if (only && task->tgid != only)
		return 0;
	tgid = passing_tgid(task);
	if (!is_perhaps_target(tgid) || !waits_since || !wait_allowed(task, tgid))
		return 0;
	now = bpf_ktime_get_ns();
	slot = wait_find(wait_thread(task));
	if (!slot)
		slot = wait_slept(task);
	if (!slot || (slot->out && slot->woken >= slot->out))
		return 0;
	slot->waker = task_tid(bpf_get_current_task_btf());
	slot->woken = now;
	return 0;
}
