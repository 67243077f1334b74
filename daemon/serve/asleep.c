/* SPDX-License-Identifier: MIT */
/* Threads that sleep when a session in wall mode begins. Nobody saw them leave their CPU, so there is no stack of them;
 * some sleep for the whole session.
 *
 * The sampler goes over all tasks once, and sends the registers with which each sleeping thread entered the kernel (a
 * sample with SAMPLE_ASLEEP). The memory of such a thread does not change while it sleeps, so the rest is read here:
 * Python frames by the walker, and a copy of the stack, from which the native walk is done as for any other sample. The
 * number of its timeslices, read before and after, proves that it did not run meanwhile; if it did, nothing of it is
 * used.
 *
 *    asleep__sample()  keeps the record (there may be thousands at once)
 *    asleep__step()    in slices: make() builds the whole sample, profile__sample() takes it */

#include "base/blocking.h"
#include "base/cleanup.h"
#include "python/code.h"
#include "python/walk.h"
#include "serve/engine.h"
#include "target/process.h"

#define STACK_PAGE 4096u
/* Bytes of kept records of one process: some 10,000 threads. */
#define KEPT_BYTES (4u << 20)

/* schedstat's third number counts its timeslices: it grows when the thread gets a CPU. The first one is its CPU time,
 * which a record of a switch has: the kernel has brought it up to date just before. */
bool asleep__slept(int schedstat, const struct record_sample *sample)
{
	unsigned long long cpu, delay, count;
	char text[128];
	ssize_t n = pread(schedstat, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return sscanf(text, "%llu %llu %llu", &cpu, &delay, &count) == 3 &&
	       (sample->flags & SAMPLE_ASLEEP ? count : cpu) == sample->cpu_time;
}

/* A sleeping thread's CPU time is up to date, so it has not run since if that is the record's. */
bool asleep__still(const struct record_sample *sample)
{
	_cleanup_close_ int stat = proc__open_task(&sample->header.task, "stat"), schedstat = proc__open_task(&sample->header.task, "schedstat");
	char text[128];
	const char *at;
	ssize_t n;

	if (stat < 0 || schedstat < 0)
		return false;
	n = pread(stat, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = '\0';
	at = strrchr(text, ')');
	return at && (!strncmp(at, ") S", 3) || !strncmp(at, ") D", 3)) && asleep__slept(schedstat, sample);
}

/* Reads a code object as the sampler would have, and passes it to units and profile. `of`: header of a record of its
 * process; `key`: the key by which the frame names it; `code`: its address in the target. */
static int read_code(struct session *session, struct host_reader *memory, const struct py_layout *l, const struct record_header *of,
		     uint64_t key, uint64_t code)
{
	_cleanup_(buf__free) struct buf out = {};
	int err = python_code__record(memory, l, of, key, code, &out);

	if (err || record__check(out.data, out.len))
		return err;
	session_units__code(session, (const void *)out.data);
	return profile__code(session->profile, (const void *)out.data);
}

/* --- the sample --- */

/* The thread states of its process, read once for all threads that slept at that time. */
static int list_tstates(struct tracee *tracee, struct host_reader *memory, uint64_t asleep_at)
{
	if (tracee->tstates_at > asleep_at)
		return 0;
	python_tstates__free(&tracee->tstates);
	tracee->tstates_at = engine__now();
	return python_tstates__read(memory, &tracee->image, &tracee->tstates);
}

struct dump_thread asleep__thread(const struct record_task *task, uint64_t own)
{
	return (struct dump_thread){.tgid = task->tgid, .tid = task->tid, .process_start = task->process_start,
				    .thread_start = task->thread_start, .exec = task->exec, .thread_pointer = own};
}

/* The parts PART_PY_FRAMES and PART_VALUES. Code objects that the profile does not know yet are read on the way, as the sampler captures
 * them only for threads that run. *ret_none: the thread has no thread state. */
static int put_python(struct session *session, struct tracee *tracee, struct python_walker *python, struct host_reader *memory,
		      const struct record_sample *sample, const struct part_wait *wait, struct buf *out, bool *ret_none, uint16_t *parts)
{
	const struct dump_thread thread = asleep__thread(&sample->header.task, wait->own);
	struct part_py_frames part = {.part.kind = PART_PY_FRAMES};
	struct python_frames frames = {};
	int err = list_tstates(tracee, memory, sample->header.time) ?: python_walker__walk(python, &thread, &tracee->tstates, &frames);

	for (uint32_t i = 0; !err && i < frames.n; i++) {
		uint64_t code = profile__knows_code(session->profile, frames.frames[i].code) ? 0 : python_walker__code(python, frames.frames[i].code);

		if (code)
			err = read_code(session, memory, &tracee->image.layout, &sample->header, frames.frames[i].code, code);
	}
	if (!err) {
		*ret_none = frames.no_python;
		part.n = frames.n;
		part.part.loss = frames.loss;
		part.part.size = (uint32_t)(sizeof(part) + frames.n * sizeof(*frames.frames));
		err = buf__append(out, &part, sizeof(part)) ?: buf__append(out, frames.frames, frames.n * sizeof(*frames.frames));
		err = err ?: values__put(session, python, memory, &tracee->image, frames.frames, frames.n, wait->own, out, parts);
	}
	free(frames.frames);
	return err;
}

/* The parts for native frames: the innermost frame, and a copy of the stack for the others. `own` is pthread_self():
 * except for the first thread, it lies above the thread's stack in the same mapping (glibc, musl: struct pthread), so
 * the copy ends there. What lies beyond it is another thread's. */
static int put_native(const struct session *session, const struct memory_reader *memory, const struct part_stack *from, uint64_t own,
		      struct buf *out, uint16_t *parts)
{
	const uint64_t pc = from->regs[UNWIND_PC] | NATIVE_EXACT;
	struct part_native_frames native = {.part = {.kind = PART_NATIVE_FRAMES, .size = sizeof(native) + sizeof(pc)}, .n = 1};
	_cleanup_free_ uint8_t *bytes = NULL;
	struct part_stack stack = *from;
	uint64_t sp = from->sp & ~7ull;
	size_t most = RECORD_STACK_MAX;
	ssize_t got = 0;
	int err;

	if (session->request.native == REQUEST_NATIVE_OFF)
		return 0;
	if (session->request.native == REQUEST_NATIVE_FULL)
		native.part.loss = LOSS_NATIVE_PENDING;
	++*parts;
	err = buf__append(out, &native, sizeof(native)) ?: buf__append(out, &pc, sizeof(pc));
	if (err || session->request.native != REQUEST_NATIVE_FULL)
		return err;
	/* The red zone below the stack pointer belongs to a leaf function (psABI 3.2.2). Not if it lies in another
	 * page, which may be a guard page. */
	if (sp % STACK_PAGE >= UNWIND_RED_ZONE)
		sp -= UNWIND_RED_ZONE;
	if (own > sp && own - sp < most)
		most = own - sp;
	bytes = malloc(most);
	if (!bytes)
		return -ENOMEM;
	got = blocking__pread(memory->fd, bytes, most, sp); /* short where the stack ends */
	stack.sp = sp;
	stack.size = got > 0 ? (uint32_t)got & ~7u : 0;
	stack.part.size = (uint32_t)sizeof(stack) + stack.size;
	++*parts;
	return buf__append(out, &stack, sizeof(stack)) ?: buf__append(out, bytes, stack.size);
}

/* What a slice needs for all its threads of one process. */
struct taking {
	struct memory_reader memory;
	struct python_walker *python;
	struct part_native_frames *walked; /* room for RECORD_NATIVE_FRAMES_MAX */
};

static int taking__begin(struct taking *self, const struct tracee *tracee)
{
	*self = (struct taking){.memory = memory_reader__of(tracee->mem)};
	self->walked = malloc(sizeof(*self->walked) + RECORD_NATIVE_FRAMES_MAX * 8u);
	return self->walked ? python_walker__new(&self->memory.reader, &tracee->image, &self->python) : -ENOMEM;
}

static void taking__end(struct taking *self)
{
	python_walker__free(self->python);
	free(self->walked);
}

/* Walks the copy of the stack, and puts the frames in its place. `native`: offset of the native parts in the record.
 * -EAGAIN: unwind tables are still being built; the record stays as it is, with the copy. */
static int walk(struct session *session, struct taking *taking, size_t native, const struct part_wait *wait, struct buf *out)
{
	struct part_native_frames *walked = taking->walked;
	struct sample sample;
	int err;

	record__parse((const void *)out->data, &sample);
	err = sample.stack && codemap__walks(session->codemap) ? codemap__walk(session->codemap, &sample, false, walked) : -ENOENT;
	/* The question also makes the namer search for the eval loop, which nothing else causes in a process where no
	 * thread runs. */
	if (err || codemap__awaits_eval(session->codemap, &sample))
		return !err || err == -EAGAIN ? -EAGAIN : 0;
	walked->part.kind = PART_NATIVE_FRAMES;
	walked->part.size = (uint32_t)(sizeof(*walked) + walked->n * 8u);
	out->len = native;
	err = buf__append(out, walked, walked->part.size) ?: buf__append(out, wait, wait->part.size);
	if (err)
		return err;
	((struct record_sample *)out->data)->parts--;
	((struct record_sample *)out->data)->header.size = (uint32_t)out->len;
	return 0;
}

/* Builds the whole record from `sample`. *ret_empty: it is of no use (the thread ran, or is gone). -EAGAIN as walk().
 * The number of parts and the size are only known at the end, so the head is written twice. */
static int make(struct session *session, struct tracee *tracee, struct taking *taking, const struct record_sample *sample, struct buf *out,
		bool *ret_empty)
{
	struct sample from;
	_cleanup_close_ int schedstat = -1;
	struct record_sample record = *sample;
	bool none = true;
	size_t native;
	int err;

	*ret_empty = true;
	record__parse(sample, &from);
	if (!from.stack || !from.wait || (tracee->exec_known && tracee->exec != sample->header.task.exec))
		return 0;
	schedstat = proc__open_task(&sample->header.task, "schedstat");
	if (schedstat < 0 || !asleep__slept(schedstat, sample))
		return 0;
	record.flags &= ~SAMPLE_ASLEEP;
	record.parts = 2;
	err = buf__append(out, &record, sizeof(record));
	err = err ?: put_python(session, tracee, taking->python, &taking->memory.reader, sample, from.wait, out, &none, &record.parts);
	native = out->len;
	err = err ?: put_native(session, &taking->memory, from.stack, from.wait->own, out, &record.parts);
	err = err ?: buf__append(out, from.wait, from.wait->part.size);
	if (err || !asleep__slept(schedstat, sample))
		return err;
	record.flags |= none ? SAMPLE_NO_PYTHON : 0;
	record.header.size = (uint32_t)out->len;
	memcpy(out->data, &record, sizeof(record));
	*ret_empty = record__check(out->data, out->len) != 0;
	return *ret_empty ? 0 : walk(session, taking, native, from.wait, out);
}

/* Builds one thread's sample and hands it on. *ret_again: its stack is only a copy so far, and it is worth doing once
 * more when the tables are there. In the second turn it is handed on only then. */
static int take(struct session *session, struct tracee *tracee, struct taking *taking, const struct record_sample *sample, bool *ret_again)
{
	_cleanup_(buf__free) struct buf out = {};
	struct sample made;
	bool empty;
	int err = make(session, tracee, taking, sample, &out, &empty);

	*ret_again = err == -EAGAIN;
	if (*ret_again && tracee->asleep_again)
		return 0;
	if (empty || (err && err != -EAGAIN))
		return err;
	record__parse((const void *)out.data, &made);
	return session_units__sample(session, &made) ?: profile__sample(session->profile, &made);
}

/* All of them come at once when sampling begins, maybe from thousands of threads, and from children whose image is not
 * identified yet. So they are kept and processed in slices: other sessions of this engine wait for one slice at most. A
 * thread that runs meanwhile loses its record. */
int asleep__sample(struct session *session, const struct record_sample *sample)
{
	struct tracee *tracee = tracee__find(session, (int32_t)sample->header.task.tgid);

	if (!tracee || tracee->asleep.len + sample->header.size > KEPT_BYTES)
		return 0;
	return buf__append(&tracee->asleep, sample, sample->header.size);
}

/* Two turns over the records. In the first, all are handed on, with a copy of the stack where unwind tables are
 * missing, as a thread may wake up at any time. In the second, those that still sleep are done again with the tables:
 * frames take a tenth of the room of a copy. A record that is finished has `parts` 0. */
static int take_until(struct tracee *tracee, uint64_t until)
{
	uint64_t now = engine__now();
	struct taking taking;
	int err = taking__begin(&taking, tracee);
	bool again = false;

	while (!err && !again && tracee->asleep_at < tracee->asleep.len && now < until) {
		struct record_sample *sample = (void *)(tracee->asleep.data + tracee->asleep_at);

		if (sample->parts)
			err = take(tracee->session, tracee, &taking, sample, &again);
		if (!again || now >= sample->header.time + PROFILE_FINISH_NS)
			sample->parts = 0; /* done */
		again = again && tracee->asleep_again && sample->parts;
		if (!again)
			tracee->asleep_at += sample->header.size;
		now = engine__now();
	}
	taking__end(&taking);
	tracee->asleep_due = again ? now + SCHEDULE_ASLEEP_AGAIN_NS : 0;
	if (tracee->asleep_at < tracee->asleep.len)
		return err;
	if (tracee->asleep_again)
		asleep__drop(tracee);
	tracee->asleep_at = 0;
	tracee->asleep_again = tracee->asleep.len > 0;
	return err;
}

/* Not while the process is being identified: its layout is needed. */
static bool has_some(const struct tracee *tracee)
{
	return tracee->asleep.len && tracee->mem >= 0 && tracee->state != TRACEE_ASKED && tracee->state != TRACEE_TRYING;
}

int asleep__step(struct session *session, uint64_t *ret_next)
{
	uint64_t now = engine__now(), until = now + SCHEDULE_ASLEEP_SLICE_NS;
	int err = 0;

	for (struct tracee *t = session->tracees; t && !err; t = t->next) {
		if (has_some(t) && t->asleep_due <= now)
			err = take_until(t, until);
		if (has_some(t) && t->asleep_due < *ret_next)
			*ret_next = t->asleep_due;
	}
	return err;
}

/* At the end of the session: those that had no turn at all get one. All records are dropped afterwards. */
int asleep__last(struct session *session)
{
	uint64_t until = engine__now() + SCHEDULE_ASLEEP_LAST_NS;
	int err = 0;

	for (struct tracee *t = session->tracees; t; t = t->next) {
		if (has_some(t) && !t->asleep_again && !err)
			err = take_until(t, until);
		asleep__drop(t);
	}
	return err;
}

void asleep__drop(struct tracee *tracee)
{
	buf__free(&tracee->asleep);
	tracee->asleep_at = 0;
	tracee->asleep_due = 0;
	tracee->asleep_again = false;
	python_tstates__free(&tracee->tstates);
	tracee->tstates_at = 0;
}
