/* SPDX-License-Identifier: MIT */
/* A code object as the sampler sends it, read from user space: for threads that sleep, of which no tick tells. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "collect/collect.h"
#include "serve/engine.h"

#define CO_FAST_CELLS 0xc0 /* CO_FAST_CELL | CO_FAST_FREE: pycore_code.h, 3.11+ */

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

static int put_string(struct buf *out, struct host_reader *memory, const struct py_layout *l, uint16_t kind, uint64_t string, uint64_t most,
		      uint16_t variable)
{
	uint64_t length = word(memory, string + l->unicode_length), size;
	uint32_t state = half(memory, string + l->unicode_state);
	struct part_string part = {.kind = state >> l->state_kind_shift & 7, .ascii = state >> l->state_ascii_shift & 1, .variable = variable};
	char bytes[RECORD_STRING_MAX];

	if (!string || length >> 31 || (part.kind != 1 && part.kind != 2 && part.kind != 4))
		return -EFAULT;
	size = length * part.kind < most ? length * part.kind : most;
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

/* --- names of variables: as bpf/capture.h has them --- */

struct variables {
	struct buf *out;
	struct host_reader *memory;
	const struct py_layout *layout;
	struct part_variables part;
	uint8_t kinds[RECORD_VARIABLES_MAX]; /* 3.11+: co_localspluskinds */
};

static int put_names(struct variables *v, uint64_t tuple, uint8_t cells)
{
	uint64_t n = tuple ? word(v->memory, tuple + v->layout->var_size) : 0, i;
	int err = 0;

	v->part.total += (uint32_t)n;
	for (i = 0; i < n && !err && v->part.n < RECORD_VARIABLES_MAX; i++) {
		uint8_t kind = i < RECORD_VARIABLES_MAX ? v->kinds[i] | cells : cells;

		err = put_string(v->out, v->memory, v->layout, PART_NAME, word(v->memory, tuple + v->layout->tuple_items + 8 * i),
				 RECORD_VARIABLE_MAX, kind & CO_FAST_CELLS ? VARIABLE_CELL : 0);
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
	if (err) { /* without them */
		out->len = at;
		return err;
	}
	v.part.part.size = (uint32_t)(out->len - at);
	memcpy(out->data + at, &v.part, sizeof(v.part));
	return 0;
}

int code_record__emit(struct session *session, struct host_reader *memory, const struct py_layout *l, const struct record_header *of,
		      uint64_t key, uint64_t code)
{
	uint64_t table = word(memory, code + l->code_linetable), lines = word(memory, table + l->var_size);
	struct record_code record = {.header = *of, .key = key, .address = code,
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
	record.parts += !put_string(&out, memory, l, PART_NAME, name, RECORD_STRING_MAX, 0);
	if (qualname != name)
		record.parts += !put_string(&out, memory, l, PART_QUALNAME, qualname, RECORD_STRING_MAX, 0);
	record.parts += !put_string(&out, memory, l, PART_FILE, word(memory, code + l->code_filename), RECORD_STRING_MAX, 0);
	record.parts += !put_variables(&out, memory, l, code);
	record.parts += !put_lines(&out, memory, l, table,
				   record.lines_total < RECORD_LINES_MAX ? record.lines_total : RECORD_LINES_MAX);
	if (err || out.failed)
		return -ENOMEM;
	record.header.kind = RECORD_CODE;
	record.header.size = (uint32_t)out.len;
	memcpy(out.data, &record, sizeof(record));
	if (record__check(out.data, out.len))
		return 0;
	session_units__code(session, (const void *)out.data);
	return profile__code(session->profile, (const void *)out.data);
}
