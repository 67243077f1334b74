/* SPDX-License-Identifier: MIT */
/* Builds records as the sampler would write them. Each function fills the caller's struct rec and returns its bytes. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "cprofd/loss.h"
#include "cprofd/record.h"

struct rec {
	_Alignas(8) char data[160 << 10];
	uint32_t size;
};

static inline struct record_task rec_task(uint32_t tgid, uint32_t tid, uint32_t exec,
					  uint64_t start, const char *comm)
{
	struct record_task task = {.tgid = tgid, .tid = tid, .exec = exec};

	task.process_start = start;
	task.thread_start = start;
	strncpy(task.comm, comm, sizeof(task.comm));
	return task;
}

static inline void *rec_begin(struct rec *rec, uint16_t kind, size_t fixed, uint64_t time,
			      const struct record_task *task)
{
	struct record_header *header = (void *)rec->data;

	memset(rec->data, 0, fixed);
	rec->size = (uint32_t)fixed;
	header->kind = kind;
	header->size = rec->size;
	header->time = time;
	header->task = *task;
	return header;
}

/* Room for a part with `bytes` behind its fixed part; the record grows by it. */
static inline void *rec_part(struct rec *rec, uint16_t kind, uint16_t loss, size_t fixed,
			     size_t bytes)
{
	struct record_part *part = (void *)(rec->data + rec->size);
	struct record_header *header = (void *)rec->data;
	uint32_t size = (uint32_t)((fixed + bytes + 7) & ~(size_t)7);

	memset(part, 0, size);
	part->kind = kind;
	part->loss = loss;
	part->size = size;
	rec->size += size;
	header->size = rec->size;
	if (header->kind == RECORD_SAMPLE)
		((struct record_sample *)header)->parts++;
	else
		((struct record_code *)header)->parts++;
	return part;
}

static inline struct record_sample *rec_sample(struct rec *rec, uint64_t time,
					       const struct record_task *task, uint64_t cpu_time)
{
	struct record_sample *sample = rec_begin(rec, RECORD_SAMPLE, sizeof(*sample), time, task);

	sample->cpu_time = cpu_time;
	return sample;
}

static inline void rec_frames(struct rec *rec, uint16_t loss, const struct py_frame *frames,
			      uint32_t n)
{
	struct part_py_frames *part =
		rec_part(rec, PART_PY_FRAMES, loss, sizeof(*part), n * sizeof(*frames));

	part->n = n;
	if (n)
		memcpy(part->frames, frames, n * sizeof(*frames));
}

static inline void rec_native(struct rec *rec, uint16_t loss, const uint64_t *pc, uint32_t n)
{
	struct part_native_frames *part =
		rec_part(rec, PART_NATIVE_FRAMES, loss, sizeof(*part), n * sizeof(*pc));

	part->n = n;
	part->flags = loss ? 0 : NATIVE_WHOLE;
	if (n)
		memcpy(part->pc, pc, n * sizeof(*pc));
}

static inline struct record_code *rec_code(struct rec *rec, uint64_t time,
					   const struct record_task *task, uint64_t key,
					   uint32_t first_line, uint32_t lines_total)
{
	struct record_code *code = rec_begin(rec, RECORD_CODE, sizeof(*code), time, task);

	code->key = key;
	code->first_line = first_line;
	code->lines_total = lines_total;
	return code;
}

/* `length` characters of `kind` bytes, `bytes` of which are there. */
static inline void rec_string_raw(struct rec *rec, uint16_t part_kind, const void *data,
				  uint32_t length, uint8_t kind, uint8_t ascii, size_t bytes)
{
	struct part_string *part = rec_part(rec, part_kind, 0, sizeof(*part), bytes);

	part->length = length;
	part->kind = kind;
	part->ascii = ascii;
	memcpy(part->data, data, bytes);
}

static inline void rec_string(struct rec *rec, uint16_t part_kind, const char *ascii)
{
	rec_string_raw(rec, part_kind, ascii, (uint32_t)strlen(ascii), 1, 1, strlen(ascii));
}

static inline void rec_lines(struct rec *rec, const uint8_t *table, uint32_t offset,
			     uint32_t length)
{
	struct part_bytes *part = rec_part(rec, PART_LINES, 0, sizeof(*part), length);

	part->offset = offset;
	part->length = length;
	if (length)
		memcpy(part->data, table + offset, length);
}

/* A whole code object with a PEP 626 table: offset 2i is line first_line + i. */
#define REC_LINES 32u
static const uint8_t rec_table[2 * REC_LINES] = {2, 0, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1,
						 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1,
						 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1,
						 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1};

static inline struct record_code *rec_code_whole(struct rec *rec, uint64_t time,
						 const struct record_task *task, uint64_t key,
						 const char *name, const char *file,
						 uint32_t first_line)
{
	struct record_code *code = rec_code(rec, time, task, key, first_line, sizeof(rec_table));

	rec_string(rec, PART_NAME, name);
	rec_string(rec, PART_FILE, file);
	rec_lines(rec, rec_table, 0, sizeof(rec_table));
	return code;
}

static inline struct record_event *rec_event(struct rec *rec, uint16_t kind, uint64_t time,
					     const struct record_task *task)
{
	return rec_begin(rec, kind, sizeof(struct record_event), time, task);
}

static inline struct record_fork *rec_fork(struct rec *rec, uint64_t time,
					   const struct record_task *child, uint32_t parent,
					   uint32_t parent_exec)
{
	struct record_fork *fork = rec_begin(rec, RECORD_FORK, sizeof(*fork), time, child);

	fork->parent_tgid = parent;
	fork->parent_exec = parent_exec;
	return fork;
}
