/* SPDX-License-Identifier: MIT */
/* Wall mode: where threads wait.
 *
 * The sampler sends two kinds of records. A stack at a context switch (SAMPLE_OFF_CPU) has no time: it is kept,
 * under the key of the point where the thread waits. Sums of time come later (struct record_wait: key, ns waited, ns
 * ready), and become rows with that stack: one for the time until the thread was woken, one for the time until it
 * had a CPU. A stack is resolved when its first time comes, and again after a new epoch.
 *
 *    off CPU: stack {key 0x51, futex, f -> lock.acquire}     record_wait {key 0x51, waited 12 ms, ready 1 ms}
 *      -> rows  12 ms  f; lock.acquire; (waiting: lock)      1 ms  f; lock.acquire; (ready)
 *
 * Rows of a thread follow each other without a hole: the time of a tick is what went by since the last row, all of
 * it on a CPU, as the sampler reports the sums of a thread with each tick. Times of waits are right in sum; a wait
 * may be placed up to a period too early, as what ran before it since the last tick comes behind it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "collect/collect.h"
#include "profile/internal.h"
#include "wait/wait.h"

#define POINTS 16u                     /* of one thread: the least recently used one makes room */
#define WAITS_BYTES (8u << 20)         /* of kept records, ... */
#define WAITS_BYTES_A_THREAD (6u << 10) /* ... and for each thread: a stack that was copied whole, until it is walked */
#define WAITS_BYTES_MAX (64u << 20)
#define FRAMES_OF_CAUSE 24u            /* examined for the cause */
#define PYTHON_OF_CAUSE 4u             /* of these, Python's */

/* A kept record with its parts, one allocation. */
struct kept {
	struct sample sample;
	uint64_t bytes[];
};

/* Where a thread waits, by the sampler's key, and the stack that was recorded there. `waiting` and `ready`: nodes of
 * that stack with "(waiting: ...)" or "(ready)" on top, made when the first time comes. */
struct wait_point {
	uint64_t key;                  /* 0: free */
	uint64_t used;                 /* CLOCK_MONOTONIC ns of its last record */
	const struct sample *sample;   /* the first member of a struct kept, owned; NULL: no stack was kept */
	uint32_t epoch;                /* of `waiting` and `ready` */
	uint32_t waiting, ready;       /* stack ids, 0: not looked up */
	uint8_t cause;                 /* enum wait_cause */
	bool named;                    /* the GIL's holder is a frame of `waiting` already */
};

struct waits {
	struct wait_point points[POINTS];
};

static void drop(struct profile *profile, struct wait_point *point)
{
	if (point->sample)
		profile->waits_bytes -= point->sample->record->header.size;
	free((void *)point->sample);
	*point = (struct wait_point){};
}

void waits__free(struct profile *profile, struct thread *thread)
{
	for (uint32_t i = 0; thread->waits && i < POINTS; i++)
		drop(profile, &thread->waits->points[i]);
	free(thread->waits);
	thread->waits = NULL;
}

static struct wait_point *find(struct waits *waits, uint64_t key)
{
	for (uint32_t i = 0; i < POINTS; i++)
		if (waits->points[i].key == key)
			return &waits->points[i];
	return NULL;
}

/* A point for this key: its own, a free one, or the one that was not used for longest. */
static struct wait_point *take(struct profile *profile, struct waits *waits, uint64_t key)
{
	struct wait_point *point = find(waits, key);

	if (!point)
		point = &waits->points[0];
	for (uint32_t i = 0; point->key != key && i < POINTS; i++)
		if (waits->points[i].used < point->used)
			point = &waits->points[i];
	drop(profile, point);
	point->key = key;
	return point;
}

/* The thread that held the GIL: `holder` is a tid with WAIT_TID, or a pthread_self() (part_wait). NULL: unknown. */
static struct thread *by_holder(const struct profile *profile, const struct thread *of, uint64_t holder)
{
	for (struct thread *thread = holder ? profile->tasks.threads : NULL; thread; thread = thread->next)
		if (thread->process == of->process && !thread->ended && thread != of &&
		    (holder & WAIT_TID ? thread->tid == (uint32_t)holder : thread->pthread == holder))
			return thread;
	return NULL;
}

/* Kept records are bounded: a base, and more with each thread. Without room a wait shows its cause but no stack. */
static bool has_room(const struct profile *profile, size_t size)
{
	size_t most = WAITS_BYTES + (size_t)profile->tasks.n_threads * WAITS_BYTES_A_THREAD;

	return profile->waits_bytes + size <= (most < WAITS_BYTES_MAX ? most : WAITS_BYTES_MAX);
}

/* A stack at a switch. It is kept under its key, which the sampler makes of where the thread left (a system call's
 * number, pc, stack pointer, a futex's address); sums of time name that key later. An older stack with the same key
 * is of the same point and goes. */
int waits__keep(struct profile *profile, struct thread *thread, const struct sample *sample)
{
	const struct part_wait *part = sample->wait;
	struct wait_point *point;
	struct thread *holder;
	struct kept *kept;

	if (!part || !part->key)
		return 0;
	if (!thread->waits)
		thread->waits = calloc(1, sizeof(*thread->waits));
	if (!thread->waits)
		return -ENOMEM;
	thread->pthread = part->own;
	holder = by_holder(profile, thread, part->holder);
	if (holder)
		waits__held(holder, sample->record->header.time);
	workers__left(thread, sample, part->key);
	point = take(profile, thread->waits, part->key);
	point->used = sample->record->header.time;
	if (!has_room(profile, sample->record->header.size))
		return 0;
	kept = malloc(sizeof(*kept) + sample->record->header.size);
	if (!kept)
		return -ENOMEM;
	sample__copy(sample, kept->bytes, &kept->sample);
	point->sample = &kept->sample;
	profile->waits_bytes += sample->record->header.size;
	return 0;
}

const struct sample *waits__kept(const struct thread *thread, uint64_t key, uint64_t time)
{
	const struct wait_point *point = thread->waits ? find(thread->waits, key) : NULL;

	return point && point->sample && point->sample->record->header.time == time ? point->sample : NULL;
}

/* --- its stack --- */

/* What the thread waits for, by its system call and the names of its innermost frames (wait/wait.h). */
static enum wait_cause cause_of(struct profile *profile, const struct thread *thread, const struct part_wait *part,
				uint32_t stack)
{
	const struct tables *tables = &profile->tables;
	struct wait_frame frames[FRAMES_OF_CAUSE];
	struct wait_input in = {.wait = part, .frames = frames,
				.runtime = thread->process->runtime,
				.runtime_end = thread->process->runtime_end};
	struct function_row row;
	uint32_t python = 0;

	for (; stack && in.n < FRAMES_OF_CAUSE && python < PYTHON_OF_CAUSE; stack = tables->stacks[stack - 1].parent) {
		uint32_t frame = tables->stacks[stack - 1].frame;

		if (tables->frame_states[frame] == FRAME_PENDING)
			continue;
		row = tables__function_row(tables, tables->frames[frame].function);
		frames[in.n] = (struct wait_frame){row.name, row.file, row.kind == FUNCTION_PYTHON};
		python += frames[in.n++].python;
	}
	return wait__cause(&in);
}

enum wait_cause waits__cause(struct profile *profile, const struct thread *thread, const struct part_wait *part, uint32_t stack)
{
	struct part_wait any = *part;

	any.key = 1ull << 63; /* of a place, as in wall mode */
	return cause_of(profile, thread, &any, stack);
}

static int node(struct profile *profile, uint32_t stack, enum wait_cause cause, uint32_t *ret)
{
	uint32_t frame;
	int err = tables__says(&profile->tables, wait__frame(cause), &frame);

	return err ? err : tables__stack(&profile->tables, stack, frame, ret);
}

/* --- who --- */

/* The innermost Python function at a thread's last tick; NULL: unknown in this epoch. */
static const char *function_of(struct profile *profile, const struct thread *thread)
{
	const struct tables *tables = &profile->tables;
	uint32_t stack = thread->stack_epoch == profile->epoch ? thread->stack : 0, frame;
	struct function_row row;

	for (; stack; stack = tables->stacks[stack - 1].parent) {
		frame = tables->stacks[stack - 1].frame;
		if (tables->frame_states[frame] == FRAME_PENDING)
			continue;
		row = tables__function_row(tables, tables->frames[frame].function);
		if (row.kind == FUNCTION_PYTHON)
			return row.name;
	}
	return NULL;
}

/* "(held by f in worker (4711))" on top of a stack. */
static int add_who(struct profile *profile, const char *what, const struct thread *who, uint32_t *stack)
{
	const char *function = function_of(profile, who);
	char words[512];
	uint32_t frame;
	int err;

	snprintf(words, sizeof(words), "(%s %.*s%s%s (%u))", what, 400, function ? function : "", function ? " in " : "", who->comm,
		 who->tid);
	err = tables__says(&profile->tables, words, &frame);
	return err ? err : tables__stack(&profile->tables, *stack, frame, stack);
}

static const struct thread *by_tid(const struct profile *profile, const struct thread *of, uint32_t tid)
{
	return tid ? by_holder(profile, of, WAIT_TID | tid) : NULL;
}

/* The first other thread that was seen with the GIL since `time`, for a wait at whose begin nobody held it. */
static const struct thread *next_holder(const struct profile *profile, const struct thread *of, uint64_t time)
{
	const struct process *process = of->process;
	uint32_t n = sizeof(process->gil) / sizeof(process->gil[0]), i;

	for (i = process->n_gil < n ? 0 : process->n_gil - n; i < process->n_gil; i++)
		if (process->gil[i % n].time >= time && process->gil[i % n].tid != of->tid)
			return by_tid(profile, of, process->gil[i % n].tid);
	return NULL;
}

/* Makes the item a wait at this point. For a lock or the GIL the stack gets one more frame with who had it: the
 * holder if that was known as the thread left; else who took the GIL next; else the thread that woke this one, which
 * released it. */
static int use(struct profile *profile, struct item *item, const struct wait_point *point)
{
	const struct thread *waker;
	bool gil = point->cause == WAIT_GIL && !point->named;

	item->row.stack = item->ready ? point->ready : point->waiting;
	item->row.cause = item->ready ? WAIT_READY : point->cause;
	item->row.taken = point->sample ? point->sample->record->header.time : TAKEN_NEVER;
	if (item->ready || !(gil || point->cause == WAIT_LOCK || point->cause == WAIT_COMPILER_LOCK))
		return 0;
	waker = gil && point->sample ? next_holder(profile, item->thread, point->sample->record->header.time) : NULL;
	if (!waker)
		waker = by_tid(profile, item->thread, item->waker);
	return waker ? add_who(profile, gil ? "held by" : "released by", waker, &item->row.stack) : 0;
}

/* Makes the point's nodes: "(waiting: ...)" and "(ready)" on top of `stack`. */
static int settle(struct profile *profile, struct wait_point *point, enum wait_cause cause, uint32_t stack)
{
	int err = node(profile, stack, cause, &point->waiting);

	point->cause = (uint8_t)cause;
	point->epoch = profile->epoch;
	return err ? err : node(profile, stack, WAIT_READY, &point->ready);
}

/* The stack of a wait, when it is needed for the first time in this epoch. If a newer stack has taken the key
 * meanwhile, this one is used for the item and not kept. */
int waits__locate(struct profile *profile, struct item *item, const struct sample *sample,
		 const struct part_native_frames *native, bool again)
{
	const struct part_wait *part = sample->wait;
	struct thread *thread = item->thread;
	struct wait_point *point = thread->waits ? find(thread->waits, part->key) : NULL, own = {};
	uint32_t stack;
	int err = stack__locate(profile, thread, sample, native, again, &stack);

	if (err)
		return err;
	if (!point || !point->sample || point->sample->record->header.time != sample->record->header.time)
		point = &own; /* a newer stack is kept there already */
	if (point == &own)
		own.sample = sample;
	err = settle(profile, point, cause_of(profile, thread, part, stack), stack);
	if (!err && point->cause == WAIT_GIL) {
		const struct thread *holder = by_holder(profile, thread, part->holder);

		point->named = holder != NULL;
		if (holder)
			err = add_who(profile, "held by", holder, &point->waiting);
	}
	return err ? err : use(profile, item, point);
}

/* For a sum of time whose stack was not recorded: a row with the cause alone. */
static int locate_unseen(struct profile *profile, struct item *item, const struct record_wait *wait)
{
	const struct part_wait part = {.key = wait->key, .args = {wait->arg}, .syscall = wait->syscall, .state = wait->state};
	struct wait_point point = {};
	int err = settle(profile, &point, cause_of(profile, item->thread, &part, 0), 0);

	return err ? err : use(profile, item, &point);
}

/* --- its time --- */

/* One row of `ns` of waiting that follows the thread's last row. thread->last moves before the push, which may emit
 * what is queued. */
static int put(struct profile *profile, struct thread *thread, struct wait_point *point, const struct record_wait *wait, uint64_t ns, bool ready)
{
	struct item item = {.thread = thread, .wait = true, .ready = ready, .waker = wait->waker};
	uint64_t over = wait->begin + wait->waited + wait->ready, number;
	int err;

	if (!ns)
		return 0;
	if (!point || !point->sample)
		err = locate_unseen(profile, &item, wait);
	else if (point->waiting && point->epoch == profile->epoch)
		err = use(profile, &item, point);
	else
		err = unfinished__read(profile, point->sample, &item);
	if (err)
		return err;
	life__lasts(thread, thread->last + ns);
	item.row.time = thread->last;
	item.row.wall = ns;
	if (wait->begin)
		item.row.over = (over < wait->header.time ? over : wait->header.time) - (ready ? 0 : wait->ready);
	err = profile__push(profile, &item, &number);
	if (err)
		free(item.unfinished);
	return err;
}

/* --- sessions of CPU time --- */

/* The time since the thread's last row becomes a wait where it fell asleep. */
static int sleep_until(struct profile *profile, struct thread *thread, uint64_t time)
{
	static const struct record_wait asleep = {.key = WAIT_KEY_ASLEEP};
	struct wait_point *point = thread->waits ? find(thread->waits, WAIT_KEY_ASLEEP) : NULL;

	return point && time > thread->last ? put(profile, thread, point, &asleep, time - thread->last, false) : 0;
}

/* What went by since the thread's last row, but for a period that it may have run, is none of the compile's. */
static int slept_before(struct profile *profile, struct thread *thread, const struct sample *sample)
{
	static const struct record_wait before = {.key = WAIT_KEY_ASLEEP, .syscall = -1};
	uint64_t period = profile->options.rate ? 1000000000u / profile->options.rate : 0;
	uint64_t time = sample->record->header.time;

	return time > thread->last + period ? put(profile, thread, NULL, &before, time - period - thread->last, false) : 0;
}

/* Only threads that compile are followed (bpf/watched.h). There is a row at once, just after the record, whose values
 * belong to it: what others do from now on is in the compile that waits. What the thread ran since its last row is in
 * that row, too: less than a period. */
int waits__asleep(struct profile *profile, struct thread *thread, const struct sample *sample)
{
	const struct part_wait *part = sample->wait;
	int err;

	if (!part || part->key != WAIT_KEY_ASLEEP)
		return 0;
	err = part->flags & WAIT_FOUND ? slept_before(profile, thread, sample) : 0;
	err = err ?: waits__keep(profile, thread, sample);
	thread->asleep = true;
	thread->compiles = sample->values;
	thread->asleep_cpu = sample->record->cpu_time;
	return err ?: sleep_until(profile, thread, sample->record->header.time + 1);
}

/* Among many switches not each has a stack of its own: the one before is as good if it is hardly older. */
#define SAME_PLACE_PERIODS 4u
static bool sleeps_there(const struct profile *profile, const struct thread *thread, uint64_t begin)
{
	const struct wait_point *point = thread->waits ? find(thread->waits, WAIT_KEY_ASLEEP) : NULL;
	uint64_t period = profile->options.rate ? 1000000000u / profile->options.rate : 0;

	return thread->asleep || (point && begin < point->used + SAME_PLACE_PERIODS * period);
}

/* It runs again, and where that leads is known with its next record. */
static int wake_up(struct profile *profile, struct thread *thread, const struct record_wait *wait)
{
	uint64_t time = wait->header.time;
	int err = profile__full(profile) ? profile__rotate(profile, time) : 0;

	if (err || !sleeps_there(profile, thread, time > wait->waited ? time - wait->waited : 0))
		return err;
	thread->asleep = false;
	workers__away(thread, time);
	return sleep_until(profile, thread, time);
}

int profile__sleep(struct profile *profile, uint64_t time)
{
	int err = 0;

	for (struct thread *thread = profile->wall ? NULL : profile->tasks.threads; thread && !err; thread = thread->next)
		if (thread->asleep && thread->compiles && !thread->ending && !thread->end_queued && !thread->lost)
			err = sleep_until(profile, thread, time);
	return err;
}

/* A tick shows that the thread woke up, which no record said (bpf/offcpu.h, wait_missed()). How long it ran before that
 * tick: half a period at random, or more, up to one, if its CPU time says so. The rest since its last row was sleep. */
int waits__woke(struct profile *profile, struct thread *thread, const struct sample *sample)
{
	uint64_t period = profile->options.rate ? 1000000000u / profile->options.rate : 0;
	uint64_t ran = sample->record->cpu_time > thread->asleep_cpu ? sample->record->cpu_time - thread->asleep_cpu : 0;

	if (!thread->asleep)
		return 0;
	thread->asleep = false;
	ran = ran < period / 2 ? period / 2 : ran < period ? ran : period;
	return sleep_until(profile, thread, sample->record->header.time - ran);
}

/* Takes a sum of time. The row ends at wait->header.time and begins no earlier than the thread's last row ended:
 * rows of a thread never overlap, even if what the sampler reports adds up to more, as it does where records were
 * lost. */
int waits__take(struct profile *profile, const struct record_wait *wait)
{
	struct process *process = life__process(profile, &wait->header);
	struct thread *thread = process && !process->ended ? life__thread(profile, process, &wait->header) : NULL;
	uint64_t room, waited, ready, out = wait->waited + wait->ready;
	struct wait_point *point;
	int err;

	if (!process || (!process->ended && !thread))
		return -ENOMEM;
	if (process->withheld)
		return 0;
	if (thread && !thread->end_queued && !profile->wall)
		return wake_up(profile, thread, wait);
	if (!thread || thread->end_queued || wait->header.time <= thread->last)
		return 0;
	err = profile__full(profile) ? profile__rotate(profile, wait->header.time) : 0;
	err = err ?: waits__found(profile, thread, out < wait->header.time ? wait->header.time - out : 0);
	point = thread->waits ? find(thread->waits, wait->key) : NULL;
	if (point)
		point->used = wait->header.time;
	workers__waited(profile, thread, wait);
	/* Records of it may have been lost. */
	room = wait->header.time - thread->last;
	waited = wait->waited < room ? wait->waited : room;
	ready = wait->ready < room - waited ? wait->ready : room - waited;
	err = err ?: put(profile, thread, point, wait, waited, false);
	return err ? err : put(profile, thread, point, wait, ready, true);
}

void profile__waits_begin(struct profile *profile, uint64_t time)
{
	if (!profile->wall || time <= profile->session.monotonic)
		return;
	profile->waits_begin = time;
	for (struct thread *thread = profile->tasks.threads; thread; thread = thread->next)
		if (thread->begin < time && thread->last == thread->begin)
			thread->begin = thread->last = thread->emitted = time;
}

void waits__held(struct thread *thread, uint64_t time)
{
	struct process *process = thread->process;

	process->gil[process->n_gil++ % (sizeof(process->gil) / sizeof(process->gil[0]))] = (struct gil_seen){time, thread->tid};
}

/* Wall time that was neither run nor reported as a wait. The scheduler counts what a thread runs at each of its
 * ticks, so a thread that had no tick of ours for several periods, and no more CPU time either, was not on a CPU.
 * Nobody saw where; most likely it could run, and others did. */
#define UNRECORDED_PERIODS 4u
#define SCHEDULER_TICK_NS 10000000u /* the longest */
int waits__unrecorded(struct profile *profile, struct thread *thread, uint64_t time)
{
	static const struct record_wait unrecorded = {.key = WAIT_KEY_RAN, .syscall = -1};
	uint64_t period = profile->options.rate ? 1000000000u / profile->options.rate : 0;
	uint64_t wall = time > thread->last ? time - thread->last : 0;
	uint64_t ran = thread->carry + (thread->ahead < SCHEDULER_TICK_NS ? SCHEDULER_TICK_NS - thread->ahead : 0);

	if (!period || !thread->cpu_known || wall <= UNRECORDED_PERIODS * period || wall <= ran)
		return 0;
	return put(profile, thread, NULL, &unrecorded, wall - ran, true);
}

/* In wall mode what is no wait was on a CPU, so a tick's time is CPU time at once. What of it the scheduler has not
 * counted yet is "ahead", and what it counts later pays for that first (cpu.c), so that the sum stays exact. */
void waits__ran(struct thread *thread, struct item *item)
{
	uint64_t taken = item->row.wall < thread->carry ? item->row.wall : thread->carry;

	item->row.cpu = item->row.wall;
	item->waits = false;
	/* The scheduler counts the rest later; cpu.c. */
	thread->carry -= taken;
	thread->ahead += item->row.wall - taken;
}

int waits__found(struct profile *profile, struct thread *thread, uint64_t time)
{
	static const struct record_wait lost = {.key = WAIT_KEY_LOST};

	if (!thread->lost)
		return 0;
	thread->lost = false;
	thread->cpu_known = false; /* what it ran meanwhile is nobody's */
	return time > thread->last ? put(profile, thread, NULL, &lost, time - thread->last, false) : 0;
}

/* Its stack is that of the last switch: no wait there was over since. */
static bool is_of_last(const struct wait_point *point)
{
	return point->sample && point->used == point->sample->record->header.time;
}

/* Where it waits now: the stack of its last switch, if neither a row came after that nor the end of that wait. The switch
 * that begins it brings the sum of a wait before it, too, with the same time. */
int waits__part(struct profile *profile, struct thread *thread, uint64_t time)
{
	struct wait_point *newest = NULL;
	struct record_wait wait = {};

	for (uint32_t i = 0; thread->waits && i < POINTS; i++)
		if (thread->waits->points[i].key && (!newest || thread->waits->points[i].used > newest->used ||
						     (thread->waits->points[i].used == newest->used && is_of_last(&thread->waits->points[i]))))
			newest = &thread->waits->points[i];
	if (!newest || !is_of_last(newest) || newest->used < thread->row_end || time <= thread->last)
		return 0;
	wait.key = newest->key;
	return put(profile, thread, newest, &wait, time - thread->last, false);
}

/* At its end, wall time without CPU time since the last row was a wait, most likely where it went last. */
int waits__end(struct profile *profile, struct thread *thread)
{
	uint64_t left = thread->end_time - thread->last;
	uint64_t cpu = cpu__finish(profile, thread, 0);
	const struct record_wait before = {.key = WAIT_KEY_BEFORE, .syscall = -1, .state = 1};
	struct wait_point *point = NULL;

	if (cpu > left) { /* it ran that long, so it did not end sooner */
		thread->end_time += cpu - left;
		left = cpu;
	}
	thread->carry = cpu; /* it is the end's */
	/* Where it went to wait last, since no record says that it came back. */
	for (uint32_t i = 0; thread->waits && i < POINTS; i++)
		if (!point || thread->waits->points[i].used > point->used)
			point = &thread->waits->points[i];
	if (point && point->cause == WAIT_READY)
		return 0;
	return put(profile, thread, point, &before, left - cpu, false);
}
