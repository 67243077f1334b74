/* SPDX-License-Identifier: MIT */
/* Decoders of the three formats. Each reads from the start up to the entry that contains the offset, and nothing after
 * it.
 *
 *	lnotab     (u8 bytes, s8 lines): the line changes *after* the bytes; the
 *	           last line has no end. lnotab_notes.txt of 3.8.
 *	linetable  (u8 bytes, s8 lines): the line changes *before* the bytes;
 *	           -128 is "no line" for these bytes alone. lnotab_notes.txt of 3.10.
 *	locations  one head byte 1ccccnnn (c: form, n: code units - 1), then operand
 *	           bytes with the top bit clear. InternalDocs/code_objects.md.
 *
 * Line numbers are added modulo 2^32, as the interpreter's `int` does in practice: a table may go below zero and back.
 * A result below zero is no line.
 */
#include "name/lines.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>

/* Head codes of a location entry (_PyCodeLocationInfoKind); below: short form,
 * the code being the start column / 8. */
#define LOCATION_ONE_LINE 10 /* 10, 11, 12: 0, 1, 2 lines further */
#define LOCATION_NO_COLUMNS 13
#define LOCATION_LONG 14
#define LOCATION_NONE 15

#define CODE_UNIT 2 /* sizeof(_Py_CODEUNIT) */
#define NO_LINE INT8_MIN

/* A decoder's place in the table. Tables have no index, so each question begins at the front: O(size). */
struct table {
	const uint8_t *next, *end;
	uint32_t line; /* of the last span that has one */
};

/* The answer for a run of instructions, before it is checked. */
struct span {
	uint32_t line, end_line;
	uint32_t column, end_column; /* from 1; 0: unknown */
	bool has_line;
};

static int table__operand(struct table *table, uint32_t *ret)
{
	/* A byte with the top bit set begins the next entry: this one is too short. */
	if (table->next == table->end || *table->next & 0x80)
		return -EBADMSG;
	*ret = *table->next++;
	return 0;
}

/* Chunks of 6 bits, least significant first; bit 6: more follow. */
static int table__varint(struct table *table, uint32_t *ret)
{
	uint32_t value = 0, byte;

	for (unsigned shift = 0; shift < 32; shift += 6) {
		if (table__operand(table, &byte))
			return -EBADMSG;
		if (shift == 30 && byte & 0x3c)
			return -EBADMSG;
		value |= (byte & 0x3f) << shift;
		if (!(byte & 0x40)) {
			*ret = value;
			return 0;
		}
	}
	return -EBADMSG;
}

/* A signed varint: the sign is the lowest bit; "-0" exists and is 0. */
static int table__line_delta(struct table *table)
{
	uint32_t value;

	if (table__varint(table, &value))
		return -EBADMSG;
	table->line += value & 1 ? 0 - (value >> 1) : value >> 1;
	return 0;
}

static int table__long_form(struct table *table, struct span *ret)
{
	uint32_t lines;

	/* Columns are stored as in struct span: from 1, 0: unknown. */
	if (table__line_delta(table) || table__varint(table, &lines) ||
	    table__varint(table, &ret->column) || table__varint(table, &ret->end_column))
		return -EBADMSG;
	ret->line = table->line;
	ret->end_line = table->line + lines;
	return 0;
}

static int table__one_line_form(struct table *table, unsigned lines, struct span *ret)
{
	uint32_t column, end_column;

	if (table__operand(table, &column) || table__operand(table, &end_column))
		return -EBADMSG;
	table->line += lines;
	ret->line = ret->end_line = table->line;
	ret->column = column + 1;
	ret->end_column = end_column + 1;
	return 0;
}

/* Codes 0 to 9: the same line; the code and the upper 4 bits of the operand are the column, the lower 4 the width. */
static int table__short_form(struct table *table, unsigned code, struct span *ret)
{
	uint32_t byte;

	if (table__operand(table, &byte))
		return -EBADMSG;
	ret->line = ret->end_line = table->line;
	ret->column = (code << 3 | byte >> 4) + 1;
	ret->end_column = ret->column + (byte & 0xf);
	return 0;
}

static int table__location(struct table *table, unsigned code, struct span *ret)
{
	*ret = (struct span){.has_line = code != LOCATION_NONE};
	switch (code) {
	case LOCATION_NONE:
		return 0;
	case LOCATION_LONG:
		return table__long_form(table, ret);
	case LOCATION_NO_COLUMNS:
		if (table__line_delta(table))
			return -EBADMSG;
		ret->line = ret->end_line = table->line;
		return 0;
	case LOCATION_ONE_LINE ... LOCATION_ONE_LINE + 2:
		return table__one_line_form(table, code - LOCATION_ONE_LINE, ret);
	default:
		return table__short_form(table, code, ret);
	}
}

static int locations__position(struct table table, size_t offset, struct span *ret)
{
	/* Grows by at most 16 per byte of the table, so it cannot overflow. */
	uint64_t end = 0;

	while (table.next < table.end) {
		uint8_t head = *table.next++;

		if (!(head & 0x80))
			return -EBADMSG;
		if (table__location(&table, head >> 3 & 0xf, ret))
			return -EBADMSG;
		end += ((head & 7u) + 1) * CODE_UNIT;
		if (offset < end)
			return 0;
	}
	return -ERANGE;
}

/* The first entry whose end is behind the offset. A trailing odd byte is a damaged table. */
static int linetable__position(struct table table, size_t offset, struct span *ret)
{
	uint64_t end = 0;

	while (table.end - table.next >= 2) {
		int8_t lines = (int8_t)table.next[1];

		end += table.next[0];
		table.next += 2;
		if (lines != NO_LINE)
			table.line += (uint32_t)lines;
		if (offset < end) {
			*ret = (struct span){
				.line = table.line,
				.end_line = table.line,
				.has_line = lines != NO_LINE,
			};
			return 0;
		}
	}
	return table.next < table.end ? -EBADMSG : -ERANGE;
}

/* No -ERANGE: the last line has no end, so every offset behind it has that line. */
static int lnotab__position(struct table table, size_t offset, struct span *ret)
{
	uint64_t start = 0;

	for (; table.end - table.next >= 2; table.next += 2) {
		start += table.next[0];
		if (start > offset)
			break;
		table.line += (uint32_t)(int8_t)table.next[1];
	}
	if (table.end - table.next == 1)
		return -EBADMSG;
	*ret = (struct span){.line = table.line, .end_line = table.line, .has_line = true};
	return 0;
}

int lines__position(enum py_lines format, const void *data, size_t len, uint32_t firstlineno,
		    int32_t offset, struct position *ret)
{
	/* NULL + 0 is undefined in C17, and an empty table may be NULL. */
	struct table table = {.next = data, .end = data, .line = firstlineno};
	struct span span = {};
	int err;

	*ret = (struct position){};
	if (offset < 0) {
		ret->line = ret->end_line = firstlineno;
		return 0;
	}
	if (len)
		table.end += len;
	switch (format) {
	case PY_LINES_LNOTAB:
		err = lnotab__position(table, (size_t)offset, &span);
		break;
	case PY_LINES_LINETABLE:
		err = linetable__position(table, (size_t)offset, &span);
		break;
	case PY_LINES_LOCATIONS:
		err = locations__position(table, (size_t)offset, &span);
		break;
	default:
		err = -EBADMSG;
	}
	if (err)
		return err;
	if (!span.has_line || span.line > INT_MAX)
		return 0;
	ret->line = span.line;
	ret->end_line = span.end_line <= INT_MAX ? span.end_line : 0;
	ret->column = span.column;
	ret->end_column = span.end_column;
	return 0;
}
