/* Threads that sleep when a session in wall mode begins: nobody saw them leave their CPU. The sampler tells with which registers they
 * went into the kernel; what is in their memory stays there while they sleep, and is read here: Python's frames, and a copy of the stack from
 * which the native walk is done as for any other sample. If the thread got a CPU meanwhile, nothing of it is taken. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "collect/collect.h"
#include "dump/dump.h"
#include "serve/engine.h"

#define STACK_PAGE 4096u
#define RED_ZONE 128u          /* psABI x86-64, 3.2.2 */
#define KEPT_BYTES (4u << 20)   /* of one process: some 10,000 threads */

struct memory {
	struct host_reader reader;
	int fd;
};

static int read_at(struct host_reader *reader, void *to, size_t size, uint64_t address)
{
	const struct memory *self = (struct memory *)reader;

	if ((int64_t)address <= 0)
		return -EFAULT;
	return pread(self->fd, to, size, (off_t)address) == (ssize_t)size ? 0 : -EFAULT;
}

/* Did it not run since? */
static bool sleeps(const struct record_sample *sample)
{
	unsigned long long cpu, delay, count;
	char path[64];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", sample->header.task.tgid, sample->header.task.tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	good = fscanf(file, "%llu %llu %llu", &cpu, &delay, &count) == 3 && count == sample->cpu_time;
	fclose(file);
	return good;
}

/* --- the sample --- */

static int put_python(struct session *session, struct tracee *tracee, struct host_reader *memory, const struct record_sample *sample,
		      const struct part_wait *wait, struct buf *out, bool *ret_none)
{
	const struct record_task *task = &sample->header.task;
	const struct dump_thread thread = {.tgid = task->tgid, .tid = task->tid, .process_start = task->process_start,
					   .thread_start = task->thread_start, .exec = task->exec, .fsbase = wait->own};
	struct part_py_frames part = {.part.kind = PART_PY_FRAMES};
	struct dump_python *python;
	struct dump_frames frames;
	uint32_t i;
	int err = dump_python__new(memory, &tracee->image, &python);

	if (err)
		return err;
	err = dump_python__walk(python, &thread, &frames);
	for (i = 0; !err && i < frames.n; i++) {
		uint64_t code = dump_python__code(python, frames.frames[i].code);

		if (code)
			err = code_record__tell(session, memory, &tracee->image.layout, &sample->header, frames.frames[i].code, code);
	}
	if (!err) {
		*ret_none = frames.no_python;
		part.n = frames.n;
		part.part.loss = frames.loss;
		part.part.size = (uint32_t)(sizeof(part) + frames.n * sizeof(*frames.frames));
		err = buf__append(out, &part, sizeof(part)) ?: buf__append(out, frames.frames, frames.n * sizeof(*frames.frames));
		free(frames.frames);
	}
	dump_python__free(python);
	return err;
}

/* Its innermost frame, and a copy of the stack for the others. */
static int put_native(const struct session *session, const struct memory *memory, const struct part_stack *from, struct buf *out,
		      uint16_t *parts)
{
	struct {
		struct part_native_frames part;
		uint64_t pc;
	} native = {.part.part = {.kind = PART_NATIVE_FRAMES, .size = sizeof(native)}, .part.n = 1, .pc = from->regs[16] | NATIVE_EXACT};
	_cleanup_free_ uint8_t *bytes = NULL;
	struct part_stack stack = *from;
	uint64_t sp = from->sp & ~7ull;
	ssize_t got = 0;
	int err;

	if (session->request.native == REQUEST_NATIVE_OFF)
		return 0;
	if (session->request.native == REQUEST_NATIVE_FULL)
		native.part.part.loss = LOSS_NATIVE_PENDING;
	++*parts;
	err = buf__append(out, &native, sizeof(native));
	if (err || session->request.native != REQUEST_NATIVE_FULL)
		return err;
	if (sp % STACK_PAGE >= RED_ZONE)
		sp -= RED_ZONE;
	bytes = malloc(RECORD_STACK_MAX);
	if (!bytes)
		return -ENOMEM;
	got = pread(memory->fd, bytes, RECORD_STACK_MAX, (off_t)sp); /* short where the stack ends */
	stack.sp = sp;
	stack.size = got > 0 ? (uint32_t)got & ~7u : 0;
	stack.part.size = (uint32_t)sizeof(stack) + stack.size;
	++*parts;
	return buf__append(out, &stack, sizeof(stack)) ?: buf__append(out, bytes, stack.size);
}

static int take(struct session *session, struct tracee *tracee, const struct record_sample *sample)
{
	const struct part_stack *stack = (const void *)record__part(sample, PART_STACK);
	const struct part_wait *wait = (const void *)record__part(sample, PART_WAIT);
	struct memory memory = {.reader.read = read_at, .fd = tracee->mem};
	_cleanup_(buf__free) struct buf out = {};
	struct record_sample record = *sample;
	bool none = true;
	int err;

	if (!stack || !wait || memory.fd < 0 || !sleeps(sample))
		return 0;
	record.flags &= ~SAMPLE_ASLEEP;
	record.parts = 2;
	err = buf__append(&out, &record, sizeof(record));
	err = err ?: put_python(session, tracee, &memory.reader, sample, wait, &out, &none);
	err = err ?: put_native(session, &memory, stack, &out, &record.parts);
	err = err ?: buf__append(&out, wait, wait->part.size);
	if (err || !sleeps(sample))
		return err;
	record.flags |= none ? SAMPLE_NO_PYTHON : 0;
	record.header.size = (uint32_t)out.len;
	memcpy(out.data, &record, sizeof(record));
	return record__check(out.data, out.len) ? 0 : profile__sample(session->profile, (const void *)out.data);
}

/* All of them come at once as sampling begins. The memory of a child that ran already was asked for just before, and its image
 * is not known yet: the record is kept until then. A thread that runs meanwhile loses it, as it would have later. */
static int keep(struct tracee *tracee, const struct record_sample *sample)
{
	if (tracee->asleep.len + sample->header.size > KEPT_BYTES)
		return 0;
	return buf__append(&tracee->asleep, sample, sample->header.size);
}

int asleep__sample(struct session *session, const struct record_sample *sample)
{
	struct tracee *tracee = tracee__find(session, (int32_t)sample->header.task.tgid);

	if (!tracee)
		return 0;
	if (tracee->state == TRACEE_ASKED || tracee->state == TRACEE_TRYING)
		return keep(tracee, sample);
	return take(session, tracee, sample);
}

int asleep__known(struct tracee *tracee)
{
	struct buf kept = tracee->asleep;
	size_t at = 0;
	int err = 0;

	tracee->asleep = (struct buf){};
	while (at < kept.len && !err) {
		const struct record_sample *sample = (const void *)(kept.data + at);

		err = take(tracee->session, tracee, sample);
		at += sample->header.size;
	}
	buf__free(&kept);
	return err;
}
