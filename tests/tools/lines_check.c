/* SPDX-License-Identifier: MIT */
/* Decodes every line table that tests/live/lines_oracle.py writes to stdin, and
 * compares each code unit with what the interpreter said. The stream's form is
 * described there. Exit code 1 on any difference, or a stream without its end. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "name/lines.h"

enum { UNIT = 2, SHOWN = 20 };

struct code {
	uint32_t format, firstlineno, table_len, code_len, name_len;
};

struct expected {
	int32_t line, end_line, column, end_column;
};

struct totals {
	uint64_t passed, failed, units, cache_units, wrong_units;
};

static uint32_t or_zero(int32_t value)
{
	return value < 0 ? 0 : (uint32_t)value;
}

static struct position from_expected(const struct expected *expected)
{
	if (expected->line < 0)
		return (struct position){};
	return (struct position){
		.line = or_zero(expected->line),
		.end_line = or_zero(expected->end_line),
		.column = or_zero(expected->column + 1),
		.end_column = or_zero(expected->end_column + 1),
	};
}

static void show(const char *name, uint32_t offset, int err, const struct position *got,
		 const struct position *wanted)
{
	fprintf(stderr, "%s +%u: %u-%u %u-%u (%s), the interpreter says %u-%u %u-%u\n", name,
		offset, got->line, got->end_line, got->column, got->end_column,
		err ? strerror(-err) : "ok", wanted->line, wanted->end_line, wanted->column,
		wanted->end_column);
}

/* Also the first offset behind the code: tables end with it, but for co_lnotab. */
static bool ends_with_code(const struct code *code, const uint8_t *table)
{
	struct position position;
	int err = lines__position(code->format, table, code->table_len, code->firstlineno,
				  (int32_t)code->code_len, &position);

	return err == (code->format == PY_LINES_LNOTAB ? 0 : -ERANGE);
}

static void check_code(const struct code *code, const uint8_t *table, const char *name,
		       const struct expected *expected, const uint8_t *cache_units,
		       struct totals *totals)
{
	struct position instruction = {};
	uint64_t wrong = 0;

	for (uint32_t unit = 0; unit < code->code_len / UNIT; unit++) {
		struct position got, wanted = from_expected(&expected[unit]);
		int err = lines__position(code->format, table, code->table_len, code->firstlineno,
					  (int32_t)(unit * UNIT), &got);
		bool right = !err && !memcmp(&got, &wanted, sizeof got);

		totals->units++;
		if (!cache_units[unit]) {
			instruction = got;
		} else {
			totals->cache_units++;
			right = right && !memcmp(&got, &instruction, sizeof got);
		}
		if (right)
			continue;
		if (totals->wrong_units + wrong++ < SHOWN)
			show(name, unit * UNIT, err, &got, &wanted);
	}
	if (!ends_with_code(code, table)) {
		if (totals->wrong_units + wrong++ < SHOWN)
			fprintf(stderr, "%s: the table does not end with the code\n", name);
	}
	totals->wrong_units += wrong;
	if (wrong)
		totals->failed++;
	else
		totals->passed++;
}

/* A block of exactly `len` bytes, so that a sanitizer sees one too far. */
static void *read_block(size_t len)
{
	void *block = malloc(len ? len : 1);

	if (!block || fread(block, 1, len, stdin) != len) {
		free(block);
		return NULL;
	}
	return block;
}

static int read_code(const struct code *code, struct totals *totals)
{
	size_t units = code->code_len / UNIT;
	_cleanup_free_ uint8_t *table = read_block(code->table_len);
	_cleanup_free_ char *name = read_block(code->name_len);
	_cleanup_free_ char *printable = NULL;
	_cleanup_free_ struct expected *expected = read_block(units * sizeof *expected);
	_cleanup_free_ uint8_t *cache_units = read_block(units);

	if (!table || !name || !expected || !cache_units)
		return -EIO;
	printable = strndup(name, code->name_len);
	if (!printable)
		return -ENOMEM;
	check_code(code, table, printable, expected, cache_units, totals);
	return 0;
}

int main(void)
{
	struct totals totals = {};
	struct code code;

	for (;;) {
		if (fread(&code, sizeof code, 1, stdin) != 1)
			goto cut;
		if (!code.format)
			break;
		if (read_code(&code, &totals))
			goto cut;
	}
	printf("%" PRIu64 " passed, %" PRIu64 " failed, %u skipped (%" PRIu64
	       " code units, %" PRIu64 " of them inline caches, %" PRIu64 " wrong)\n",
	       totals.passed, totals.failed, code.firstlineno, totals.units, totals.cache_units,
	       totals.wrong_units);
	return totals.failed || !totals.passed;
cut:
	fprintf(stderr, "the stream ends in the middle, after %" PRIu64 " code objects\n",
		totals.passed + totals.failed);
	return 1;
}
