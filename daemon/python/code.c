/* SPDX-License-Identifier: MIT */
/* Reads code objects: name, file, line at an offset; and the whole object as a RECORD_CODE. The sampler sends such
 * records from ticks; for threads that sleep there is no tick, so the engine makes the same record here. */
#include "python/code.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "name/lines.h"
#include "python/object.h"

#define CO_FAST_LOCAL 0x20 /* pycore_code.h, 3.11+ */
#define CO_FAST_CELLS 0xc0 /* CO_FAST_CELL | CO_FAST_FREE */
#define LINES_MAX (1u << 20)

/* 0 as well if it cannot be read: an address of 0 then fails at its own read. */
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

/* --- names and lines --- */

int python_code__name(struct values *values, uint64_t code, struct buf *ret)
{
	const struct py_layout *l = values->layout;
	int err = -ENODATA;

	if (l->code_qualname != PY_ABSENT)
		err = object__put_text(values, word(values->memory, code + l->code_qualname), ret);
	return err && err != -ENOMEM ? object__put_text(values, word(values->memory, code + l->code_name), ret) : err;
}

int python_code__file(struct values *values, uint64_t code, struct buf *ret)
{
	return object__put_text(values, word(values->memory, code + values->layout->code_filename), ret);
}

/* Reads the whole table, up to LINES_MAX bytes: where the entry of `offset` is, only decoding shows. */
uint32_t python_code__line(struct values *values, uint64_t code, int32_t offset)
{
	const struct py_layout *l = values->layout;
	struct host_reader *memory = values->memory;
	uint64_t table = word(memory, code + l->code_linetable), len = word(memory, table + l->var_size);
	_cleanup_free_ char *bytes = table && len <= LINES_MAX ? malloc(len + 1) : NULL;
	struct position position;

	if (!bytes || memory->read(memory, bytes, len, table + l->bytes_data) ||
	    lines__position(l->lines, bytes, len, half(memory, code + l->code_firstlineno), offset, &position))
		return 0;
	return position.line;
}

/* --- as a record --- */

static int pad(struct buf *out)
{
	static const char zeros[8];

	return buf__append(out, zeros, -out->len % 8);
}

/* A str as a part_string, padded to 8 bytes; at most `most` bytes of it. -EFAULT: not readable, nothing was
 * appended. */
static int put_string(struct buf *out, struct host_reader *memory, const struct py_layout *l, uint16_t kind, uint64_t string, uint64_t most,
		      uint16_t variable)
{
	struct values values = {.memory = memory, .layout = l};
	struct part_string part = {.variable = variable};
	char bytes[RECORD_STRING_MAX];
	struct object_text text;
	uint64_t size;

	if (object__text(&values, string, &text) || text.length >> 31)
		return -EFAULT;
	size = text.length * text.kind < most ? text.length * text.kind : most;
	if (memory->read(memory, bytes, size, text.data))
		return -EFAULT;
	part.kind = text.kind;
	part.ascii = text.ascii;
	part.length = (uint32_t)text.length;
	part.part = (struct record_part){.kind = kind, .size = (uint32_t)(sizeof(part) + ((size + 7) & ~7ull))};
	return buf__append(out, &part, sizeof(part)) ?: buf__append(out, bytes, size) ?: pad(out);
}

/* The begin of the line table as one part_bytes. What is behind RECORD_LINES_MAX is missing: the record's
 * lines_total shows that. */
static int put_lines(struct buf *out, struct host_reader *memory, const struct py_layout *l, uint64_t table, uint32_t size)
{
	struct part_bytes part = {.part.kind = PART_LINES, .length = size};
	char bytes[RECORD_LINES_MAX];

	if (!size || memory->read(memory, bytes, size, table + l->bytes_data))
		return -EFAULT;
	part.part.size = (uint32_t)(sizeof(part) + ((size + 7) & ~7u));
	return buf__append(out, &part, sizeof(part)) ?: buf__append(out, bytes, size) ?: pad(out);
}

/* --- names of variables, in the format of bpf/capture.h --- */

struct variables {
	struct buf *out;
	struct host_reader *memory;
	const struct py_layout *layout;
	struct part_variables part;
	uint8_t kinds[RECORD_VARIABLES_MAX]; /* 3.11+: co_localspluskinds */
};

/* Appends the names in a tuple. `cells`: all are cell variables (up to 3.10, where these have tuples of their own). */
static int put_names(struct variables *v, uint64_t tuple, uint8_t cells)
{
	uint64_t n = tuple ? word(v->memory, tuple + v->layout->var_size) : 0, i;
	int err = 0;

	v->part.total += (uint32_t)n;
	for (i = 0; i < n && !err && v->part.n < RECORD_VARIABLES_MAX; i++) {
		uint8_t kind = i < RECORD_VARIABLES_MAX ? v->kinds[i] | cells : cells;

		err = put_string(v->out, v->memory, v->layout, PART_NAME, word(v->memory, tuple + v->layout->tuple_items + 8 * i),
				 RECORD_VARIABLE_MAX, kind & CO_FAST_CELLS ? VARIABLE_CELL | (kind & CO_FAST_LOCAL ? VARIABLE_ARGUMENT : 0) : 0);
		v->part.n += !err;
	}
	return err;
}

static int put_variables(struct buf *out, struct host_reader *memory, const struct py_layout *l, uint64_t code)
{
	struct variables v = {.out = out, .memory = memory, .layout = l, .part.part.kind = PART_VARIABLES};
	uint64_t names = word(memory, code + l->code_varnames), beside = word(memory, code + l->code_varnames + 8), n;
	size_t at = out->len;
	int err = buf__append(out, &v.part, sizeof(v.part));

	if (err)
		return err;
	if (l->frames == PY_FRAMES_OBJECTS) {
		err = put_names(&v, names, 0) ?: put_names(&v, word(memory, code + l->code_varnames + 16), CO_FAST_CELLS);
		err = err ?: put_names(&v, beside, CO_FAST_CELLS);
	} else {
		n = word(memory, beside + l->var_size);
		n = n < sizeof(v.kinds) ? n : sizeof(v.kinds);
		err = memory->read(memory, v.kinds, n, beside + l->bytes_data) ?: put_names(&v, names, 0);
	}
	if (err) { /* leave the part out */
		out->len = at;
		return err;
	}
	v.part.part.size = (uint32_t)(out->len - at);
	memcpy(out->data + at, &v.part, sizeof(v.part));
	return 0;
}

/* Bytes of bytecode: up to 3.10 a bytes object beside the code object; since 3.11 inline, counted in units of 2 bytes.
 * */
static uint32_t code_size(struct host_reader *memory, const struct py_layout *l, uint64_t code)
{
	if (l->frames == PY_FRAMES_OBJECTS)
		return (uint32_t)word(memory, word(memory, code + l->code_instructions) + l->var_size);
	return 2 * half(memory, code + l->var_size);
}

int python_code__record(struct host_reader *memory, const struct py_layout *l, const struct record_header *of, uint64_t key, uint64_t code,
			struct buf *ret)
{
	uint64_t table = word(memory, code + l->code_linetable), lines = word(memory, table + l->var_size);
	struct record_code record = {.header = *of, .key = key, .address = code,
				     .first_line = half(memory, code + l->code_firstlineno),
				     .code_flags = half(memory, code + l->code_flags),
				     .arg_count = half(memory, code + l->code_argcount),
				     .lines_total = lines >> 31 ? 0 : (uint32_t)lines,
				     .code_size = code_size(memory, l, code)};
	uint64_t name = word(memory, code + l->code_name), qualname = name;
	int err = buf__append(ret, &record, sizeof(record));

	if (l->code_qualname != PY_ABSENT)
		qualname = word(memory, code + l->code_qualname);
	record.parts += !put_string(ret, memory, l, PART_NAME, name, RECORD_STRING_MAX, 0);
	if (qualname != name)
		record.parts += !put_string(ret, memory, l, PART_QUALNAME, qualname, RECORD_STRING_MAX, 0);
	record.parts += !put_string(ret, memory, l, PART_FILE, word(memory, code + l->code_filename), RECORD_STRING_MAX, 0);
	record.parts += !put_variables(ret, memory, l, code);
	record.parts += !put_lines(ret, memory, l, table, record.lines_total < RECORD_LINES_MAX ? record.lines_total : RECORD_LINES_MAX);
	if (err || ret->failed)
		return -ENOMEM;
	record.header.kind = RECORD_CODE;
	record.header.size = (uint32_t)ret->len;
	memcpy(ret->data, &record, sizeof(record));
	return 0;
}
