/* SPDX-License-Identifier: MIT */
/* Processes and threads as events. Ids are given when a row is emitted, so that they count up in the order of the
 * stream: {"ev":"thread","id":3,"process":0,"tid":4713,...} comes before the first sample of thread 3.
 *
 * Callers: sample.c before each batch, profile.c at a new epoch and once a second (what changed, such as a name). */
#include "profile/internal.h"

static int emit_process(const struct profile *profile, const struct process *process, struct event_sink *sink)
{
	const uint64_t begin = profile->session.monotonic;

	const struct event event = {
		.kind = EVENT_PROCESS,
		.process =
			{
				.id = process->id,
				.pid = (int32_t)process->tgid,
				.parent = (int32_t)process->parent,
				.start = process->start,
				.exec = process->exec,
				.time = process->time > begin ? process->time : begin, /* of the part */
				.name = process->name ? process->name : process->comm,
				.python = process->python,
				.unsupported = process->unsupported,
				.container = process->container,
			},
	};

	return sink->event(sink, &event);
}

static int emit_thread(const struct thread *thread, struct event_sink *sink)
{
	const struct event event = {
		.kind = EVENT_THREAD,
		.thread =
			{
				.id = thread->id,
				.process = thread->process->id,
				.tid = (int32_t)thread->tid,
				.start = thread->start,
				.time = thread->emitted,
				.name = thread->comm,
			},
	};

	return sink->event(sink, &event);
}

static int emit_end(struct event_sink *sink, enum event_kind kind, uint32_t id, uint64_t time,
		    uint64_t wall, uint64_t cpu)
{
	const struct event event = {
		.kind = kind,
		.ending = {.id = id, .time = time, .wall = wall, .cpu = cpu},
	};

	return sink->event(sink, &event);
}

/* New rows; with `changes` also rows whose name or parent changed. Processes first, since a thread's row names its
 * process. Withheld ones (the client is not authorised) are left out until that changes. Linear in both, unless
 * nothing is new. */
int announce__new(struct profile *profile, bool changes)
{
	int err = 0;

	if (!changes && profile->next_process == profile->tasks.n_processes &&
	    profile->next_thread == profile->tasks.n_threads)
		return 0;
	for (struct process *process = profile->tasks.processes; !err && process; process = process->next) {
		if (process->ended || process->withheld || (process->id != ID_NONE && !(changes && process->changed)))
			continue;
		if (process->id == ID_NONE)
			process->id = profile->next_process++;
		process->changed = false;
		err = emit_process(profile, process, profile->sink);
	}
	for (struct thread *thread = profile->tasks.threads; !err && thread; thread = thread->next) {
		if (thread->ended || thread->process->withheld || (thread->id != ID_NONE && !(changes && thread->changed)))
			continue;
		if (thread->id == ID_NONE)
			thread->id = profile->next_thread++;
		thread->changed = false;
		err = emit_thread(thread, profile->sink);
	}
	return err;
}

/* The thread's last row ends here, or before: what is between is no sample's. One that exited goes on for a moment, maybe;
 * but it may be kept for longer, only for its last CPU time. */
int announce__goes_on(struct profile *profile, struct thread *thread, uint64_t time)
{
	const uint64_t last = thread->ending && thread->end_time + PROFILE_HOLD_NS < time ? thread->end_time : time;
	const struct event event = {
		.kind = EVENT_THREAD_END,
		.ending = {.id = thread->id, .time = last > thread->last ? last : thread->last, .wall = last > thread->last ? last - thread->last : 0, .goes_on = true},
	};

	if (time > thread->last)
		life__lasts(thread, time);
	thread->emitted = thread->part = thread->last;
	return profile->sink->event(profile->sink, &event);
}

/* Emits the end once: the process has ended, all its threads' ends are out, and it was announced. */
int announce__process_end(struct profile *profile, struct process *process)
{
	int err = 0;

	if (!process->ending || process->ended || process->living || process->id == ID_NONE)
		return 0;
	life__process_settled(profile, process);
	process->ended = true;
	profile->tasks.n_ended++;
	if (process->changed) /* a short-lived one was identified after its first record */
		err = emit_process(profile, process, profile->sink);
	process->changed = false;
	return err ? err
		   : emit_end(profile->sink, EVENT_PROCESS_END, process->id, process->end_time, 0, 0);
}

/* The thread's end reached the front of the queue. Its memory for stacks is freed here; the row stays until the
 * epoch is over. */
int announce__thread_end(struct profile *profile, struct thread *thread, const struct item *item)
{
	int err;

	thread->ended = true;
	memo__free(&thread->memo, &profile->tasks);
	waits__free(profile, thread);
	profile->ledger.missed_ended += ledger__missed(profile, thread);
	profile->tasks.n_ended++;
	thread->process->living--;
	err = thread->changed ? emit_thread(thread, profile->sink) : 0;
	thread->changed = false;
	err = err ?: emit_end(profile->sink, EVENT_THREAD_END, thread->id, item->row.time,
			      item->row.wall, item->row.cpu);
	return err ? err : announce__process_end(profile, thread->process);
}

/* Those that ended in this epoch as well, since ids are without holes. */
int announce__replay(const struct profile *profile, struct event_sink *sink)
{
	int err = 0;

	for (const struct process *process = profile->tasks.processes; !err && process; process = process->next)
		if (process->id != ID_NONE)
			err = emit_process(profile, process, sink);
	for (const struct thread *thread = profile->tasks.threads; !err && thread; thread = thread->next)
		if (thread->id != ID_NONE)
			err = emit_thread(thread, sink);
	for (const struct thread *thread = profile->tasks.threads; !err && thread; thread = thread->next)
		if (thread->id != ID_NONE && thread->ended)
			err = emit_end(sink, EVENT_THREAD_END, thread->id, thread->emitted, 0, 0);
	for (const struct process *process = profile->tasks.processes; !err && process; process = process->next)
		if (process->id != ID_NONE && process->ended)
			err = emit_end(sink, EVENT_PROCESS_END, process->id, process->end_time, 0,
				       0);
	return err;
}
