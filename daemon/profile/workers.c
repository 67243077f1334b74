/* SPDX-License-Identifier: MIT */
/* What attribution/attribution.h decides by, from records: where threads were sampled, who woke whom, who created whom.
 * Stacks are examined only when a worker's caller is to be decided. */
#include <errno.h>
#include <sys/syscall.h>

#include "base/libc_name.h"
#include "collect/collect.h"
#include "profile/internal.h"
#include "wait/wait.h"

#define QUIET_PERIODS 5u / 2u
#define FORKS_MAX 8u /* processes between a child and who waits for it */

/* After a new epoch the node ids in thread->attribution are void. */
static void renew(const struct profile *profile, struct thread *thread)
{
	if (thread->attribution_epoch == profile->epoch)
		return;
	thread->attribution = (struct attribution_thread){.python = thread->attribution.python};
	thread->tick = thread->off = (struct attribution_seen){};
	thread->attribution_epoch = profile->epoch;
}

static void tick(const struct profile *profile, struct thread *thread, uint64_t time, uint32_t stack)
{
	renew(profile, thread);
	if (thread->attribution.python && !thread->ending)
		thread->tick = (struct attribution_seen){.time = time, .stack = stack, .state = ATTRIBUTION_RUNS};
}

void workers__ticked(struct profile *profile, struct thread *thread, const struct sample *sample, uint32_t stack)
{
	if (sample->record->header.time >= thread->tick.time)
		tick(profile, thread, sample->record->header.time, stack);
}

void workers__sampled(const struct profile *profile, const struct item *item)
{
	tick(profile, item->thread, item->row.time, item->row.stack);
}

void workers__away(struct thread *thread, uint64_t time)
{
	thread->tick = thread->off = (struct attribution_seen){.time = time, .state = ATTRIBUTION_AWAY};
	thread->left = 0;
}

void workers__ended(struct thread *thread, uint64_t time)
{
	workers__away(thread, time);
	thread->attribution.seen = thread->tick;
}

void workers__left(struct thread *thread, const struct sample *sample, uint64_t key)
{
	const struct part_py_frames *python = sample->python;

	thread->attribution.python |= python && python->n;
	thread->left = sample->record->header.time;
	thread->left_key = key;
}

/* --- where it is --- */

/* Fills in seen->call, the thread's innermost Python frame, and seen->outside: does code outside of the interpreter
 * run inside of it? Where the thread left its CPU the innermost code that is not the C library's decides; at a tick,
 * any frame. False: it depends on names of native code that are still being read. */
static bool locate(const struct tables *tables, struct attribution_seen *seen)
{
	bool settled = false, pending = false;
	struct function_row row;
	uint32_t at, frame;

	for (at = seen->stack; at; at = tables->stacks[at - 1].parent) {
		frame = tables->stacks[at - 1].frame;
		pending |= tables->frame_states[frame] == FRAME_PENDING && !settled;
		if (tables->frame_states[frame] == FRAME_PENDING)
			continue;
		row = tables__function_row(tables, tables->frames[frame].function);
		if (row.kind == FUNCTION_PYTHON) {
			seen->call = at;
			return !pending;
		}
		if (!settled && row.kind == FUNCTION_NOTE && !strncmp(row.name, "(cut", 4)) {
			seen->outside = settled = true; /* a cut stack nearly always ends in such code */
			continue;
		}
		if (settled || (row.kind != FUNCTION_NATIVE && row.kind != FUNCTION_JIT && row.kind != FUNCTION_INTERPRETER) ||
		    (row.kind == FUNCTION_NATIVE && libc_name__is(row.module)))
			continue;
		seen->outside = row.kind != FUNCTION_INTERPRETER;
		settled = seen->outside || seen->state != ATTRIBUTION_RUNS;
	}
	seen->outside = false;
	return true;
}

static enum attribution_state state_of(enum wait_cause cause, const struct part_wait *part)
{
	switch (cause) {
	case WAIT_READY:
		return ATTRIBUTION_RUNS;
	case WAIT_LOCK: /* a semaphore's, or Python's own, which attribution_seen.outside distinguishes; but a mutex of the C library's */
		return part->args[2] == 2 ? ATTRIBUTION_AWAY : ATTRIBUTION_WAITS;
	case WAIT_FUTEX:
		return ATTRIBUTION_WAITS;
	case WAIT_CHILD:
	case WAIT_PIPE:
	case WAIT_SOCKET:
	case WAIT_POLL:
		return ATTRIBUTION_LISTENS;
	default:
		return ATTRIBUTION_AWAY;
	}
}

/* Reads the stack that was recorded when the thread left its CPU. -EAGAIN: it waits for tables. */
static int decide_left(struct profile *profile, struct thread *thread)
{
	const struct sample *kept = waits__kept(thread, thread->left_key, thread->left);
	struct item item = {.thread = thread};
	int err = kept ? unfinished__now(profile, kept, &item) : 0;
	enum wait_cause cause;
	uint32_t stack;

	if (err == -EAGAIN)
		return err;
	if (kept && !err) {
		/* The innermost node is "(waiting: ...)": its parent is the stack. */
		stack = item.row.stack ? profile->tables.stacks[item.row.stack - 1].parent : 0;
		cause = profile->wall ? (enum wait_cause)item.row.cause : waits__cause(profile, thread, kept->wait, stack);
		thread->off = (struct attribution_seen){.time = thread->left, .stack = stack, .state = (uint8_t)state_of(cause, kept->wait)};
	}
	thread->left = 0;
	return err;
}

/* Sets thread->attribution.seen to the newest of its last tick and the last place where it left its CPU, as of
 * `now`. -EAGAIN: that stack waits for tables. */
static int bring_up(struct profile *profile, struct thread *thread, uint64_t now)
{
	struct attribution_seen *seen;
	int err = 0;

	renew(profile, thread);
	if (thread->left)
		err = decide_left(profile, thread);
	seen = thread->off.time > thread->tick.time && thread->off.time <= now ? &thread->off : &thread->tick;
	if (seen->stack && !seen->call && !locate(&profile->tables, seen)) {
		thread->attribution.seen = *seen;
		seen->call = 0;
		return -EAGAIN;
	}
	thread->attribution.seen = *seen;
	return err;
}

/* --- who woke it --- */

static struct thread *thread_of(const struct profile *profile, const struct process *process, uint32_t tid)
{
	for (struct thread *thread = tid ? profile->tasks.threads : NULL; thread; thread = thread->next)
		if (thread->process == process && thread->tid == tid && !thread->ended)
			return thread;
	return NULL;
}

/* Is this a wait in which a worker is idle until it gets something to do? A contended mutex is not (the C library's
 * futex value 2). */
static bool is_rest(const struct record_wait *wait)
{
	switch (wait->syscall) {
	case SYS_futex:
		return (wait->args[0] & 127) || wait->args[1] != 2;
	case 449: /* futex_waitv */
	case 455: /* futex_wait */
	case SYS_read:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return wait->state != 0;
	default:
		return false;
	}
}

/* A wait ended: who woke the worker may have given it work; a worker that woke a waiting thread has answered. */
void workers__waited(struct profile *profile, struct thread *thread, const struct record_wait *wait)
{
	/* If the record covers several waits, the length of the last one is unknown. */
	uint64_t end = wait->count == 1 ? wait->begin + wait->waited : wait->header.time;
	struct thread *waker;

	renew(profile, thread);
	if (thread->left && thread->left < wait->header.time)
		bring_up(profile, thread, wait->header.time);
	if (wait->header.time > thread->off.time)
		thread->off.over = true;
	if (!is_rest(wait))
		return;
	waker = thread_of(profile, thread->process, wait->waker);
	if (waker)
		renew(profile, waker);
	if (!thread->attribution.python) {
		if (wait->begin < thread->rested) /* older than one that was handled: sums of several places come in any order */
			return;
		thread->rested = wait->begin;
		if (waker)
			bring_up(profile, waker, end);
		attribution__woken(&thread->attribution, waker ? &waker->attribution : NULL, end);
	} else if (waker && !waker->attribution.python) {
		attribution__answered(&thread->attribution, &waker->attribution, end);
	}
}

void workers__made(struct profile *profile, struct thread *thread, const struct record_event *clone)
{
	struct thread *maker = thread_of(profile, thread->process, clone->old_tid);

	renew(profile, thread);
	if (!maker || maker == thread)
		return;
	renew(profile, maker);
	bring_up(profile, maker, clone->header.time);
	attribution__woken(&thread->attribution, &maker->attribution, clone->header.time);
}

/* --- for whom it works --- */

struct group {
	struct attribution_group group;
	struct profile *profile;
	const struct process *process;
};

static struct thread *thread_at(struct attribution_thread *attribution)
{
	return (struct thread *)((char *)attribution - offsetof(struct thread, attribution));
}

static struct attribution_thread *next(struct attribution_group *self, struct attribution_thread *before)
{
	struct group *group = (struct group *)self;
	struct thread *thread = before ? thread_at(before)->next : group->profile->tasks.threads;

	while (thread && (thread->process != group->process || !thread->attribution.python || thread->ending))
		thread = thread->next;
	return thread ? &thread->attribution : NULL;
}

/* Is node `inner` below node `outer`? Parents have smaller numbers, so the walk stops at the first that is not
 * greater. */
static bool inside(struct attribution_group *self, uint32_t inner, uint32_t outer)
{
	const struct group *group = (struct group *)self;

	while (inner > outer)
		inner = group->profile->tables.stacks[inner - 1].parent;
	return inner == outer;
}

static struct process *process_of(const struct profile *profile, uint32_t tgid)
{
	struct process *process, *found = NULL;

	for (process = profile->tasks.processes; process; process = process->next)
		if (process->tgid == tgid && !process->ended)
			found = process; /* the newest image */
	return found;
}

/* The thread with Python frames that forked this process, or an ancestor of it, at most FORKS_MAX levels up. NULL:
 * none. */
static struct thread *forker_of(struct profile *profile, const struct process *process)
{
	struct thread *thread;
	uint32_t i, tid;

	for (i = 0; process && process->forker && i < FORKS_MAX; i++) {
		tid = process->forker;
		process = process_of(profile, process->parent);
		thread = thread_of(profile, process, tid);
		if (thread && thread->attribution.python)
			return thread;
	}
	return NULL;
}

/* Asks attribution/ for the caller, after bringing all threads with Python frames up to date. 0 with item->undecided
 * still set: a stack that matters waits for tables. `late`: this is a later attempt, and threads have moved on, so
 * only the last place where each left its CPU is known. O(threads + their stacks); only for ticks of threads without
 * Python frames. */
static int decide(struct profile *profile, struct item *item, bool late, bool last)
{
	struct thread *thread = item->thread, *at, *forker;
	struct group group = {{next, inside, 0, profile->wall && !late}, profile, thread->process};
	struct attribution attribution = {};
	int err = 0;

	group.group.quiet = 1000000000ull / profile->options.rate * QUIET_PERIODS;
	renew(profile, thread);
	if (thread->process->python[0]) {
		for (at = profile->tasks.threads; at && (!err || err == -EAGAIN); at = at->next)
			if (at->process == thread->process && at->attribution.python && !at->ending)
				err = bring_up(profile, at, item->row.time) ?: err;
		if (err == -EAGAIN && !last)
			return 0;
		if (thread->tid != thread->process->tgid) /* Python's main thread begins, or ends */
			attribution = attribution__of(&group.group, &thread->attribution, item->row.time);
	} else {
		forker = forker_of(profile, thread->process);
		err = forker ? bring_up(profile, forker, item->row.time) : 0;
		attribution = attribution__of_child(&group.group, forker ? &forker->attribution : NULL, item->row.time);
	}
	if (err && err != -EAGAIN)
		return err;
	if (attribution.how == ATTRIBUTION_UNKNOWN && !last && err)
		return 0;
	item->undecided = false;
	profile->n_undecided--;
	item->row.how = attribution.how;
	item->caller = attribution.caller ? thread_at(attribution.caller) : NULL;
	item->row.call = attribution.caller ? attribution.caller->seen.stack : 0;
	return 0;
}

/* Only ticks of threads that have never had Python frames need a caller. The rate is needed for `quiet`. */
int workers__give(struct profile *profile, const struct sample *sample, struct item *item)
{
	const struct part_py_frames *python = sample->python;

	item->thread->attribution.python |= python && python->n;
	if (!(sample->record->flags & SAMPLE_NO_PYTHON) || item->thread->attribution.python || !profile->options.rate)
		return 0;
	item->undecided = true;
	profile->n_undecided++;
	return profile->n_unfinished ? 0 : decide(profile, item, false, false);
}

int workers__decide(struct profile *profile, struct item *item, bool last)
{
	return decide(profile, item, true, last);
}
