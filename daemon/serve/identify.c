/* SPDX-License-Identifier: MIT */
/* Which CPython does a process run, or none? The answer (struct image: version, layout, address of _PyRuntime) goes
 * into the sampler's map of images; until then its samples have no Python frames.
 *
 * A program that was started a moment ago has no interpreter mapped before its dynamic loader did that, and shows half
 * of one before it is initialised. So tracee__try() is repeated, with growing pauses, until one of these holds:
 *
 *    a CPython that is supported      -> settled()
 *    none within SCHEDULE_STARTING_NS -> settle_without(); for the process that was attached to, a refusal
 *    none so far, but it has run      -> settle_for_now(): its samples count as no Python's, and the tries go on */
#include <errno.h>
#include <stdio.h>

#include "serve/engine.h"
#include "python/gil.h"
#include "target/process.h"

bool tracee__is_awaited(const struct tracee *tracee)
{
	return tracee->root && tracee->session->state == SESSION_IDENTIFYING;
}

/* The state is final until the next exec. The sampler gets the image first, then the profile is informed; children that
 * were forked while their parent was not known are settled with it. */
static void settled(struct engine *engine, struct tracee *tracee)
{
	struct session *session = tracee->session;
	int err = images__put(session->images, session->ring, &tracee->key, &tracee->image);

	tracee->state = TRACEE_KNOWN;
	native__identified(tracee);
	if (!err && tracee->candidate) {
		host__found(tracee);
		return;
	}
	if (err) {
		struct refusal refusal;

		refusal__set_internal(&refusal, engine, "the sampler cannot be told of the process", err);
		if (!session->error)
			session->error = err;
		if (tracee__is_awaited(tracee))
			session__refuse(engine, session, &refusal);
	} else if (tracee__is_awaited(tracee)) {
		session__identified(engine, session);
	} else if (session->state != SESSION_IDENTIFYING) { /* else it is announced with the root */
		tracee__announce(tracee);
	}
	if (!err)
		tracee__announce_forked(tracee);
}

/* It shows no interpreter although it has run for SCHEDULE_SHOWS_NS of CPU time: announced as no Python, so that its
 * samples need not wait. It is tried again, as it may load one (a C program with an embedded Python). */
static void settle_for_now(struct tracee *tracee)
{
	struct session *session = tracee->session;
	uint64_t spent;

	if (tracee->provisional || tracee->candidate || session->state != SESSION_RUNNING ||
	    proc__cpu_time(tracee->pid, &spent) || spent < tracee->exec_cpu + SCHEDULE_SHOWS_NS)
		return;
	if (images__put(session->images, session->ring, &tracee->key, &(struct image){}) == 0) {
		tracee->provisional = true;
		tracee__announce(tracee);
	}
}

/* A process that runs no Python, or none that is supported: its time counts, without Python frames. */
static void settle_without(struct engine *engine, struct tracee *tracee)
{
	if (tracee->candidate) {
		host__none(engine, tracee);
		return;
	}
	tracee->image = (struct image){};
	tracee->python[0] = '\0';
	settled(engine, tracee);
}

/* "Python 2.7.18", "PyPy"; "": it is none of these. */
static void name_unsupported(struct tracee *tracee, const struct target_problem *problem)
{
	const char *detail = problem->detail;
	bool version = *detail >= '0' && *detail <= '9';

	tracee->unsupported[0] = '\0';
	if (problem->kind == TARGET_PROBLEM_UNSUPPORTED)
		snprintf(tracee->unsupported, sizeof(tracee->unsupported), "%s%.20s", version ? "Python " : "", detail);
}

/* What the user can do about it; valid until the next call. */
static const char *hint_of(enum target_problem_kind kind)
{
	static const char *const hints[TARGET_PROBLEM_COUNT] = {
		[TARGET_PROBLEM_NOT_PYTHON] = "attach to the Python among its children, if there is one; "
					       "`cprofd record -s --native -- COMMAND` also shows programs that are not Python",
		[TARGET_PROBLEM_STARTING] = "try again in a moment",
		[TARGET_PROBLEM_MUTE] = "try again when that file system answers",
	};
	static char versions[64];

	if (kind == TARGET_PROBLEM_UNSUPPORTED) {
		snprintf(versions, sizeof(versions), "run the program with a CPython from %s", py_versions);
		return versions;
	}
	return hints[kind] ? hints[kind] : "";
}

/* 0; -ENOENT: it shows none yet; -EAGAIN: one that may not be ready yet; others: no Python that is supported, and
 * *refusal says why. In its text the number of a version is shortened: it is the target's. */
static int identify(struct engine *engine, struct tracee *tracee, struct refusal *refusal)
{
	static const char *const codes[] = {
#define NAME(id, sentence) [TARGET_PROBLEM_##id] = #id,
		TARGET_PROBLEMS(NAME)
#undef NAME
	};
	struct target_problem problem = {};
	struct target_process process;
	struct image_key key;
	struct limit_reached reached;
	int err = target_process__init(&process, tracee->pid, tracee->mem, tracee->maps, tracee->key);

	if (err)
		problem.kind = err == -ESRCH ? TARGET_PROBLEM_GONE : err == -ENOMEM ? TARGET_PROBLEM_NO_MEMORY : TARGET_PROBLEM_NOT_PYTHON;
	else
		err = target__identify(&process, &tracee->image, &key, tracee->python, &problem);
	if (!err && (tracee->session->request.wall || tracee->session->request.idle || tracee->session->request.gil))
		tracee->image.gil = gil__address(&process.reader, &tracee->image, &tracee->gil_sure);
	target_process__free(&process);
	name_unsupported(tracee, &problem);
	if (!err)
		return 0;
	if ((unsigned)problem.kind >= TARGET_PROBLEM_COUNT || problem.kind == TARGET_PROBLEM_NONE)
		problem.kind = TARGET_PROBLEM_NOT_PYTHON;
	if (problem.kind == TARGET_PROBLEM_NO_MEMORY && memory__limit(engine, &reached))
		refusal__set_limit(refusal, &reached);
	else
		refusal__set(refusal, codes[problem.kind], hint_of(problem.kind), "%s%s%s%s",
		     target_problem__sentence(problem.kind), problem.detail[0] ? " (" : "", problem.detail,
		     problem.detail[0] ? ")" : "");
	/* In its loader a program is no Python yet, and half an interpreter is mapped. */
	return err == -ENOTSUP || err == -ESRCH || err == -ENOENT ? err : -EAGAIN;
}

void tracee__try(struct engine *engine, struct tracee *tracee, uint64_t now)
{
	struct refusal refusal = {};
	bool first = tracee__is_awaited(tracee);
	uint64_t polled = engine__now();
	int err = identify(engine, tracee, &refusal);

	if (err == -ENOENT && tracee->none_until < polled + SCHEDULE_LOADS_NS)
		tracee->none_until = polled + SCHEDULE_LOADS_NS;
	native__poll(tracee);
	if (err == 0) {
		settled(engine, tracee);
	} else if (err == -ESRCH && tracee->candidate) {
		host__died(engine, tracee);
	} else if (err == -ENOENT && tracee->candidate && host__has_run(tracee)) {
		host__none(engine, tracee);
	} else if ((err == -EAGAIN || err == -ENOENT) && now < tracee->until && !(first && tracee->session->request.starting)) {
		uint64_t most = now < tracee->began + SCHEDULE_IDENTIFY_STARTS_NS ? SCHEDULE_IDENTIFY_CLOSE_NS : SCHEDULE_IDENTIFY_LAST_NS;

		tracee->pause = tracee->pause ? tracee->pause * 2 : SCHEDULE_IDENTIFY_FIRST_NS;
		if (tracee->pause > most)
			tracee->pause = most;
		if (err == -ENOENT)
			settle_for_now(tracee);
		tracee->next_try = now + tracee->pause;
	} else if (first && !tracee->session->request.starting && tracee->session->request.kind != REQUEST_DUMP) {
		session__refuse(engine, tracee->session, &refusal);
	} else {
		settle_without(engine, tracee);
	}
}
