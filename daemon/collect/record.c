/* SPDX-License-Identifier: MIT */
/* Checks records from the rings, and finds the parts of samples. This is the only place that reads unchecked lengths.
 *
 *
 * A record is written by our own BPF program, into a ring that the engine maps; the engine checks it all the same,
 * as a bug there must not become one here. After record__check() all sizes in the record are good: every other
 * reader relies on that. */
#include <errno.h>
#include <string.h>

#include "cprofd/loss.h"
#include "collect/collect.h"

static bool string_good(const struct part_string *string, size_t size)
{
	return size >= sizeof(*string) &&
	       (string->kind == 1 || string->kind == 2 || string->kind == 4) &&
	       (!string->ascii || string->kind == 1);
}

static bool frames_good(const struct part_py_frames *frames, size_t size)
{
	return size >= sizeof(*frames) && frames->n <= RECORD_PY_FRAMES_MAX &&
	       frames->n <= (size - sizeof(*frames)) / sizeof(frames->frames[0]);
}

static bool native_good(const struct part_native_frames *frames, size_t size)
{
	return size >= sizeof(*frames) && frames->n <= RECORD_NATIVE_FRAMES_MAX &&
	       frames->n <= (size - sizeof(*frames)) / sizeof(frames->pc[0]);
}

static bool stack_good(const struct part_stack *stack, size_t size)
{
	return size >= sizeof(*stack) && stack->size <= RECORD_STACK_MAX &&
	       stack->size <= size - sizeof(*stack);
}

static bool kernel_good(const struct part_kernel_frames *frames, size_t size)
{
	return size >= sizeof(*frames) && frames->n <= RECORD_KERNEL_FRAMES_MAX &&
	       frames->n <= (size - sizeof(*frames)) / sizeof(frames->pc[0]);
}

static bool bytes_good(const struct part_bytes *bytes, size_t size, uint32_t total)
{
	return size >= sizeof(*bytes) && bytes->length <= size - sizeof(*bytes) &&
	       bytes->offset <= total && bytes->length <= total - bytes->offset;
}

static bool object_good(const struct part_object *object, size_t size)
{
	return size >= OBJECT_FIXED && size <= sizeof(*object) && object->begin <= object->end &&
	       object->end <= size - OBJECT_FIXED;
}

static bool part_good(const struct record_part *part, size_t left)
{
	return left >= sizeof(*part) && part->size >= sizeof(*part) && part->size % 8 == 0 &&
	       part->size <= left && part->loss < LOSS_COUNT;
}

static bool variables_good(const struct part_variables *variables, size_t size)
{
	const char *at = (const char *)(variables + 1);
	size_t left;

	if (size < sizeof(*variables) || variables->n > RECORD_VARIABLES_MAX)
		return false;
	left = size - sizeof(*variables);
	for (uint32_t i = 0; i < variables->n; i++) {
		const struct record_part *part = (const void *)at;

		if (!part_good(part, left) || !string_good((const void *)part, part->size))
			return false;
		at += part->size;
		left -= part->size;
	}
	return true;
}

/* The parts that follow the fixed part of a sample or code record. */
static bool parts_good(const char *at, size_t left, uint32_t n, uint32_t lines_total)
{
	for (; n; n--) {
		const struct record_part *part = (const void *)at;
		bool good = true;

		if (!part_good(part, left))
			return false;
		switch (part->kind) {
		case PART_PY_FRAMES:
			good = frames_good((const void *)part, part->size);
			break;
		case PART_NATIVE_FRAMES:
			good = native_good((const void *)part, part->size);
			break;
		case PART_STACK:
			good = stack_good((const void *)part, part->size);
			break;
		case PART_KERNEL_FRAMES:
			good = kernel_good((const void *)part, part->size);
			break;
		case PART_WAIT:
			good = part->size >= sizeof(struct part_wait);
			break;
		case PART_VALUES:
			good = part->size >= sizeof(struct part_values);
			break;
		case PART_OBJECT:
			good = object_good((const void *)part, part->size);
			break;
		case PART_NAME:
		case PART_QUALNAME:
		case PART_FILE:
			good = string_good((const void *)part, part->size);
			break;
		case PART_LINES:
			good = bytes_good((const void *)part, part->size, lines_total);
			break;
		case PART_VARIABLES:
			good = variables_good((const void *)part, part->size);
			break;
		}
		if (!good)
			return false;
		at += part->size;
		left -= part->size;
	}
	return true;
}

static size_t fixed_size(uint16_t kind)
{
	switch (kind) {
	case RECORD_SAMPLE:
		return sizeof(struct record_sample);
	case RECORD_CODE:
		return sizeof(struct record_code);
	case RECORD_FORK:
		return sizeof(struct record_fork);
	case RECORD_EXEC:
	case RECORD_EXIT:
	case RECORD_CLONE:
	case RECORD_FREED:
	case RECORD_LOST:
		return sizeof(struct record_event);
	case RECORD_STARTED:
		return sizeof(struct record_started);
	case RECORD_WAIT:
		return sizeof(struct record_wait);
	case RECORD_MAP:
		return sizeof(struct record_map);
	}
	return 0;
}

int record__check(const void *data, size_t len)
{
	const struct record_header *header = data;
	const struct record_sample *sample = data;
	const struct record_code *code = data;
	size_t fixed;

	if (len < sizeof(*header) || (uintptr_t)data % 8 || header->size > len ||
	    header->size < sizeof(*header) || header->size % 8)
		return -EBADMSG;
	fixed = fixed_size(header->kind);
	if (!fixed)
		return -ENOTSUP;
	if (header->size < fixed)
		return -EBADMSG;
	if (header->kind == RECORD_SAMPLE &&
	    (sample->flags & SAMPLE_FOLDED || sample->loss >= LOSS_COUNT ||
	     !parts_good((const char *)(sample + 1), header->size - fixed, sample->parts, 0)))
		return -EBADMSG;
	if (header->kind == RECORD_CODE &&
	    !parts_good((const char *)(code + 1), header->size - fixed, code->parts,
			code->lines_total))
		return -EBADMSG;
	return 0;
}

const struct record_part *record__part_after(const struct record_code *record, const struct record_part *after,
					     uint16_t kind)
{
	const char *at = (const char *)(record + 1);
	bool passed = !after;

	for (uint32_t n = record->parts; n; n--) {
		const struct record_part *part = (const void *)at;

		if (passed && part->kind == kind)
			return part;
		if (part == after)
			passed = true;
		at += part->size;
	}
	return NULL;
}

const struct record_part *record__part(const struct record_code *record, uint16_t kind)
{
	return record__part_after(record, NULL, kind);
}

/* Of two parts of one kind the first one counts. */
#define TAKE(part, member) ret->member = ret->member ? ret->member : (const void *)(part)
void record__parse(const struct record_sample *record, struct sample *ret)
{
	const char *at = (const char *)(record + 1);

	*ret = (struct sample){.record = record};
	for (uint32_t n = record->parts; n; n--) {
		const struct record_part *part = (const void *)at;

		switch (part->kind) {
		case PART_PY_FRAMES:
			TAKE(part, python);
			break;
		case PART_NATIVE_FRAMES:
			TAKE(part, native);
			break;
		case PART_KERNEL_FRAMES:
			TAKE(part, kernel);
			break;
		case PART_STACK:
			TAKE(part, stack);
			break;
		case PART_VALUES:
			TAKE(part, values);
			break;
		case PART_OBJECT:
			TAKE(part, objects);
			ret->n_objects++;
			break;
		case PART_WAIT:
			TAKE(part, wait);
			break;
		}
		at += part->size;
	}
}
#undef TAKE

/* Of a checked record: n_objects parts follow, at least. */
static const struct part_object *next_object(const struct part_object *object)
{
	return (const void *)((const char *)object + object->part.size);
}

const struct part_object *sample__object(const struct sample *sample, uint64_t address)
{
	const struct part_object *object = sample->objects;

	for (uint32_t n = sample->n_objects; n; n--, object = next_object(object))
		if (object->part.kind == PART_OBJECT && object->address == address)
			return object;
	return NULL;
}

const struct part_object *sample__object_of_path(const struct sample *sample, uint32_t frame, uint32_t path)
{
	const struct part_object *object = sample->objects;
	const uint32_t flags = object_of_path(path, frame);

	for (uint32_t n = sample->n_objects; n; n--, object = next_object(object))
		if (object->part.kind == PART_OBJECT && (object->flags & ~OBJECT_IS_TEXT) == flags)
			return object;
	return NULL;
}

/* Translates a pointer into record `from` to the copy `to`. */
static const void *moved(const void *part, const void *from, const void *to)
{
	return part ? (const char *)to + ((const char *)part - (const char *)from) : NULL;
}

void sample__copy(const struct sample *sample, void *to, struct sample *ret)
{
	const void *from = sample->record;

	*ret = (struct sample){
		.record = memcpy(to, from, sample->record->header.size),
		.python = moved(sample->python, from, to),
		.native = moved(sample->native, from, to),
		.kernel = moved(sample->kernel, from, to),
		.stack = moved(sample->stack, from, to),
		.values = moved(sample->values, from, to),
		.objects = moved(sample->objects, from, to),
		.n_objects = sample->n_objects,
		.wait = moved(sample->wait, from, to),
	};
}

size_t part_string__bytes(const struct part_string *string)
{
	size_t room = string->part.size - sizeof(*string);
	uint64_t whole = (uint64_t)string->length * string->kind;

	return whole < room ? (size_t)whole : room - room % string->kind;
}
