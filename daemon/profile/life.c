/* SPDX-License-Identifier: MIT */
/* The life of processes and threads: from records, and from what the engine finds in /proc. An end is emitted
 * PROFILE_HOLD_NS after it came, so that samples which were on their way still belong to their thread.
 *
 * Records may come in surprising order: a tick of a new image before the record of its exec, records of a thread
 * after that of its exit (it runs in the kernel after it), and the engine may have listed a process before any
 * record of it. Every image (pid, start, exec count) is a row of its own; a thread that calls exec goes on as the
 * first thread of the new image.
 *
 * Times: thread->begin .. thread->last has been given to rows; an end covers the rest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/internal.h"

/* A thread's name may change at any time (prctl); its row is emitted again then. */
static void take_comm(struct process *process, struct thread *thread, const char comm[16])
{
	if (!strncmp(thread->comm, comm, 16))
		return;
	memcpy(thread->comm, comm, 16);
	thread->changed = true;
	if (thread->tid == process->tgid) {
		memcpy(process->comm, comm, 16);
		process->changed = true;
	}
}

void life__lasts(struct thread *thread, uint64_t time)
{
	thread->last = time;
	if (thread->ending && thread->end_time < time)
		thread->end_time = time;
}

/* Only marks it: the end is emitted by life__settle() when it is due. A thread that the client may not see any more
 * ends with its last row. */
void life__end_thread(struct profile *profile, struct thread *thread, uint64_t time)
{
	if (thread->ending)
		return;
	thread->ending = true;
	workers__ended(thread, time);
	thread->end_time = time > thread->last && !thread->lost ? time : thread->last;
	profile->tasks.n_ending++;
}

/* All its threads end with it: exit_group() and exec report only some of them. */
void life__end_process(struct profile *profile, struct process *process, uint64_t time)
{
	struct thread *thread;

	if (process->ending)
		return;
	process->ending = true;
	process->end_time = time > process->time ? time : process->time;
	profile->tasks.n_ending++; /* counted itself, as it may have no thread */
	for (thread = profile->tasks.threads; thread; thread = thread->next)
		if (thread->process == process)
			life__end_thread(profile, thread, time);
}

/* The thread's time line begins with its start, or the session's if that is later. */
struct thread *life__add_thread(struct profile *profile, struct process *process, uint32_t tid,
				uint64_t start, uint64_t time)
{
	const struct event_session *session = &profile->session;
	struct thread *thread = tasks__add_thread(&profile->tasks, process, tid, start);
	uint64_t age;

	if (!thread)
		return NULL;
	thread->begin = session->monotonic;
	if (start >= session->boottime) {
		age = start - session->boottime;
		thread->begin += age;
		if (thread->begin > time)
			thread->begin = time > session->monotonic ? time : session->monotonic;
		thread->cpu_known = true; /* from 0 */
	}
	if (thread->begin < profile->waits_begin)
		thread->begin = profile->waits_begin;
	thread->last = thread->emitted = thread->begin;
	if (process->ending) /* a thread never outlives its process */
		life__end_thread(profile, thread, time);
	return thread;
}

struct process *life__add_process(struct profile *profile, uint32_t tgid, uint64_t start,
				  uint64_t time)
{
	struct process *process = tasks__add_process(&profile->tasks, tgid, start);

	if (process)
		process->time =
			time > profile->session.monotonic ? time : profile->session.monotonic;
	return process;
}

/* The thread of a record; a new one if it is unknown. NULL: no memory. */
struct thread *life__thread(struct profile *profile, struct process *process,
			    const struct record_header *header)
{
	const struct record_task *task = &header->task;
	struct thread *thread =
		tasks__find_thread(&profile->tasks, process, task->tid, task->thread_start);

	if (!thread)
		thread = life__add_thread(profile, process, task->tid, task->thread_start,
					  header->time);
	if (thread)
		take_comm(process, thread, task->comm);
	return thread;
}

/* The row of exactly this image, if there is one: the engine may have reported it before its first record. */
static struct process *find_image(const struct profile *profile, const struct record_task *task)
{
	struct process *process = tasks__find_process(&profile->tasks, task->tgid,
						      task->process_start, task->exec, true);

	return process && process->exec_known ? process : NULL;
}

/* The thread that called exec. If `tid` is 0 (not known): the only one that lives, as exec ends all others before;
 * NULL if there are several. */
static struct thread *caller_of(const struct profile *profile, const struct process *process, uint32_t tid)
{
	struct thread *thread, *last = NULL;
	uint32_t n = 0;

	for (thread = profile->tasks.threads; thread; thread = thread->next) {
		if (thread->process != process || thread->ended)
			continue;
		if (tid && thread->tid == tid)
			return thread;
		if (!thread->ending) {
			last = thread;
			n++;
		}
	}
	return tid || n > 1 ? NULL : last;
}

/* The thread goes on as the first thread of the new image: CPU time up to the exec is the old row's, from there on
 * the new one's. */
static void hand_over(struct profile *profile, struct process *old, uint32_t old_tid,
		      struct thread *thread, uint64_t cpu_time)
{
	struct thread *before = caller_of(profile, old, old_tid);

	thread->cpu_known = cpu_time != 0;
	thread->cpu_seen = cpu_time;
	if (!before)
		return;
	before->cpu_final = cpu_time;
	if (!cpu_time) {
		thread->cpu_known = before->cpu_known;
		thread->cpu_seen = before->cpu_seen;
		thread->cpu_base = CPU_ROUGH;
	}
}

/* A process went from `old` (NULL: not known) to another image: a new row for it
 * and for its thread. */
static struct process *change_image(struct profile *profile, struct process *old,
				    const struct record_header *header, uint32_t old_tid,
				    uint64_t cpu_time)
{
	const struct record_task *task = &header->task;
	struct process *process = find_image(profile, task);
	struct thread *thread;

	if (!process)
		process = life__add_process(profile, task->tgid, task->process_start, header->time);
	if (!process)
		return NULL;
	process->exec = task->exec;
	process->exec_known = true;
	if (process->ended)
		return process; /* a record that comes again, or far too late */
	thread = tasks__find_thread(&profile->tasks, process, task->tid, task->thread_start);
	if (!thread) {
		thread = life__add_thread(profile, process, task->tid, task->thread_start,
					  header->time);
		if (!thread)
			return NULL;
		if (header->time > thread->begin)
			thread->begin = thread->last = thread->emitted = header->time;
		hand_over(profile, old, old_tid, thread, cpu_time);
	}
	take_comm(process, thread, task->comm);
	if (old) {
		process->parent = process->parent ? process->parent : old->parent;
		process->forker = old->forker;
		life__end_process(profile, old, header->time);
	}
	return process;
}

/* The image that this one replaces, unless that has ended already. */
static struct process *older_image(const struct profile *profile, const struct record_task *task)
{
	struct process *process, *old = NULL;

	for (process = profile->tasks.processes; process; process = process->next)
		if (process->tgid == task->tgid && !process->ending &&
		    tasks__same_start(process->start, task->process_start) &&
		    !(process->exec_known && process->exec >= task->exec))
			old = process;
	return old;
}

/* The CPU time at which the new image begins, if a tick shows that image before the exec's record does: exec leaves
 * only the first thread, whose sum the tick has. 0: unknown. */
static uint64_t handed_over(const struct record_header *header)
{
	return header->kind == RECORD_SAMPLE && header->task.tid == header->task.tgid
		       ? ((const struct record_sample *)header)->cpu_time
		       : 0;
}

/* The begin of what this record covers. */
static uint64_t begin_of(const struct record_header *header)
{
	const struct record_wait *wait = (const void *)header;
	uint64_t out = header->kind == RECORD_WAIT ? wait->waited + wait->ready : 0;

	return out < header->time ? header->time - out : header->time;
}

void life__show(struct profile *profile, struct process *process, uint64_t time)
{
	struct thread *thread;

	if (!process->withheld || process->ended)
		return;
	process->withheld = false;
	if (profile->options.sees_all)
		return;
	if (time > process->time)
		process->time = time;
	for (thread = profile->tasks.threads; thread; thread = thread->next) {
		if (thread->process != process || thread->id != ID_NONE) /* one that was emitted is lost, so far */
			continue;
		thread->begin = thread->last = thread->emitted = process->time;
		thread->cpu_known = thread->lost = false;
		thread->cpu_base = CPU_EXACT;
	}
}

/* The process of a record, by (pid, start, exec count), in this order: its row; an open row that the engine listed
 * without an exec count, which now gets one; an older image, whose exec's record is still to come or was lost: a new
 * image. Never NULL but for lack of memory. */
struct process *life__process(struct profile *profile, const struct record_header *header)
{
	const struct record_task *task = &header->task;
	struct process *process = tasks__find_process(&profile->tasks, task->tgid,
						      task->process_start, task->exec, true);
	struct process *newer, *old;

	if (process) {
		if (!process->exec_known) {
			process->exec = task->exec;
			process->exec_known = true;
		}
		if (process->authorised)
			life__show(profile, process, begin_of(header));
		/* The engine reported this image; its first tick came before the exec's record. */
		old = process->living || process->ending || (header->kind != RECORD_SAMPLE && header->kind != RECORD_WAIT)
			      ? NULL
			      : older_image(profile, task);
		return old ? change_image(profile, old, header, task->tid, handed_over(header)) : process;
	}
	process = tasks__find_process(&profile->tasks, task->tgid, task->process_start, 0, false);
	/* The record of its exec was lost, or is still to come. */
	if (process && !process->ending && process->exec < task->exec)
		return change_image(profile, process, header, task->tid, handed_over(header));
	newer = process;
	process = life__add_process(profile, task->tgid, task->process_start, header->time);
	if (!process)
		return NULL;
	process->exec = task->exec;
	process->exec_known = true;
	memcpy(process->comm, task->comm, 16);
	if (newer) /* this record is of an image that is over */
		life__end_process(profile, process, header->time);
	return process;
}

/* The thread that called exec, in the row of the old image; NULL if its end is queued already. */
static struct thread *replaced(const struct profile *profile, const struct process *process, const struct record_event *exec)
{
	uint32_t tid = exec->old_tid ? exec->old_tid : process->tgid;
	struct thread *thread, *newest = NULL;

	for (thread = profile->tasks.threads; thread; thread = thread->next)
		if (thread->tid == tid && thread->process != process && thread->process->tgid == process->tgid && !thread->end_queued &&
		    tasks__same_start(thread->process->start, process->start))
			newest = thread;
	return newest;
}

/* What a thread ran before `cpu_time` is not its row's: it is taken back. What no row has yet is in `carry`; what rows
 * may have already goes through `ahead`, for later ones to pay. */
static void take_back(struct thread *thread, uint64_t cpu_time)
{
	uint64_t since = thread->cpu_known ? thread->cpu_seen - thread->cpu_used : cpu_time;
	uint64_t taken = cpu_time - since < thread->cpu_used ? cpu_time - since : thread->cpu_used;
	uint64_t carried = taken < thread->carry ? taken : thread->carry;

	thread->carry -= carried;
	thread->ahead += taken - carried;
	if (thread->cpu_seen < cpu_time)
		thread->cpu_seen = cpu_time;
	thread->cpu_used = thread->cpu_seen - cpu_time;
	thread->cpu_known = true;
	thread->cpu_base = CPU_EXACT;
}

/* Nothing that was before is on its time line, if no row of it says so yet. */
static void begin_at(struct thread *thread, uint64_t time)
{
	if (thread->id == ID_NONE && !thread->ending && thread->last == thread->begin && thread->begin < time)
		thread->begin = thread->last = thread->emitted = time;
}

void life__since_exec(struct thread *thread, uint64_t time, uint64_t cpu_time)
{
	uint64_t since = thread->cpu_seen - thread->cpu_used, more = since > cpu_time ? since - cpu_time : 0;

	begin_at(thread, time);
	if (!thread->cpu_known || since < cpu_time) {
		take_back(thread, cpu_time);
		return;
	}
	/* It was listed later than that. */
	thread->cpu_used += more;
	thread->carry += more;
	thread->cpu_base = CPU_EXACT;
}

/* A tick, or the engine, reported the new image before the exec's record came. Only that record has the CPU time
 * before the exec, which belongs to the old image. */
static void hand_back(struct profile *profile, struct process *process, const struct record_event *exec)
{
	struct thread *thread = tasks__find_thread(&profile->tasks, process, exec->header.task.tid, exec->header.task.thread_start);
	struct thread *before = replaced(profile, process, exec);

	if (!thread || !before || !exec->cpu_time)
		return;
	if (!thread->cpu_known || thread->cpu_seen - thread->cpu_used < exec->cpu_time)
		take_back(thread, exec->cpu_time);
	before->cpu_final = exec->cpu_time;
}

static void lose(struct profile *profile, struct thread *thread)
{
	if (thread->ending)
		return;
	thread->lost = true;
	waits__free(profile, thread);
}

static int take_exec(struct profile *profile, const struct record_event *exec)
{
	const struct record_task *task = &exec->header.task;
	struct process *old = older_image(profile, task);
	bool known = find_image(profile, task), withheld = exec->flags & EVENT_LOST;
	struct process *process = change_image(profile, old, &exec->header, exec->old_tid, exec->cpu_time);
	struct thread *thread;
	int err;

	if (!process)
		return -ENOMEM;
	if (!known) {
		process->withheld = withheld;
		return 0;
	}
	hand_back(profile, process, exec);
	if (!withheld || process->authorised)
		return 0;
	/* A tick came in the middle of the exec, before the credentials changed. Its row is on its way. */
	err = announce__new(profile, false);
	if (err)
		return err;
	process->withheld = true;
	thread = tasks__find_thread(&profile->tasks, process, task->tid, task->thread_start);
	if (thread)
		lose(profile, thread);
	return 0;
}

static int take_lost(struct profile *profile, const struct record_event *lost)
{
	const struct record_task *task = &lost->header.task;
	struct process *process = tasks__find_process(&profile->tasks, task->tgid, task->process_start, task->exec, true);
	struct thread *thread = process ? tasks__find_thread(&profile->tasks, process, task->tid, task->thread_start) : NULL;

	if (thread)
		lose(profile, thread);
	return 0;
}

/* The exit of a thread that the client was not authorised for any more: its time line ends where it was seen last. */
static void exit_lost(struct profile *profile, const struct record_event *exit)
{
	const struct record_task *task = &exit->header.task;
	struct process *process = tasks__find_process(&profile->tasks, task->tgid, task->process_start, task->exec, true);
	struct thread *thread = process ? tasks__find_thread(&profile->tasks, process, task->tid, task->thread_start) : NULL;

	if (thread && !thread->ending) {
		thread->lost = true;
		life__end_thread(profile, thread, thread->last);
	}
	if (!process) /* the record of its exec was lost */
		process = older_image(profile, task);
	if (process && exit->group_dead)
		life__end_process(profile, process, process->exec == task->exec ? exit->header.time : 0);
}

/* The parent's row: of the image that forked, else one whose exec count is not known yet. An older image's row may
 * still be open. */
static const struct process *forker(const struct profile *profile, const struct record_fork *fork,
				    const struct process *child)
{
	const struct process *parent, *open = NULL;

	for (parent = profile->tasks.processes; parent; parent = parent->next) {
		if (parent->tgid != fork->parent_tgid || parent == child || parent->ended)
			continue;
		if (parent->exec_known && parent->exec == fork->parent_exec)
			return parent;
		if (!parent->exec_known && !parent->ending)
			open = parent;
	}
	return open;
}

/* The child inherits what is known of its parent's Python, as it runs the same image, until the engine identifies it
 * itself. */
static int take_fork(struct profile *profile, const struct record_fork *fork)
{
	struct process *child = life__process(profile, &fork->header);
	const struct process *parent;

	if (child && child->ended)
		return 0;
	if (!child || !life__thread(profile, child, &fork->header))
		return -ENOMEM;
	child->parent = fork->parent_tgid;
	child->forker = fork->parent_tid;
	child->changed = true;
	parent = forker(profile, fork, child);
	if (!parent || child->name)
		return 0;
	child->lines = parent->lines;
	child->runtime = parent->runtime;
	child->runtime_end = parent->runtime_end;
	memcpy(child->python, parent->python, sizeof(child->python));
	memcpy(child->unsupported, parent->unsupported, sizeof(child->unsupported));
	memcpy(child->container, parent->container, sizeof(child->container));
	child->name = parent->name ? strdup(parent->name) : NULL;
	return parent->name && !child->name ? -ENOMEM : 0;
}

/* A new thread; who made it may have given it work (workers.c). */
static int take_clone(struct profile *profile, const struct record_event *clone)
{
	struct process *process = life__process(profile, &clone->header);
	struct thread *thread;

	if (process && process->ended)
		return 0;
	thread = process ? life__thread(profile, process, &clone->header) : NULL;
	if (thread)
		workers__made(profile, thread, clone);
	return thread ? 0 : -ENOMEM;
}

/* The record has the thread's CPU time at its exit; if more may come (EVENT_SETTLES), RECORD_FREED brings the final
 * sum. */
static int take_exit(struct profile *profile, const struct record_event *exit)
{
	struct process *process;
	struct thread *thread;

	if (exit->flags & EVENT_LOST) {
		exit_lost(profile, exit);
		return 0;
	}
	process = life__process(profile, &exit->header);
	if (process && process->ended)
		return 0;
	thread = process ? life__thread(profile, process, &exit->header) : NULL;
	if (!thread)
		return -ENOMEM;
	if (!thread->end_queued && !thread->cpu_final) {
		thread->cpu_final = exit->cpu_time;
		thread->cpu_due = exit->flags & EVENT_SETTLES;
	}
	life__end_thread(profile, thread, exit->header.time);
	if (exit->group_dead)
		life__end_process(profile, process, exit->header.time);
	return 0;
}

/* The kernel freed the task: its CPU time is final. */
static int take_freed(struct profile *profile, const struct record_event *freed)
{
	const struct record_task *task = &freed->header.task;
	struct process *process = tasks__find_process(&profile->tasks, task->tgid, task->process_start, task->exec, true);
	struct thread *thread = process ? tasks__find_thread(&profile->tasks, process, task->tid, task->thread_start) : NULL;

	if (!thread || thread->end_queued || freed->cpu_time < thread->cpu_final)
		return 0;
	thread->cpu_final = freed->cpu_time;
	thread->cpu_due = false;
	return 0;
}

/* Its CPU time is final, or has been waited for long enough. */
static bool is_due(const struct thread *thread, uint64_t now)
{
	return now >= thread->end_time + (thread->cpu_due ? PROFILE_FREED_NS : PROFILE_HOLD_NS);
}

void life__process_settled(struct profile *profile, struct process *process)
{
	if (!process->settled)
		profile->tasks.n_ending--;
	process->settled = true;
}

/* They were never emitted (withheld), and no more records of them come. */
static void drop_withheld(struct profile *profile)
{
	struct thread *thread;
	struct process *process;

	for (thread = profile->tasks.threads; thread; thread = thread->next) {
		if (!thread->process->withheld || thread->id != ID_NONE || !thread->ending || thread->ended)
			continue;
		thread->end_queued = thread->ended = true;
		waits__free(profile, thread);
		thread->process->living--;
		profile->tasks.n_ending--;
		profile->tasks.n_ended++;
	}
	for (process = profile->tasks.processes; process; process = process->next) {
		if (!process->withheld || process->id != ID_NONE || !process->ending || process->ended || process->living)
			continue;
		life__process_settled(profile, process);
		process->ended = true;
		profile->tasks.n_ended++;
	}
}

/* Ends that are due: the last CPU time is given out, and an end is queued behind the thread's samples. Called at
 * each tick, and with `all` at the end of the session. */
int life__settle(struct profile *profile, uint64_t now, bool all)
{
	struct process *process;
	struct thread *thread;
	uint64_t number;
	int err;

	if (!profile->tasks.n_ending)
		return 0;
	drop_withheld(profile);
	err = announce__new(profile, false);
	for (thread = profile->tasks.threads; !err && thread; thread = thread->next) {
		struct item item = {.thread = thread, .end = true};

		if (!thread->ending || thread->end_queued || !(all || is_due(thread, now)))
			continue;
		if (profile->wall && !thread->lost)
			err = waits__end(profile, thread);
		item.row.time = thread->end_time;
		item.row.wall = thread->end_time - thread->last;
		item.row.cpu = cpu__finish(profile, thread, item.row.wall);
		thread->last = thread->end_time;
		thread->end_queued = true;
		profile->tasks.n_ending--;
		err = err ?: profile__push(profile, &item, &number);
	}
	for (process = profile->tasks.processes; !err && process; process = process->next) {
		if (!process->ending || process->settled ||
		    !(all || now >= process->end_time + PROFILE_HOLD_NS))
			continue;
		life__process_settled(profile, process);
		err = announce__process_end(profile, process);
	}
	return err;
}

int profile__record(struct profile *profile, const struct record_header *record)
{
	switch (record->kind) {
	case RECORD_FORK:
		return take_fork(profile, (const struct record_fork *)record);
	case RECORD_EXEC:
		return take_exec(profile, (const struct record_event *)record);
	case RECORD_EXIT:
		return take_exit(profile, (const struct record_event *)record);
	case RECORD_CLONE:
		return take_clone(profile, (const struct record_event *)record);
	case RECORD_FREED:
		return take_freed(profile, (const struct record_event *)record);
	case RECORD_LOST:
		return take_lost(profile, (const struct record_event *)record);
	case RECORD_WAIT:
		return waits__take(profile, (const struct record_wait *)record);
	}
	return 0;
}
