/* SPDX-License-Identifier: MIT */
/* The processes of a session, from fork or attach to their end. Three sources report on them, in no fixed order:
 *
 *    sampler (records)   fork, exec, exit
 *    broker (messages)   descriptors of a process; children that ran before the session did
 *    kernel (pidfd)      the end, also when its record was lost
 *
 * A process goes through these states (engine.h). An exec begins again at ASKED:
 *
 *    fork:   FORKED (runs its parent's image, which is known)
 *    attach: ASKED --descriptors--> TRYING --identify.c--> KNOWN
 *
 * The sampler looks up an image by the image_key, which a fork copies and an exec changes: an entry of the map is
 * dropped when no living process has that key any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/blocking.h"
#include "base/clock.h"
#include "serve/engine.h"

static struct tracee **bucket_of(struct session *session, int32_t pid)
{
	return &session->of_pid[(uint32_t)pid % TRACEE_BUCKETS];
}

struct tracee *tracee__find(struct session *session, int32_t pid)
{
	for (struct tracee *p = *bucket_of(session, pid); p; p = p->next_of_pid)
		if (p->pid == pid && !p->dead)
			return p;
	return NULL;
}

struct tracee *tracee__of(struct session *session, const struct record_task *task)
{
	struct tracee *alive = tracee__find(session, (int32_t)task->tgid);

	for (struct tracee *p = alive ? NULL : *bucket_of(session, (int32_t)task->tgid); p; p = p->next_of_pid)
		if (p->pid == (int32_t)task->tgid && p->start / PROC_START_NS == task->process_start / PROC_START_NS &&
		    (!p->exec_known || p->exec == task->exec))
			return p;
	return alive;
}

const struct tracee *tracee__forked_as(struct session *session, const struct record_task *task)
{
	for (const struct tracee *p = *bucket_of(session, (int32_t)task->tgid); p; p = p->next_of_pid)
		if (p->pid == (int32_t)task->tgid && p->start == task->process_start && p->forked && p->native_exec == task->exec)
			return p;
	return NULL;
}

struct tracee *tracee__new(struct session *session, int32_t pid)
{
	struct tracee *tracee = session->n_tracees < SERVE_PROCESSES_MAX ? calloc(1, sizeof(*tracee)) : NULL;

	if (!tracee)
		return NULL;
	tracee->session = session;
	tracee->pid = pid;
	tracee->state = TRACEE_ASKED;
	tracee->watch.fd = tracee->mem = tracee->maps = -1;
	tracee->next = session->tracees;
	session->tracees = tracee;
	tracee->next_of_pid = *bucket_of(session, pid);
	*bucket_of(session, pid) = tracee;
	session->n_tracees++;
	return tracee;
}

/* What belongs to one program image: descriptors of /proc read nothing after an exec. */
static void close_image(struct tracee *tracee)
{
	native__leave(tracee);
	asleep__drop(tracee);
	if (tracee->mem >= 0)
		blocking__close(tracee->mem);
	if (tracee->maps >= 0)
		blocking__close(tracee->maps);
	tracee->mem = tracee->maps = -1;
}

/* Its image leaves the map when nobody else runs it. */
static void drop_image(struct tracee *tracee)
{
	struct session *session = tracee->session;
	struct image_key *key = &tracee->key;

	if (!key->arg_start)
		return;
	for (struct tracee *p = session->tracees; p; p = p->next)
		if (p != tracee && !p->dead && memcmp(&p->key, key, sizeof(*key)) == 0)
			return;
	images__drop(session->images, session->ring, key);
}

void tracee__free(struct engine *engine, struct tracee *tracee)
{
	struct session *session = tracee->session;
	struct tracee **at;

	for (at = &session->tracees; *at != tracee; at = &(*at)->next)
		;
	*at = tracee->next;
	for (at = bucket_of(session, tracee->pid); *at != tracee; at = &(*at)->next_of_pid)
		;
	*at = tracee->next_of_pid;
	session->n_tracees--;
	engine__unwatch(engine, &tracee->watch);
	close_image(tracee);
	free(tracee);
}

/* --- to the profile --- */

/* `list` is done once: threads that begin later are reported by the sampler. */
int tracee__announce(struct tracee *tracee)
{
	char name[256], container[CONTAINER_ID_LEN + 1];
	struct profile_process info = {.tgid = (uint32_t)tracee->pid,
				       .parent = (uint32_t)tracee->parent,
				       .process_start = tracee->start,
				       .exec = tracee->exec,
				       .exec_known = tracee->exec_known,
				       .lines = tracee->image.runtime ? tracee->image.layout.lines : 0,
				       .python = tracee->python,
				       .unsupported = tracee->unsupported,
				       .time = engine__now(),
				       .runtime = tracee->image.runtime,
				       .runtime_end = tracee->image.runtime + tracee->image.runtime_size};
	int err;

	proc__command(tracee->pid, name, sizeof(name));
	info.name = *name ? name : NULL; /* it just ended: its comm is known by its records */
	info.container = proc__container(tracee->pid, container) ? NULL : container;
	err = profile__process(tracee->session->profile, &info);
	if (!err && tracee->list)
		proc__threads(tracee->session, tracee, false);
	tracee->list = false;
	return err;
}

void tracee__announce_ends(struct session *session, uint64_t up_to)
{
	for (struct tracee *p = session->tracees; p; p = p->next) {
		if (!p->dead || !p->end_pending || p->ended > up_to)
			continue;
		profile__process_gone(session->profile, (uint32_t)p->pid, p->start, p->ended);
		p->end_pending = false;
	}
}

bool tracee__ran_no_python(const struct session *session, const struct record_header *header)
{
	const struct record_task *task = &header->task;
	const struct tracee *p;

	for (p = session->tracees; p; p = p->next)
		if (p->pid == (int32_t)task->tgid && p->exec_known && p->exec == task->exec)
			break;
	if (!p || p->state == TRACEE_FORKED)
		return false;
	return header->time <= p->none_until || p->provisional ||
	       (p->state == TRACEE_KNOWN && !p->image.runtime);
}

/* Was it forked by a process whose image is not identified yet, but may still be? */
static bool waits_for_parent(const struct tracee *tracee)
{
	const struct tracee *parent = tracee->state == TRACEE_FORKED && !tracee->image.runtime ?
					      tracee__find(tracee->session, tracee->parent) : NULL;

	return parent && !parent->provisional && (parent->state == TRACEE_ASKED || parent->state == TRACEE_TRYING);
}

/* The process ended. `cpu_time`: its last, UINT64_MAX if not known; `time`: of its end, or when that was noticed. A
 * process that ran long enough to have run Python, but ended before it was identified, is a loss: its samples have no
 * Python frames. pidfd and exit record both come here; the second does nothing. */
static void end(struct engine *engine, struct tracee *tracee, uint64_t cpu_time, uint64_t time)
{
	struct session *session = tracee->session;

	if (tracee->dead)
		return;
	if (tracee->candidate) {
		host__died(engine, tracee);
		return;
	}
	tracee->dead = true;
	tracee->ended = engine__now();
	tracee->end_pending = session->host; /* images that it had before adoption end, too */
	if (session->state == SESSION_RUNNING && waits_for_parent(tracee))
		profile__loss(session->profile, LOSS_CHILD_MISSED, 1);
	if (session->state == SESSION_RUNNING && !tracee->root && !tracee->provisional &&
	    (tracee->state == TRACEE_ASKED || tracee->state == TRACEE_TRYING) &&
	    cpu_time > tracee->exec_cpu + SCHEDULE_SHOWS_NS && tracee->none_until < time)
		profile__loss(session->profile, LOSS_CHILD_MISSED, 1);
	drop_image(tracee);
	engine__unwatch(engine, &tracee->watch);
	close_image(tracee);
}

bool tracee__any_alive(struct session *session)
{
	bool alive = false;

	for (struct tracee *p = session->tracees; p; p = p->next)
		if (!p->dead && p->watch.fd >= 0)
			return true;
	/* Only forked ones are left, which have no pidfd: the record of their end may have been lost. */
	for (struct tracee *p = session->tracees; p; p = p->next) {
		if (p->dead)
			continue;
		if (proc__alive(p->pid, p->start))
			alive = true;
		else
			end(session->engine, p, UINT64_MAX, engine__now());
	}
	return alive;
}

void tracee__drop(struct engine *engine, struct tracee *tracee)
{
	if (tracee->dead)
		return;
	tracee->dead = true;
	tracee->end_pending = tracee->adopted;
	tracee->ended = tracee->adopted ? engine__now() : 0;
	drop_image(tracee);
	engine__unwatch(engine, &tracee->watch);
	close_image(tracee);
}

void tracee__sweep(struct session *session)
{
	for (struct tracee *p = session->tracees; p; p = p->next)
		if (!p->dead && p->watch.fd < 0 && p->state == TRACEE_FORKED && !proc__alive(p->pid, p->start))
			end(session->engine, p, UINT64_MAX, engine__now());
}

static void pidfd_ready(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct tracee *tracee = (struct tracee *)watch; /* its first member */
	struct refusal refusal;

	blocking__owner(tracee->session->id);
	if (tracee__is_awaited(tracee)) {
		refusal__set(&refusal, "NO_PROCESS", "", "the process ended before it was identified");
		session__refuse(engine, tracee->session, &refusal);
	}
	/* Records of before its end come first: forks of it (its children run its image), and its exit, which has its
	 * CPU time. */
	if (tracee->session->state == SESSION_RUNNING)
		ring__drain(tracee->session->ring);
	end(engine, tracee, UINT64_MAX, engine__now());
	tracee->end_pending |= !tracee->candidate;
}

void tracee__open(struct engine *engine, struct tracee *tracee, const struct broker_message *message,
		   const int fds[3])
{
	bool runs = tracee->session->state == SESSION_RUNNING;
	uint64_t now = engine__now(), age = 0;

	if (tracee->watch.fd < 0) {
		tracee->watch.fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
		tracee->watch.ready = pidfd_ready;
		engine__watch(engine, &tracee->watch, EPOLLIN);
	}
	tracee->mem = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
	tracee->maps = fcntl(fds[2], F_DUPFD_CLOEXEC, 3);
	if (!tracee->start)
		tracee->start = message->process_start;
	tracee->gil_polls = 0;
	tracee->key = (struct image_key){.arg_start = message->arg_start, .start_data = message->start_data};
	if (!runs)
		native__enter(tracee);
	/* After an exec the age says nothing: the image is young. */
	if (!tracee->exec_known)
		age = clock__boottime() - tracee->start;
	tracee->until = age < SCHEDULE_STARTING_NS ? now + SCHEDULE_STARTING_NS - age : 0;
	tracee->state = TRACEE_TRYING;
	tracee->provisional = false;
	tracee->pause = 0;
	tracee->began = now;
	tracee__try(engine, tracee, now);
	if (runs) { /* who it is comes before what it maps */
		native__enter(tracee);
		native__poll(tracee);
	}
}

static int ask_fds(struct tracee *tracee)
{
	struct broker_message message = {.kind = BROKER_OPEN_PROCESS, .pid = tracee->pid, .number = tracee->untimed};

	return session__ask(tracee->session, &message, &tracee->token);
}

/* Begins again: the image is another one, or is seen for the first time. */
static void ask(struct engine *engine, struct tracee *tracee)
{
	tracee->state = TRACEE_ASKED;
	tracee->authorised = false;
	close_image(tracee);
	if (ask_fds(tracee))
		end(engine, tracee, UINT64_MAX, engine__now());
}

void tracee__ask(struct engine *engine, struct tracee *tracee)
{
	ask(engine, tracee);
}

void tracee__ask_memory(struct engine *engine, struct tracee *tracee)
{
	if (tracee->state == TRACEE_FORKED && !tracee->token)
		ask_fds(tracee);
}

/* --- records of the sampler --- */

/* A child whose image is its parent's: its code objects come before the record of its fork, so the format of their line
 * tables is reported at once. Nothing is read of it, as it may run another image already. */
static void announce_forked(struct tracee *child, uint64_t time)
{
	struct session *session = child->session;
	struct profile_process info = {.tgid = (uint32_t)child->pid,
				       .parent = (uint32_t)child->parent,
				       .process_start = child->start,
				       .exec = child->exec,
				       .exec_known = true,
				       .lines = child->image.layout.lines,
				       .python = child->python,
				       .unsupported = child->unsupported,
				       .time = time};
	int err = profile__process(session->profile, &info);

	if (err && !session->error)
		session->error = err;
}

/* A fork runs its parent's image. */
static void inherit(struct tracee *child, const struct tracee *parent)
{
	child->key = parent->key;
	child->image = parent->image;
	memcpy(child->python, parent->python, sizeof(child->python));
	memcpy(child->unsupported, parent->unsupported, sizeof(child->unsupported));
}

/* Does it run the image of this process, but knows nothing of it yet? */
static bool is_heir(const struct tracee *child, const struct tracee *parent)
{
	return !child->dead && child->state == TRACEE_FORKED && child->parent == parent->pid && !child->image.runtime &&
	       (!parent->exec_known || child->exec == parent->exec);
}

/* Children of children wait for the same answer: each that inherited is put in front of those whose children are still
 * to be found. */
void tracee__announce_forked(struct tracee *parent)
{
	struct session *session = parent->session;
	struct tracee *parents = parent, *child;

	parent->next_parent = NULL;
	while ((parent = parents)) {
		parents = parent->next_parent;
		for (child = session->tracees; child; child = child->next) {
			if (!is_heir(child, parent))
				continue;
			inherit(child, parent);
			child->next_parent = parents;
			parents = child;
			if (session->state == SESSION_RUNNING)
				announce_forked(child, engine__now());
		}
	}
}

/* A fork. With vfork or posix_spawn an exec follows at once, so nothing is asked of the broker before the child is
 * sampled (native__of_forked()) or a page of it is missing (drain.c). */
static void forked(struct engine *engine, struct session *session, const struct record_fork *fork)
{
	const struct record_task *task = &fork->header.task;
	struct tracee *parent = tracee__find(session, (int32_t)fork->parent_tgid);
	struct tracee *child;

	if (!session->request.subprocesses || tracee__find(session, (int32_t)task->tgid))
		return;
	child = tracee__new(session, (int32_t)task->tgid);
	if (!child)
		return; /* the profile knows it by its records; only an exec of it goes unseen */
	child->state = TRACEE_FORKED;
	child->parent = (int32_t)fork->parent_tgid;
	child->start = task->process_start;
	child->exec = task->exec;
	child->exec_known = true;
	child->forked = true;
	child->native_exec = task->exec;
	child->adopted = session->host;
	if (!parent)
		return;
	inherit(child, parent);
	native__forked(child, parent, fork->header.time);
	child->untimed = parent->untimed;
	if (child->untimed)
		ask_fds(child);
	if (session->state == SESSION_RUNNING && child->image.runtime)
		announce_forked(child, fork->header.time);
}

/* An exec: all that was known of the image is void. Its descriptors are asked for anew. */
static void executed(struct engine *engine, struct session *session, const struct record_event *exec)
{
	const struct record_task *task = &exec->header.task;
	struct tracee *tracee = tracee__find(session, (int32_t)task->tgid);

	/* Nothing told that it was forked: its parent's program is not shown, and so had no timers. */
	if (!tracee) {
		tracee = tracee__new(session, (int32_t)task->tgid);
		if (!tracee) {
			profile__loss(session->profile, LOSS_CHILD_MISSED, 1);
			return;
		}
		tracee->untimed = true;
	}
	if (!tracee->start)
		tracee->start = task->process_start;
	drop_image(tracee);
	tracee->key = (struct image_key){};
	tracee->modules = 0;
	tracee->exec = task->exec;
	tracee->exec_known = true;
	tracee->exec_cpu = exec->cpu_time;
	tracee->exec_time = exec->header.time;
	tracee->untimed |= !!(exec->flags & EVENT_UNTIMED);
	tracee->none_until = exec->header.time + SCHEDULE_SHOWS_NS;
	if (!session->host) {
		ask(engine, tracee);
		return;
	}
	/* It is no target any more; host__started() goes on. */
	tracee->state = TRACEE_ASKED;
	tracee->candidate = tracee->adopted = true;
	tracee->authorised = tracee->untimed = false;
	tracee->token = 0;
	close_image(tracee);
}

void tracee__record(struct engine *engine, struct session *session, const struct record_header *header)
{
	const struct record_event *event = (const struct record_event *)header;
	struct tracee *tracee;

	switch (header->kind) {
	case RECORD_FORK:
		forked(engine, session, (const struct record_fork *)header);
		break;
	case RECORD_EXEC:
		if (session->state == SESSION_RUNNING)
			executed(engine, session, event);
		break;
	/* The end of one thread; with group_dead it was the last one. The CPU time in the record is the thread's, which
	 * is the process's only if it is the first one: else it is unknown here. */
	case RECORD_EXIT:
		tracee = tracee__find(session, (int32_t)header->task.tgid);
		if (event->group_dead && tracee)
			end(engine, tracee,
			    header->task.tid == header->task.tgid ? event->cpu_time : UINT64_MAX,
			    header->time);
		break;
	}
}

void tracee__show(struct session *session, uint32_t pid, uint32_t exec)
{
	const struct tracee *tracee = tracee__find(session, (int32_t)pid);

	if (session->profile && tracee && tracee->authorised && tracee->exec_known && tracee->exec == exec)
		profile__authorised(session->profile, pid, tracee->start, exec);
}

/* --- answers of the broker --- */

void tracee__answered(struct engine *engine, struct session *session,
		       const struct broker_message *message, const int *fds, unsigned n)
{
	struct tracee *tracee;

	/* An exec that came before this answer voids it. */
	if (session->state == SESSION_RUNNING)
		ring__drain(session->ring);
	tracee = tracee__find(session, message->pid);
	if (message->kind == BROKER_CHILD) {
		if (!tracee)
			tracee = tracee__new(session, message->pid);
		if (!tracee)
			return;
		tracee->list = true;
		ask(engine, tracee);
		return;
	}
	if (!tracee || tracee->token != message->token ||
	    (tracee->state != TRACEE_ASKED && tracee->state != TRACEE_FORKED))
		return; /* it ended, or ran another program since */
	/* It asked for memory only: its image is its parent's. */
	if (tracee->state == TRACEE_FORKED) {
		if (n == 3)
			tracee->untimed = false;
		if (n == 3 && tracee->mem < 0) {
			tracee->mem = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
			tracee->maps = fcntl(fds[2], F_DUPFD_CLOEXEC, 3);
			native__enter(tracee);
		}
		return;
	}
	if (message->error != BROKER_ERROR_OK || n != BROKER_PROCESS_FDS) {
		if (tracee->candidate)
			host__died(engine, tracee);
		return; /* it ended, or runs another program: a record will say which */
	}
	tracee->untimed = false;
	tracee->parent = message->parent;
	if (tracee->candidate) {
		tracee__open(engine, tracee, message, fds);
		return;
	}
	tracee->authorised = true;
	tracee__show(session, (uint32_t)tracee->pid, tracee->exec);
	tracee__open(engine, tracee, message, fds);
}

/* In each turn of the loop. A dead process is freed once all samples of before its end were handed on. */
void tracee__retry(struct engine *engine, struct session *session, uint64_t now, uint64_t *ret_next)
{
	struct tracee *next;
	uint64_t refresh;
	int err;

	blocking__owner(session->id);
	refresh = session->state == SESSION_RUNNING ? native__refresh(session) : UINT64_MAX;
	if (refresh < *ret_next)
		*ret_next = refresh;
	if (session->host && session->state == SESSION_RUNNING)
		host__step(session->engine, session, now, ret_next);
	err = session->profile ? asleep__step(session, ret_next) : 0;
	if (err && !session->error)
		session->error = err;
	for (struct tracee *p = session->tracees; p; p = next) {
		next = p->next;
		if (p->dead && !p->end_pending) {
			/* Samples of before its end may still come. */
			if ((session->state != SESSION_RUNNING && session->state != SESSION_DETACHING) || session->handed_on > p->ended)
				tracee__free(engine, p);
			continue;
		}
		if (p->dead || p->state != TRACEE_TRYING ||
		    (session->state != SESSION_IDENTIFYING && session->state != SESSION_RUNNING))
			continue;
		if (p->next_try <= now)
			tracee__try(engine, p, now);
		if (p->state == TRACEE_TRYING && p->next_try < *ret_next)
			*ret_next = p->next_try;
	}
}
