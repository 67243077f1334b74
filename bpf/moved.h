/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Until when did a thread sleep where the engine found it? Mode cpu follows no switches, and the engine polls sleeping
 * compiles every 15 ms at best (daemon/serve/sleepers.c): one that ends and is followed by another wait would seem to
 * last until that is found. So ticks of the threads that it waits for compare the kernel's count of its runs (pcount),
 * and report with RECORD_MOVED when it was last the same. Part of sampler.bpf.c. */
#pragma once

#define WATCHED 4u
/* A thread with values, since its last tick. The engine cannot read this: kernel addresses are no business of its. */
struct watched {
	__u64 task;         /* its address; 0: none */
	__u64 thread_start;
	__u64 runs;         /* its pcount when it was compared last, ... */
	__u64 same;         /* ... when that was, CLOCK_MONOTONIC ns, */
	__u64 ticked;       /* ... and when its last tick was */
	__u32 tid, pid;     /* as in records; the kernel's own */
	__u64 asked;        /* the engine was woken for it since that tick */
};
static struct watched watched[WATCHED];

static __always_inline void emit_moved(const struct watched *of, __u64 runs, __u64 flags)
{
	struct record_moved *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return;
	*record = (struct record_moved){.wake = {.size = sizeof(*record), .kind = RECORD_MOVED},
					.tid = of->tid,
					.runs = of->runs,
					.same = of->same,
					.runs_now = runs};
	bpf_ringbuf_submit(record, flags);
}

/* At its own tick. If it got a CPU once since it was compared, it woke up just now: the engine knows as much. */
static __always_inline void watch(struct task_struct *task, const struct record_sample *record)
{
	struct watched *to = &watched[task->pid & (WATCHED - 1)];

	if (to->task == (__u64)task && task->sched_info.pcount - to->runs > 1 && to->same != to->ticked)
		emit_moved(to, task->sched_info.pcount, BPF_RB_NO_WAKEUP);
	to->task = 0;
	to->thread_start = task->start_boottime;
	to->runs = task->sched_info.pcount;
	to->same = to->ticked = record->header.time;
	to->tid = record->header.task.tid;
	to->pid = task->pid;
	to->asked = 0;
	to->task = (__u64)task;
}

/* Its task may have ended and its memory may be another's: then pid or start differ. The engine polls it as soon as it
 * is quiet, and when it moved on. */
#define QUIET_NS (tick_period * 5 / 2 + SCHEDULE_SETTLE_NS)
static __always_inline void compare_one(struct watched *of, __u64 now)
{
	struct task_struct *task = (struct task_struct *)of->task;
	__u64 runs, wakes = BPF_RB_NO_WAKEUP;

	if (!task || (__s64)(now - of->ticked) < (__s64)QUIET_NS)
		return;
	runs = BPF_CORE_READ(task, sched_info.pcount);
	if (BPF_CORE_READ(task, pid) != (int)of->pid || BPF_CORE_READ(task, start_boottime) != of->thread_start) {
		of->task = 0;
		return;
	}
	if ((runs != of->runs || !of->asked) && (__s64)(now - woken) >= (__s64)SCHEDULE_FRESH_NS) {
		woken = now;
		of->asked = 1;
		wakes = BPF_RB_FORCE_WAKEUP;
	}
	if (runs != of->runs || wakes == BPF_RB_FORCE_WAKEUP)
		emit_moved(of, runs, wakes);
	of->runs = runs;
	of->same = now;
}

/* At a tick of a thread without Python frames. */
HOST_APART int compare_watched(__u64 now)
{
	__u32 i;

	_Pragma("clang loop unroll(full)")
	for (i = 0; i < WATCHED; i++)
		compare_one(&watched[i], now);
	return 0;
}
