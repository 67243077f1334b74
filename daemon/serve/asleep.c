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

/* --- a code object as the sampler sends it --- */

static uint64_t word(struct host_reader *memory, uint64_t address)
{
	uint64_t value = 0;

	return memory->read(memory, &value, sizeof(value), address) ? 0 : value;
}

static uint32_t half(struct host_reader *memory, uint64_t address)
{
	uint32_t value = 0;

	return memory->read(memory, &value, sizeof(value), address) ? 0 : value;
}

static int pad(struct buf *out)
{
	static const char zeros[8];

	return buf__append(out, zeros, -out->len % 8);
}

static int put_string(struct buf *out, struct host_reader *memory, const struct py_layout *l, uint16_t kind, uint64_t string)
{
	uint64_t length = word(memory, string + l->unicode_length), size;
	uint32_t state = half(memory, string + l->unicode_state);
	struct part_string part = {.kind = state >> l->state_kind_shift & 7, .ascii = state >> l->state_ascii_shift & 1};
	char bytes[RECORD_STRING_MAX];

	if (!string || length >> 31 || (part.kind != 1 && part.kind != 2 && part.kind != 4))
		return -EFAULT;
	size = length * part.kind < sizeof(bytes) ? length * part.kind : sizeof(bytes);
	if (memory->read(memory, bytes, size, string + (part.ascii ? l->unicode_ascii_data : l->unicode_compact_data)))
		return -EFAULT;
	part.length = (uint32_t)length;
	part.part = (struct record_part){.kind = kind, .size = (uint32_t)(sizeof(part) + ((size + 7) & ~7ull))};
	return buf__append(out, &part, sizeof(part)) ?: buf__append(out, bytes, size) ?: pad(out);
}

static int put_lines(struct buf *out, struct host_reader *memory, const struct py_layout *l, uint64_t table, uint32_t size)
{
	struct part_bytes part = {.part.kind = PART_LINES, .length = size};
	char bytes[RECORD_LINES_MAX];

	if (!size || memory->read(memory, bytes, size, table + l->bytes_data))
		return -EFAULT;
	part.part.size = (uint32_t)(sizeof(part) + ((size + 7) & ~7u));
	return buf__append(out, &part, sizeof(part)) ?: buf__append(out, bytes, size) ?: pad(out);
}

static int tell_code(struct session *session, struct host_reader *memory, const struct py_layout *l,
		     const struct record_sample *sample, uint64_t key, uint64_t code)
{
	uint64_t table = word(memory, code + l->code_linetable), lines = word(memory, table + l->var_size);
	struct record_code record = {.header = sample->header, .key = key, .address = code,
				     .first_line = half(memory, code + l->code_firstlineno),
				     .code_flags = half(memory, code + l->code_flags),
				     .arg_count = half(memory, code + l->code_argcount),
				     .lines_total = lines >> 31 ? 0 : (uint32_t)lines};
	uint64_t name = word(memory, code + l->code_name), qualname = name;
	_cleanup_(buf__free) struct buf out = {};
	int err = buf__append(&out, &record, sizeof(record));

	record.code_size = l->frames == PY_FRAMES_OBJECTS ?
				   (uint32_t)word(memory, word(memory, code + l->code_instructions) + l->var_size) :
				   2 * half(memory, code + l->var_size);
	if (l->code_qualname != PY_ABSENT)
		qualname = word(memory, code + l->code_qualname);
	record.parts += !put_string(&out, memory, l, PART_NAME, name);
	if (qualname != name)
		record.parts += !put_string(&out, memory, l, PART_QUALNAME, qualname);
	record.parts += !put_string(&out, memory, l, PART_FILE, word(memory, code + l->code_filename));
	record.parts += !put_lines(&out, memory, l, table,
				   record.lines_total < RECORD_LINES_MAX ? record.lines_total : RECORD_LINES_MAX);
	if (err || out.failed)
		return -ENOMEM;
	record.header.kind = RECORD_CODE;
	record.header.size = (uint32_t)out.len;
	memcpy(out.data, &record, sizeof(record));
	return record__check(out.data, out.len) ? 0 : profile__code(session->profile, (const void *)out.data);
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
			err = tell_code(session, memory, &tracee->image.layout, sample, frames.frames[i].code, code);
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
