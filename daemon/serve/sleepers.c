/* SPDX-License-Identifier: MIT */
/* Threads that wait inside of a compile, in sessions of CPU time.
 *
 * There no tick meets who sleeps, and nobody looks at switches: a compile whose thread waits for threads of XLA, or for a linker, would
 * not be there, or be shorter than it was. So threads that had frames with values lately (struct part_values: a rule names them) are looked at
 * when they had no tick for a while, and are asleep: the number of times that they got a CPU says whether they moved since they were
 * looked at last, and only if they did their Python frames are walked, in memory that nobody changes meanwhile. What was found becomes a
 * record as of a thread that leaves its CPU, with the cause that it is asleep; profile/waits.c makes time of it.
 *
 * Looks come with the beats of the session. The sampler wakes the session for more of them when a thread without Python ticks, who may be
 * the one that is waited for, and when a process is made. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "collect/collect.h"
#include "python/code.h"
#include "python/walk.h"
#include "serve/engine.h"

#define SLEEPERS_MAX 64u
#define QUIET_PERIODS 5u / 2u   /* without a tick: it does not run */

struct sleeper {
	struct record_task task;
	uint64_t own;       /* pthread_self() */
	uint64_t ticked, valued; /* times of the last tick, and of the last one that had values */
	uint64_t count;     /* how often it had got a CPU as it was looked at last */
	uint64_t polled;    /* when that was; 0: not since its last tick */
	uint64_t seen;      /* when it was seen to be where it is */
	bool asleep;        /* it was then, and had no tick since */
	struct buf record;  /* what was told */
	bool compiles;      /* a frame in it has values */
	int schedstat, stat; /* its files in /proc, + 1; 0: not opened yet */
};

struct sleepers {
	struct sleeper of[SLEEPERS_MAX];
	uint32_t n, last;   /* last: whose tick came last */
	uint32_t polls;     /* after a fork, to come */
	struct python_walker *python;
};

static void forget(struct sleepers *all, uint32_t i)
{
	buf__free(&all->of[i].record);
	if (all->of[i].schedstat)
		close(all->of[i].schedstat - 1);
	if (all->of[i].stat)
		close(all->of[i].stat - 1);
	all->of[i] = all->of[--all->n];
	all->of[all->n] = (struct sleeper){};
}

void sleepers__close(struct session *session)
{
	struct sleepers *all = session->sleepers;

	while (all && all->n)
		forget(all, 0);
	if (all)
		python_walker__free(all->python);
	free(all);
	session->sleepers = NULL;
}

/* --- ticks --- */

static struct sleeper *find(struct sleepers *all, const struct record_task *task)
{
	uint32_t i;

	if (all->last < all->n && all->of[all->last].task.tid == task->tid)
		return &all->of[all->last];
	for (i = 0; i < all->n; i++)
		if (all->of[i].task.tid == task->tid)
			return &all->of[all->last = i];
	return NULL;
}

/* Room for one more: who ticked last longest ago goes. */
static struct sleeper *add(struct sleepers *all)
{
	uint32_t i, oldest = 0;

	if (all->n == SLEEPERS_MAX) {
		for (i = 1; i < all->n; i++)
			if (all->of[i].ticked < all->of[oldest].ticked)
				oldest = i;
		forget(all, oldest);
	}
	all->last = all->n;
	return &all->of[all->n++];
}

int sleepers__ticked(struct session *session, const struct sample *sample)
{
	const struct part_values *values;
	struct sleepers *all = session->sleepers;
	struct sleeper *sleeper;

	if (session->request.wall || session->request.idle || sample->record->flags & (SAMPLE_OFF_CPU | SAMPLE_NO_PYTHON))
		return 0;
	values = sample->values;
	if (!all && values)
		all = session->sleepers = calloc(1, sizeof(*all));
	if (!all)
		return values ? -ENOMEM : 0;
	sleeper = find(all, &sample->record->header.task);
	if (!sleeper && values)
		sleeper = add(all);
	if (!sleeper)
		return 0;
	sleeper->ticked = sample->record->header.time;
	sleeper->asleep = false;
	sleeper->polled = 0;
	if (!values)
		return 0;
	sleeper->task = sample->record->header.task;
	sleeper->own = values->own;
	sleeper->valued = sample->record->header.time;
	return 0;
}

/* --- /proc --- */

/* Asked fifty times a second while a compile waits: the file stays open, and is that thread's for ever. */
static int read_text(const struct sleeper *sleeper, const char *name, int *file, char *ret, size_t size)
{
	ssize_t n;
	int fd;

	if (!*file) {
		fd = proc__open_task(&sleeper->task, name);
		if (fd < 0)
			return fd;
		*file = fd + 1;
	}
	n = pread(*file - 1, ret, size - 1, 0);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

static int runs_of(struct sleeper *sleeper, uint64_t *ret_count, uint64_t *ret_cpu)
{
	char text[128], *at = text;
	int err = read_text(sleeper, "schedstat", &sleeper->schedstat, text, sizeof(text));

	if (err)
		return err;
	*ret_cpu = strtoull(at, &at, 10);
	strtoull(at, &at, 10); /* how long it waited for a CPU */
	*ret_count = strtoull(at, &at, 10);
	return 0;
}

static bool is_asleep(struct sleeper *sleeper)
{
	char text[512];
	const char *state = read_text(sleeper, "stat", &sleeper->stat, text, sizeof(text)) ? NULL : strrchr(text, ')');

	return state && (state[2] == 'S' || state[2] == 'D');
}

/* --- its frames --- */

static int put_values(const struct session *session, struct host_reader *memory, const struct py_layout *l, const struct python_walker *python,
		      const struct python_frames *frames, const struct sleeper *sleeper, struct buf *out)
{
	struct part_values part = {.part.kind = PART_VALUES, .own = sleeper->own};
	size_t at = out->len;
	struct locals_capture capture;
	struct frame_values values;
	uint32_t i;
	int err = buf__append(out, &part, sizeof(part));

	for (i = 0; i < frames->n && !err && part.n < VALUES_FRAMES_MAX; i++) {
		if (!session_units__locals_capture(session, frames->frames[i].code, &capture))
			continue;
		python_locals__read(memory, l, &capture, (uint16_t)i, python_walker__place(python, i), &values);
		err = buf__append(out, &values, FRAME_VALUES_HEAD + values.n * 8u);
		part.n++;
	}
	if (err)
		return err;
	part.part.size = (uint32_t)(out->len - at);
	memcpy(out->data + at, &part, sizeof(part));
	if (!part.n)
		out->len = at;
	return (int)part.n;
}

static int announce_codes(struct session *session, const struct sleeper *sleeper, struct host_reader *memory, const struct py_layout *l,
		      const struct python_walker *python, const struct python_frames *frames)
{
	uint64_t code;
	uint32_t i;
	int err = 0;

	for (i = 0; i < frames->n && !err; i++) {
		if (profile__knows_code(session->profile, frames->frames[i].code))
			continue;
		code = python_walker__code(python, frames->frames[i].code);
		if (code)
			err = session__code(session, memory, l, &(struct record_header){.task = sleeper->task, .time = sleeper->polled},
						frames->frames[i].code, code);
	}
	return err;
}

/* All of it but for its time. Without frames there is none. */
static int write_record(struct session *session, const struct tracee *tracee, struct sleeper *sleeper, uint64_t cpu)
{
	const struct record_task *task = &sleeper->task;
	const struct dump_thread thread = {.tgid = task->tgid, .tid = task->tid, .process_start = task->process_start,
					   .thread_start = task->thread_start, .exec = task->exec, .thread_pointer = sleeper->own};
	struct host_reader *memory = session_units__memory(session, tracee);
	struct record_sample record = {.header = {.kind = RECORD_SAMPLE, .task = *task}, .cpu_time = cpu,
				       .flags = SAMPLE_OFF_CPU | SAMPLE_IN_KERNEL, .parts = 2};
	struct part_wait wait = {.part = {.kind = PART_WAIT, .size = sizeof(wait)}, .key = WAIT_KEY_ASLEEP, .syscall = -1, .state = 1,
				 .own = sleeper->own};
	struct part_py_frames part = {.part.kind = PART_PY_FRAMES};
	struct buf *out = &sleeper->record;
	struct python_frames frames = {};
	struct python_walker **kept = &session->sleepers->python, *python;
	int err = *kept ? 0 : python_walker__new(memory, &tracee->image, kept), n = 0;

	buf__clear(out);
	if (err)
		return err;
	python = *kept;
	python_walker__turn_to(python, &tracee->image);
	err = python_walker__walk(python, &thread, NULL, &frames);
	if (!err && !frames.loss && frames.n) {
		err = announce_codes(session, sleeper, memory, &tracee->image.layout, python, &frames);
		part.n = frames.n;
		part.part.size = (uint32_t)(sizeof(part) + frames.n * sizeof(*frames.frames));
		err = err ?: buf__append(out, &record, sizeof(record)) ?: buf__append(out, &part, sizeof(part));
		err = err ?: buf__append(out, frames.frames, frames.n * sizeof(*frames.frames));
		n = err ? err : put_values(session, memory, &tracee->image.layout, python, &frames, sleeper, out);
		err = n < 0 ? n : buf__append(out, &wait, sizeof(wait));
	}
	free(frames.frames);
	sleeper->compiles = n > 0;
	if (err || !out->len)
		return err;
	record.parts += n > 0;
	record.header.size = (uint32_t)out->len;
	memcpy(out->data, &record, sizeof(record));
	return 0;
}

/* `until`: it was where it was before until then. */
static int hand_in(struct session *session, struct sleeper *sleeper, uint64_t until, uint64_t at)
{
	struct record_sample *record = (void *)sleeper->record.data;
	struct part_wait *wait = (void *)(sleeper->record.data + sleeper->record.len - sizeof(*wait));

	sleeper->seen = record->header.time = at;
	wait->args[0] = until;
	return collector__record(session->collector, record, sleeper->record.len);
}

/* --- looks --- */

/* It is on no CPU: it sleeps, or could run and got none since it was looked at last; else it would have had a tick. */
static bool is_off(struct sleeper *sleeper, uint64_t count, uint64_t at)
{
	return (sleeper->polled && sleeper->count == count && at - sleeper->polled >= SCHEDULE_PREEMPTED_NS) || is_asleep(sleeper);
}

static int look_at(struct session *session, struct sleeper *sleeper, uint64_t at)
{
	const struct tracee *tracee = tracee__find(session, (int32_t)sleeper->task.tgid);
	uint64_t count, again, cpu, until = sleeper->asleep ? sleeper->seen : 0;
	int err = runs_of(sleeper, &count, &cpu);
	bool off;

	if (err || !tracee || tracee->mem < 0 || !tracee->image.runtime || (tracee->exec_known && tracee->exec != sleeper->task.exec))
		return err;
	if (sleeper->asleep && count == sleeper->count)
		return hand_in(session, sleeper, at, at);
	off = is_off(sleeper, count, at);
	sleeper->count = count;
	sleeper->polled = at;
	if (!off)
		return 0;
	err = write_record(session, tracee, sleeper, cpu);
	if (err || !sleeper->record.len || runs_of(sleeper, &again, &cpu) || again != count)
		return err;
	sleeper->asleep = true;
	return hand_in(session, sleeper, until, at);
}

int sleepers__poll(struct session *session, uint64_t at)
{
	struct sleepers *all = session->sleepers;
	uint64_t quiet = 1000000000ull / session->request.rate * QUIET_PERIODS;
	bool any = false, news = false;
	uint32_t i;
	int err = 0;

	for (i = 0; all && i < all->n && !err; i++) {
		struct sleeper *sleeper = &all->of[i];
		bool awaits = at < sleeper->valued + SCHEDULE_LATELY_NS || (sleeper->asleep && sleeper->compiles);

		any |= awaits;
		if (!awaits || at < sleeper->ticked + quiet)
			continue;
		news = true;
		err = look_at(session, sleeper, at);
		if (err == -ENOENT || err == -ESRCH) { /* it ended */
			forget(all, i--);
			err = 0;
		}
	}
	if (all)
		ring__await(session->ring, any);
	/* Names are read while they are there. */
	return err ? err : news ? collector__preview(session->collector, at) : 0;
}

void sleepers__last(struct session *session, uint64_t time)
{
	struct sleepers *all = session->sleepers;
	uint64_t count, cpu;
	uint32_t i;

	for (i = 0; all && i < all->n; i++)
		if (all->of[i].asleep && !runs_of(&all->of[i], &count, &cpu) && count == all->of[i].count)
			hand_in(session, &all->of[i], time, time);
}

void sleepers__forked(struct session *session)
{
	if (session->sleepers)
		session->sleepers->polls = SCHEDULE_FORKED_POLLS;
}

uint64_t sleepers__pause(struct session *session)
{
	struct sleepers *all = session->sleepers;

	return all && all->polls ? SCHEDULE_FORKED_POLL_NS << (SCHEDULE_FORKED_POLLS - all->polls--) : 0;
}
