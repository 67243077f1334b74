/* SPDX-License-Identifier: MIT */
/* Threads that compile, in sessions of CPU time: the sampler follows their switches (bpf/watched.h), because a compile
 * that waits has no ticks. A thread is one of them from the first time that it is sampled in a function that a rule
 * names; once there is one, others that are sampled in Python are, too, as long as there is room.
 *
 *    RECORD_CODE of such a function, or a sample with values -> watch__thread() -> BROKER_WATCH -> BROKER_WATCHED
 *
 * The broker has room for BROKER_WATCHED_MAX of them. One that did not compile lately makes room for another. */
#include "serve/engine.h"

static struct watched_thread *find(struct session *session, const struct record_header *header)
{
	struct watched_thread *all = session->watched, *oldest = all;

	for (uint32_t i = 0; i < BROKER_WATCHED_MAX; i++) {
		if (all[i].tid == header->task.tid && all[i].start == header->task.thread_start)
			return &all[i];
		if (all[i].seen < oldest->seen)
			oldest = &all[i];
	}
	return oldest;
}

void watch__thread(struct session *session, const struct record_header *header, bool compiles)
{
	struct broker_message message = {.kind = BROKER_WATCH,
					 .pid = (int32_t)header->task.tgid,
					 .number = header->task.tid};
	struct watched_thread *of;

	if (session->request.wall || session->request.idle)
		return;
	session->compiles |= compiles;
	if (!session->compiles)
		return;
	of = find(session, header);
	message.slot = (uint32_t)(of - session->watched);
	if (of->tid == header->task.tid && of->start == header->task.thread_start)
		of->seen = compiles ? header->time : of->seen;
	else if ((compiles ? header->time > of->seen + (of->tid ? SCHEDULE_LATELY_NS : 0) : !of->tid) &&
		 !session__ask(session, &message, NULL))
		*of = (struct watched_thread){.start = header->task.thread_start, .seen = compiles ? header->time : 1, .tid = header->task.tid};
	else
		profile__loss(session->profile, LOSS_WATCH_FULL, 1);
}
