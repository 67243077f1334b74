/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Where do threads that compile fall asleep, and when are they back? For sessions of CPU time, which follow no other
 * switches: a compile whose thread waits (for XLA's threads, for a linker) would end at the tick before.
 *
 *    it sleeps     SAMPLE_OFF_CPU with its stack, its values and WAIT_KEY_ASLEEP
 *    it is back    RECORD_WAIT of that key
 *
 * Such a thread has a second event, which fires as it leaves its CPU (daemon/broker/perf.h): other threads cost nothing.
 * That it is back is found at its next tick or switch; since when, the scheduler wrote down on its own clock. Part of
 * sampler.bpf.c, before the tick. */
#pragma once

#define WATCHED_SETS 16u   /* by the thread's id */
#define WATCHED_WAYS 8u
#define WATCHED (WATCHED_SETS * WATCHED_WAYS)
#define WATCHED_PLACES 8u
#define WATCHED_NOTE_NS (SCHEDULE_LATELY_NS / 16)
#define WATCHED_BUDGET 16u /* stacks that a thread may have taken at once; one a period in the long run */
struct watched {
	__u64 start;
	/* A record of it with values, the last one or one shortly before that (watched_valued), CLOCK_MONOTONIC ns; the time that
	 * it slept since is added. 1: it had none yet. */
	__u64 valued;
	__u64 left;         /* when it fell asleep; 0: it runs */
	__u64 unseen;       /* ... and no stack was taken: it is taken to be where the last one was */
	struct {
		__u64 key, taken; /* from wait_key(); when its last stack was taken */
	} places[WATCHED_PLACES];
	__u64 paid, reserved, tstate; /* token buckets and a hint, as in struct wait_slot */
	struct wait_point back; /* the record is made from this: its users have no stack left */
};
static struct watched watched[WATCHED];
static __u64 watched_tasks[WATCHED]; /* whose each is; apart, as ticks of all threads search it */
/* How many threads with this id modulo 64 sleep, or more (one that ended asleep, or made room): most ticks need no search. */
static __u32 watched_asleep[64];
static __u64 watched_skew; /* CLOCK_MONOTONIC minus the scheduler's clock, ns; 0: not known */

#define WATCHED_AT(i) (&watched[(i) & (WATCHED - 1)])

/* 1 + the index of the current thread's; 0: it is not followed. Its memory may have been another task's. Here and below no loop
 * branches, as the verifier would go through all that follows once for each way out. */
HOST_APART __u32 watched_find(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 first = (task->pid & (WATCHED_SETS - 1)) * WATCHED_WAYS, i, at = 0;
	__u64 address = bpf_get_current_task(); /* the task again, as a number */

	_Pragma("clang loop unroll(full)")
	for (i = 0; i < WATCHED_WAYS; i++) {
		at |= values_same(watched_tasks[(first + i) & (WATCHED - 1)], address) << i;
		host_barrier(at);
	}
	if (!at)
		return 0;
	at = first + values_count((at & -at) - 1);
	return WATCHED_AT(at)->start == task->start_boottime ? (at & (WATCHED - 1)) + 1 : 0;
}

static __always_inline struct watched *watched_of(void)
{
	__u32 at = watched_find();

	return at ? WATCHED_AT(at - 1) : NULL;
}

/* Its count; a tick looks at it only if any thread sleeps (each_tick.asleep): it is a line of cache of its own. */
static __always_inline __u32 *watched_sleepers(const struct task_struct *task)
{
	return &watched_asleep[task->pid & 63];
}

/* The current thread falls asleep. */
static __always_inline void watched_sleeps(struct watched *of, __u64 now, __u64 unseen)
{
	of->unseen = unseen;
	of->left = now;
	__sync_fetch_and_add(watched_sleepers(bpf_get_current_task_btf()), 1);
	__sync_fetch_and_add(&each_tick.asleep, 1);
}

/* The older of two times, and whose it is. */
static __always_inline void watched_older(__u32 *at, __u64 *oldest, __u32 i, __u64 time)
{
	__u64 less = -((time - *oldest) >> 63);

	host_barrier(less);
	*oldest += (time - *oldest) & less;
	*at += (i - *at) & (__u32)less;
}

/* Its switches are followed since now. The one whose values are oldest makes room. */
HOST_APART int watched_add(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 first = (task->pid & (WATCHED_SETS - 1)) * WATCHED_WAYS, at = 0, i;
	__u64 oldest = ~0ull >> 1;

	_Pragma("clang loop unroll(full)")
	for (i = 0; i < WATCHED_WAYS; i++)
		watched_older(&at, &oldest, i, WATCHED_AT(first + i)->valued);
	at += first;
	watched_tasks[at & (WATCHED - 1)] = 0;
	WATCHED_AT(at)->start = task->start_boottime;
	WATCHED_AT(at)->left = WATCHED_AT(at)->paid = WATCHED_AT(at)->reserved = WATCHED_AT(at)->tstate = 0;
	WATCHED_AT(at)->valued = 1;
	watched_tasks[at & (WATCHED - 1)] = (__u64)task;
	return 0;
}

/* A record of the current thread has values: called once in WATCHED_NOTE_NS, as it touches three lines of cache. This and the
 * next ones are functions of their own, so that the verifier goes through them once. */
HOST_APART int watched_valued(__u64 now)
{
	struct watched *of = watched_of();

	if (of)
		of->valued = now;
	return 0;
}

/* It runs now; since when is not told. */
static __always_inline void watched_runs(struct watched *of)
{
	of->left = 0;
	__sync_fetch_and_add(watched_sleepers(bpf_get_current_task_btf()), -1);
	__sync_fetch_and_add(&each_tick.asleep, -1);
}

HOST_APART int watched_forget(void)
{
	struct watched *of = watched_of();

	if (of && of->left)
		watched_runs(of);
	return 0;
}

/* At a tick or a switch of the current thread: it has been back since its last arrival on a CPU. */
HOST_APART int watched_back(__u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct watched *of = watched_of();
	__u64 back = task->sched_info.last_arrival + watched_skew, slept;

	if (!of || !of->left)
		return 0;
	if (!watched_skew || back < of->left || back > now)
		back = now;
	slept = back - of->left;
	of->back.key = WAIT_KEY_ASLEEP;
	of->back.begin = of->left;
	of->back.waited = slept;
	of->back.count = 1;
	of->back.syscall = -1;
	of->valued += slept;
	watched_runs(of);
	if (!of->unseen || slept >= each_tick.tick_period)
		wait_emit(&of->back, task, back);
	return 0;
}

/* The index of this place, or of the one whose last stack is oldest. Apart: of what it returns the verifier knows nothing, and
 * goes through what follows once, not once for each place. */
HOST_APART __u32 watched_place(const struct watched *of, __u64 key)
{
	__u32 i, at = 0, same = 0;
	__u64 oldest = ~0ull >> 1;

	if (!of)
		return 0;
	_Pragma("clang loop unroll(full)")
	for (i = 0; i < WATCHED_PLACES; i++) {
		same |= values_same(of->places[i].key, key) << i;
		host_barrier(same);
		watched_older(&at, &oldest, i, of->places[i].taken);
	}
	return same ? values_count((same & -same) - 1) : at;
}

/* At a switch: is its stack to be taken? WATCHED_SEARCH: only if there are values in it, as it had none for a second: at a
 * place that it was not seen at since. The run queue's clock was brought up to date for this switch. */
#define WATCHED_SEARCH 2
HOST_APART int watched_leaves(__u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 clock = 0, key, since;
	__u32 at, late;
	struct watched *of;

	if (task->flags & PF_EXITING)
		return 0;
	if (bpf_core_field_exists(task->se.cfs_rq))
		clock = BPF_CORE_READ(task, se.cfs_rq, rq, clock);
	watched_skew = clock ? now - clock : 0;
	watched_back(now);
	of = watched_of();
	if (!of) {
		watched_add();
		of = watched_of();
	}
	task = bpf_get_current_task_btf(); /* again: 6.1 has no stack left here */
	/* One that is preempted goes on where it is, and ticks soon. Its stacks were as many as its ticks on a busy machine. */
	if (!of || !task->__state)
		return 0;
	late = now - of->valued > SCHEDULE_LATELY_NS;
	key = wait_key(entered_with(task), now, of->tstate);
	at = watched_place(of, key);
	host_barrier(at);
	at &= WATCHED_PLACES - 1;
	since = of->places[at].key == key ? now - of->places[at].taken : ~0ull;
	if (!late && wait_affords(&of->paid, now, each_tick.tick_period, WATCHED_BUDGET)) {
		of->paid += each_tick.tick_period;
	} else if (since >= (late ? SCHEDULE_LATELY_NS : WAIT_POINTS * each_tick.tick_period) &&
		   wait_affords(&of->reserved, now, 4ull * each_tick.tick_period, WAIT_RESERVE)) {
		of->reserved += 4ull * each_tick.tick_period;
	} else {
		if (!late)
			watched_sleeps(of, now, 1);
		return 0;
	}
	of->places[at].key = key;
	of->places[at].taken = now;
	return late ? WATCHED_SEARCH : 1;
}

HOST_APART int watched_fill(struct part_wait *part, __u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!part)
		return 0;
	wait_fill(part, task, WAIT_KEY_ASLEEP, task->__state);
	part->flags = flags;
	return 0;
}

static __always_inline __u32 watched_part(struct record_sample *record, __u8 *base, __u32 size, __u64 searches)
{
	host_barrier(size);
	if (size > SAMPLE_RECORD_MAX - sizeof(struct part_wait))
		return size;
	watched_fill((struct part_wait *)(base + size), searches == WATCHED_SEARCH ? WAIT_FOUND : 0);
	record->parts++;
	return size + sizeof(struct part_wait);
}

/* Values that are new, or code objects, of a thread that sleeps: the engine reads them at a poll, as there may be no
 * tick that wakes it. */
HOST_APART int emit_sleeps(int fresh)
{
	struct record_wake *record = fresh ? bpf_ringbuf_reserve(&ring, sizeof(*record), 0) : NULL;

	if (!record)
		return 0;
	*record = (struct record_wake){.size = sizeof(*record), .kind = RECORD_SLEEPS};
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Its record was written. */
HOST_APART int watched_left(__u64 now, __u64 tstate)
{
	struct watched *of = watched_of();

	if (!of)
		return 0;
	of->tstate = tstate;
	watched_sleeps(of, now, 0);
	return 0;
}
