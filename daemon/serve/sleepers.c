/* SPDX-License-Identifier: MIT */
/* Threads that wait inside of a compile, in sessions of CPU time.
 *
 * In CPU mode a sleeping thread has no ticks, and nothing observes context switches. A compile whose thread waits, for
 * threads of XLA or for a linker, would be missing or too short. So threads that had frames with values recently
 * (struct part_values: a rule names their functions) are polled once they had no tick for a while. In /proc:
 *
 *    schedstat   "120032 4410 87": the third number, timeslices, says whether the thread ran since the last poll
 *    stat        "4242 (python3) S ...": is it asleep?
 *
 * Only if it moved are its Python frames walked again; nobody changes that memory while it sleeps, which the timeslices
 * prove afterwards. The result becomes a record like that of a thread that leaves its CPU, with the cause
 * WAIT_KEY_ASLEEP; profile/waits.c turns it into time.
 *
 * This is done at each poll of the session. The sampler causes extra polls when a thread without Python ticks (the
 * waiting thread may wait for it), when such a tick finds that a sleeping thread got a CPU (bpf/moved.h), and when a
 * process is made. */
#include <errno.h>
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
/* Half periods without a tick after which a thread is taken to be off its CPU: one tick may be late. */
#define QUIET_HALF_PERIODS 5u

struct sleeper {
	struct record_task task;
	/* pthread_self(), by which its thread state is found. */
	uint64_t own;
	/* Times of the last tick, of the last one that a ring had, and of the last tick that had values. */
	uint64_t ticked, drained, valued;
	/* Its timeslices at the last poll. */
	uint64_t count;
	/* When it was polled last; 0: not since its last tick. */
	uint64_t polled;
	/* When it was last found at the place that `record` has. */
	uint64_t seen;
	/* It was asleep at the last poll, and had no tick since; and it got a CPU meanwhile, not long after `seen`. */
	bool asleep, moved;
	/* The record that was emitted last. It is emitted again, with a new time, as long as the thread does not
	 * move. */
	struct buf record;
	bool compiles;      /* a frame in it has values */
	int schedstat, stat; /* its files in /proc, + 1; 0: not opened yet */
};

struct sleepers {
	struct sleeper of[SLEEPERS_MAX];
	uint32_t n, last;   /* last: whose tick came last */
	uint32_t polls;     /* after a fork, to come */
	struct python_walker *python;
};

/* Its place is taken by the last one: indices are not stable, `last` is only a hint. */
static void remove_at(struct sleepers *all, uint32_t i)
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
		remove_at(all, 0);
	if (all)
		python_walker__free(all->python);
	free(all);
	session->sleepers = NULL;
}

/* --- ticks --- */

static struct sleeper *find(struct sleepers *all, uint32_t tid)
{
	uint32_t i;

	/* Ticks of one thread come in a row. */
	if (all->last < all->n && all->of[all->last].task.tid == tid)
		return &all->of[all->last];
	for (i = 0; i < all->n; i++)
		if (all->of[i].task.tid == tid)
			return &all->of[all->last = i];
	return NULL;
}

/* When all are in use, the one whose last tick is oldest is dropped. */
static struct sleeper *add(struct sleepers *all)
{
	uint32_t i, oldest = 0;

	if (all->n == SLEEPERS_MAX) {
		for (i = 1; i < all->n; i++)
			if (all->of[i].ticked < all->of[oldest].ticked)
				oldest = i;
		remove_at(all, oldest);
	}
	all->last = all->n;
	return &all->of[all->n++];
}

/* The last part of the record. */
static struct part_wait *wait_of(const struct sleeper *sleeper)
{
	return (struct part_wait *)(void *)(sleeper->record.data + sleeper->record.len - sizeof(struct part_wait));
}

/* Gives the record to the collector with this poll's time. `until`: up to then the thread is known to have been where
 * the record before had it; what lies between is unknown. */
static int hand_in(struct session *session, struct sleeper *sleeper, uint64_t until, uint64_t at)
{
	struct record_sample *record = (void *)sleeper->record.data;

	sleeper->seen = record->header.time = at;
	wait_of(sleeper)->args[0] = until;
	return collector__record(session->collector, record, sleeper->record.len);
}

/* It slept where the last poll found it until `seen`, and then it got a CPU: where it was from there until its tick is
 * not known. (Without this it is taken to have slept there until shortly before the tick.) */
static int leave(struct session *session, struct sleeper *sleeper)
{
	wait_of(sleeper)->args[1] = 1;
	return hand_in(session, sleeper, sleeper->seen, sleeper->seen);
}

void sleepers__drained(struct session *session, const struct record_header *header)
{
	struct sleeper *sleeper = session->sleepers ? find(session->sleepers, header->task.tid) : NULL;

	if (sleeper)
		sleeper->drained = header->time;
}

/* Called before the thread's next tick is previewed: the record was written earlier, and this ring is read first. */
bool sleepers__moved(struct session *session, const struct record_moved *record)
{
	struct sleepers *all = session->sleepers;
	struct sleeper *sleeper = all ? find(all, record->tid) : NULL;

	if (record->runs == record->runs_now)
		return sleeper && !sleeper->asleep;
	if (!sleeper || !sleeper->asleep || sleeper->count != record->runs)
		return false;
	sleeper->moved = true;
	if (record->same > sleeper->seen)
		sleeper->seen = record->same;
	return true;
}

/* Wall mode records waits itself. The first sample that has values allocates the table: most sessions never need it. */
int sleepers__ticked(struct session *session, const struct sample *sample)
{
	const struct part_values *values;
	struct sleepers *all = session->sleepers;
	struct sleeper *sleeper;
	int err = 0;

	if (session->request.wall || session->request.idle || sample->record->flags & (SAMPLE_OFF_CPU | SAMPLE_NO_PYTHON))
		return 0;
	values = sample->values;
	if (!all && values)
		all = session->sleepers = calloc(1, sizeof(*all));
	if (!all)
		return values ? -ENOMEM : 0;
	sleeper = find(all, sample->record->header.task.tid);
	if (!sleeper && values)
		sleeper = add(all);
	if (!sleeper)
		return 0;
	if (sleeper->asleep && sleeper->moved)
		err = leave(session, sleeper);
	sleeper->ticked = sample->record->header.time;
	sleeper->asleep = sleeper->moved = false;
	sleeper->polled = 0;
	if (!values || err)
		return err;
	sleeper->task = sample->record->header.task;
	sleeper->own = values->own;
	sleeper->valued = sample->record->header.time;
	return 0;
}

/* --- /proc --- */

/* The file stays open, as it is read fifty times a second while a compile waits. An open file of /proc/PID/task/TID
 * belongs to that thread for good: after its end a read fails with ESRCH, even if the tid is used again. */
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

/* PART_VALUES of the frames that a rule names, as the sampler would have sent them. Returns how many frames had any;
 * without any, the part is left out. */
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
		python_locals__read(memory, l, &capture, (uint16_t)i, python_walker__frame_address(python, i), &values);
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

/* Code objects that the profile does not know yet: read here as the sampler would have captured them. */
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

/* Writes sleeper->record, all but its time. Without frames, or with frames that could not all be read, it stays
 * empty. */
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

/* --- polls --- */

/* Is it off its CPU? It sleeps, or it could run but got no CPU since the last poll: a thread that runs would have had a
 * tick. */
static bool is_off(struct sleeper *sleeper, uint64_t count, uint64_t at)
{
	return (sleeper->polled && sleeper->count == count && at - sleeper->polled >= SCHEDULE_PREEMPTED_NS) || is_asleep(sleeper);
}

/* One thread. The timeslices are read before and after its frames are: only if they are the same is the record true. */
static int poll_one(struct session *session, struct sleeper *sleeper, uint64_t at)
{
	const struct tracee *tracee = tracee__find(session, (int32_t)sleeper->task.tgid);
	uint64_t now = engine__now(), count, again, cpu, begin, until = sleeper->seen > sleeper->ticked ? sleeper->seen : 0;
	int err = runs_of(sleeper, &count, &cpu);
	bool off;

	if (err || !tracee || tracee->mem < 0 || !tracee->image.runtime || (tracee->exec_known && tracee->exec != sleeper->task.exec))
		return err;
	if (sleeper->asleep && count == sleeper->count) {
		err = hand_in(session, sleeper, at, at);
		sleeper->seen = now;
		return err;
	}
	off = is_off(sleeper, count, at);
	sleeper->count = count;
	sleeper->polled = at;
	if (!off)
		return 0;
	err = write_record(session, tracee, sleeper, cpu);
	sleeper->asleep = sleeper->asleep && sleeper->record.len; /* else there is nothing to emit again */
	if (err || !sleeper->record.len || runs_of(sleeper, &again, &cpu) || again != count)
		return err;
	sleeper->asleep = true;
	sleeper->moved = false;
	/* It came here right after its last tick, or after it left the place before. What its workers did since then is
	 * attributed to this place, so a record says it at that time, too. */
	begin = (until > sleeper->ticked ? until : sleeper->ticked) + 1;
	if (begin < at) {
		err = hand_in(session, sleeper, until, begin);
		until = at;
	}
	err = err ?: hand_in(session, sleeper, until, at);
	sleeper->seen = now;
	return err;
}

int sleepers__poll(struct session *session, uint64_t at)
{
	struct sleepers *all = session->sleepers;
	uint64_t quiet = 1000000000ull / session->request.rate * QUIET_HALF_PERIODS / 2;
	bool any = false, news = false;
	uint32_t i;
	int err = 0;

	for (i = 0; all && i < all->n && !err; i++) {
		struct sleeper *sleeper = &all->of[i];
		/* It had values a moment ago, or it sleeps in a compile, however long. */
		bool awaits = at < sleeper->valued + SCHEDULE_LATELY_NS || (sleeper->asleep && sleeper->compiles);

		any |= awaits;
		if (!awaits || at < sleeper->ticked + quiet || at < sleeper->drained + quiet)
			continue;
		news = true;
		err = poll_one(session, sleeper, at);
		if (err == -ENOENT || err == -ESRCH) { /* it ended */
			remove_at(all, i--);
			err = 0;
		}
	}
	if (all)
		ring__await(session->ring, any);
	/* The records that were just added are previewed at once, as their values name the compile. */
	return err ? err : news ? collector__preview(session->collector, at) : 0;
}

/* A wait that lasts to the end of the session ends there. */
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

/* After a fork some polls come sooner: 8, 16, 32 and 64 ms after each other. The parent is about to wait for its
 * child. */
uint64_t sleepers__pause(struct session *session)
{
	struct sleepers *all = session->sleepers;

	return all && all->polls ? SCHEDULE_FORKED_POLL_NS << (SCHEDULE_FORKED_POLLS - all->polls--) : 0;
}
