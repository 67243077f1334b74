/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Copies a code object at its first sight: names, file, first line, variables, line table. Part of sampler.bpf.c,
 * before its maps: a CPU's scratch memory holds what it works in. */
#pragma once

/* The record of the current code object while it is built, and how far a long line table was sent. */
#define CAPTURE_BYTES 65536u
struct capture {
	__u64 pending_key;    /* its line table is longer than one record: the next one continues at pending_offset */
	__u32 pending_offset;
	__u32 position;       /* bytes used in data */
	__u64 source;         /* of the current string */
	__u32 parts;
	__u32 incomplete;     /* something could not be read: try again at its next sample */
	/* The state of put_variable(). It is in memory because the verifier tracks values in registers and on the
	 * stack, and would walk through the loop once per value. */
	__u32 variables;      /* in all tuples so far */
	__u32 cells;          /* before 3.11: the kind of all names in this tuple */
	__u8 raw[64];
	__u8 kinds[RECORD_VARIABLES_MAX]; /* 3.11+: co_localspluskinds */
	__u8 data[CAPTURE_BYTES + 32768];
};

/* Copies one Python string as a part. 0, or 1: it could not be read. */
HOST_APART int put_string(struct capture *cap, const struct py_layout *l, __u16 kind, __u64 string, __u32 max)
{
	__u32 at, state, unit, padded;
	struct part_string *part;
	__u64 data, length, size; /* 64 bits: the verifier of 6.1 tracks no bounds through a 32-bit product */
	long err;

	if (!cap || !l)
		return 1;
	at = cap->position;
	if (!string || py_read_object(cap->raw, 64, string)) {
		cap->incomplete = 1;
		return 1;
	}
	length = py_u64(cap->raw, 64, l->unicode_length);
	state = py_u32(cap->raw, 64, l->unicode_state);
	unit = (state >> l->state_kind_shift) & 7;
	if (length >> 31 || (unit != 1 && unit != 2 && unit != 4))
		return 1;
	host_barrier(at); /* so that the checked register is the one that is used */
	if (at > CAPTURE_BYTES)
		return 1;
	part = (struct part_string *)(cap->data + at);
	part->kind = unit;
	part->ascii = (state >> l->state_ascii_shift) & 1;
	part->variable = 0;
	part->length = length;
	data = string + (part->ascii ? l->unicode_ascii_data : l->unicode_compact_data);
	size = length > max ? max : length;
	size *= unit;
	if (size > max)
		size = max;
	host_barrier(size);
	if (size > RECORD_STRING_MAX)
		return 1;
	err = size ? bpf_probe_read_user(part->data, size, (void *)data) : 0;
	if (err) {
		cap->incomplete = 1;
		return 1;
	}
	padded = (size + 7) & ~7u;
	part->part.kind = kind;
	part->part.loss = 0;
	part->part.size = sizeof(*part) + padded;
	cap->position = at + sizeof(*part) + padded;
	cap->parts++;
	return 0;
}

struct variables_context {
	struct capture *cap;
	const struct py_layout *l;
	__u64 items;
};
#define CO_FAST_LOCAL 0x20u /* of a cell: an argument, since other locals in cells are none of co_varnames (compute_localsplus_info) */
#define CO_FAST_CELLS 0xc0u /* CO_FAST_CELL | CO_FAST_FREE (pycore_code.h) */

static long put_variable(__u32 i, void *context)
{
	struct variables_context *v = context;
	struct part_string *part;
	__u32 at = v->cap->position, kind;
	__u64 name = 0;

	if (v->cap->variables >= RECORD_VARIABLES_MAX)
		return 1;
	if (bpf_probe_read_user(&name, 8, (void *)(v->items + (__u64)i * 8))) {
		v->cap->incomplete = 1;
		return 1;
	}
	if (put_string(v->cap, v->l, PART_NAME, name, RECORD_VARIABLE_MAX))
		return 1;
	host_barrier(at);
	if (at > CAPTURE_BYTES)
		return 1;
	part = (struct part_string *)(v->cap->data + at);
	kind = v->cap->kinds[i & (RECORD_VARIABLES_MAX - 1)] | v->cap->cells;
	part->variable = kind & CO_FAST_CELLS ? VARIABLE_CELL | (kind & CO_FAST_LOCAL ? VARIABLE_ARGUMENT : 0) : 0;
	v->cap->variables++;
	return 0;
}

/* Appends the names of a tuple; returns its size. */
static __always_inline __u32 put_names(struct variables_context *v, __u64 tuple)
{
	__u64 size = 0;
	__u32 n;

	if (!tuple || bpf_probe_read_user(&size, 8, (void *)(tuple + v->l->var_size)) || size >> 31) {
		v->cap->incomplete = 1;
		return 0;
	}
	n = size;
	v->items = tuple + v->l->tuple_items;
	host_loop_rare(n < RECORD_VARIABLES_MAX ? n : RECORD_VARIABLES_MAX, put_variable, v);
	return n;
}

/* Reads co_localspluskinds: one byte per name. */
static __always_inline void put_kinds(struct capture *cap, const struct py_layout *l, __u64 bytes)
{
	__u64 size = 0;

	bpf_probe_read_user(&size, 8, (void *)(bytes + l->var_size));
	if (size > sizeof(cap->kinds))
		size = sizeof(cap->kinds);
	host_barrier(size);
	if (size > sizeof(cap->kinds) || bpf_probe_read_user(cap->kinds, size, (void *)(bytes + l->bytes_data)))
		cap->incomplete = 1;
}

/* Relies on the order of members: co_localspluskinds follows co_localsplusnames, and co_freevars and co_cellvars
 * follow co_varnames (tools/offsets/probe.c asserts it). */
static __always_inline void put_variables(struct capture *cap, const struct py_layout *l, const __u8 *code)
{
	struct variables_context v = {.cap = cap, .l = l};
	__u64 tuple = py_u64(code, PY_RAW_CODE, l->code_varnames),
	      beside = py_u64(code, PY_RAW_CODE, l->code_varnames + 8);
	__u32 at = cap->position, parts = cap->parts, total, before = cap->incomplete;
	struct part_variables *part;

	if (at > CAPTURE_BYTES - 4096)
		return;
	part = (struct part_variables *)(cap->data + at);
	part->part.kind = PART_VARIABLES;
	cap->incomplete = 0;
	cap->variables = cap->cells = 0;
	cap->position = at + sizeof(*part);
	if (l->frames == PY_FRAMES_OBJECTS) {
		__builtin_memset(cap->kinds, 0, sizeof(cap->kinds));
		total = put_names(&v, tuple);
		cap->cells = CO_FAST_CELLS;
		total += put_names(&v, py_u64(code, PY_RAW_CODE, l->code_varnames + 16));
		total += put_names(&v, beside);
	} else {
		put_kinds(cap, l, beside);
		total = put_names(&v, tuple);
	}
	part->n = cap->variables;
	part->total = total;
	part->part.loss = cap->incomplete ? LOSS_PAGE_FAULT : 0;
	cap->incomplete |= before;
	part->part.size = cap->position - at;
	cap->parts = parts + 1;
}

/* Copies a piece of the line table, from `offset`; returns how many bytes are left after it. */
static __always_inline __u32 put_lines(struct capture *cap, const struct py_layout *l, __u64 table,
				       __u32 total, __u32 offset)
{
	__u32 at = cap->position, size, padded;
	struct part_bytes *part;

	if (at > CAPTURE_BYTES || offset > total)
		return 0;
	size = total - offset;
	if (size > RECORD_LINES_MAX)
		size = RECORD_LINES_MAX;
	host_barrier(size);
	if (size > RECORD_LINES_MAX)
		return 0;
	part = (struct part_bytes *)(cap->data + at);
	if (size && bpf_probe_read_user(part->data, size, (void *)(table + l->bytes_data + offset))) {
		cap->incomplete = 1;
		return total - offset;
	}
	padded = (size + 7) & ~7u;
	part->part.kind = PART_LINES;
	part->part.loss = 0;
	part->part.size = sizeof(*part) + padded;
	part->offset = offset;
	part->length = size;
	cap->position = at + sizeof(*part) + padded;
	cap->parts++;
	return total - offset - size;
}

struct capture_context {
	struct py_walk *walk;
	const struct image *image;
	struct capture *cap;
	struct sampler_counts *counts;
	const struct record_header *tick; /* of the sample: time, cpu and task */
};

/* Sends the code object todo[i]. */
static long capture_code(__u32 i, void *context)
{
	struct capture_context *c = context;
	struct py_walk *walk = c->walk;
	struct capture *cap = c->cap;
	const struct py_layout *l = &c->image->layout;
	struct record_code *record = (struct record_code *)cap->data;
	struct py_todo *todo;
	__u64 code, key, name, qualname, table, size = 0;
	__u32 offset = 0, left, length;

	if (i >= RECORD_CODES_PER_TICK)
		return 1;
	todo = &walk->todo[i];
	code = todo->code;
	key = todo->key;
	if (py_read_object(walk->code, PY_RAW_CODE, code)) {
		count_loss(c->counts, LOSS_CODE_READ);
		return 0;
	}
	cap->position = sizeof(*record);
	cap->parts = 0;
	cap->incomplete = 0;
	table = py_u64(walk->code, PY_RAW_CODE, l->code_linetable);
	if (!table || bpf_probe_read_user(&size, 8, (void *)(table + l->var_size)) || size >> 31) {
		cap->incomplete = 1;
		size = 0;
	}
	record->key = key;
	record->address = code;
	record->first_line = py_u32(walk->code, PY_RAW_CODE, l->code_firstlineno);
	record->code_flags = py_u32(walk->code, PY_RAW_CODE, l->code_flags);
	record->arg_count = py_u32(walk->code, PY_RAW_CODE, l->code_argcount);
	record->lines_total = size;
	if (l->frames == PY_FRAMES_OBJECTS) {
		__u64 bytes = 0;

		bpf_probe_read_user(&bytes, 8,
				    (void *)(py_u64(walk->code, PY_RAW_CODE, l->code_instructions) +
					     l->var_size));
		record->code_size = bytes;
	} else {
		record->code_size = 2 * py_u32(walk->code, PY_RAW_CODE, l->var_size);
	}
	if (cap->pending_key == key) {
		offset = cap->pending_offset;
	} else {
		name = py_u64(walk->code, PY_RAW_CODE, l->code_name);
		put_string(cap, l, PART_NAME, name, RECORD_STRING_MAX);
		if (l->code_qualname != PY_ABSENT) {
			qualname = py_u64(walk->code, PY_RAW_CODE, l->code_qualname);
			if (qualname != name)
				put_string(cap, l, PART_QUALNAME, qualname, RECORD_STRING_MAX);
		}
		put_string(cap, l, PART_FILE, py_u64(walk->code, PY_RAW_CODE, l->code_filename),
			   RECORD_STRING_MAX);
		put_variables(cap, l, walk->code);
	}
	left = put_lines(cap, l, table, size, offset);
	record->parts = cap->parts;
	length = cap->position;
	host_barrier(length);
	if (length > CAPTURE_BYTES)
		return 0;
	record->header = *c->tick;
	record->header.kind = RECORD_CODE;
	record->header.size = length;
	if (bpf_ringbuf_output(&ring, cap->data, length, BPF_RB_NO_WAKEUP)) {
		count_loss(c->counts, LOSS_CAPTURE_LIMIT); /* tried again at its next sample */
		return 0;
	}
	c->counts->captures++;
	c->counts->bytes += length;
	if (cap->incomplete) {
		count_loss(c->counts, LOSS_PAGE_FAULT);
		return 0;
	}
	if (left) {
		/* The rest is sent when this CPU samples the code object again. */
		cap->pending_key = key;
		cap->pending_offset = size - left;
		return 0;
	}
	if (cap->pending_key == key)
		cap->pending_key = 0;
	seen_add(key);
	return 0;
}
