/* SPDX-License-Identifier: MIT */
/* The table of lines that compilers are at: each (line inside of a line) has one row an epoch. */
#include <errno.h>
#include <stdlib.h>

#include "units/internal.h"

/* Rows of one event: bounds the length of a line of the stream. */
#define LINES_A_LINE 512u

static uint64_t hash_of(const struct units *units, const struct line *line)
{
	return hash__pair(&units->seed, (uint64_t)line->parent << 32 | line->depth, (uint64_t)line->file << 32 | line->number);
}

static bool hash_line(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct units *units = holder;

	*ret = hash_of(units, &units->lines[i]);
	return true;
}

static bool is_line(const struct line *a, const struct line *b)
{
	return a->parent == b->parent && a->depth == b->depth && a->file == b->file && a->number == b->number;
}

uint32_t unit_lines__id(struct units *units, uint32_t parent, uint32_t depth, uint32_t file, uint32_t number)
{
	const struct line line = {parent, depth, number, file};
	uint32_t at;

	if (!number)
		return parent;
	at = SLOTS_FIND(&units->by_line, i, hash_of(units, &line), is_line(&units->lines[i], &line));
	if (at != SLOTS_NONE)
		return at + 1;
	if (units->n_lines >= UNITS_EPOCH_MAX ||
	    SLOTS_ADD(&units->by_line, hash_line, units, units->lines, units->n_lines, units->lines_capacity, line))
		return parent;
	return units->n_lines;
}

uint32_t unit_lines__of_text(struct units *units, uint32_t parent, uint32_t depth, uint32_t file, uint32_t text)
{
	const char *at = texts__get(&units->texts, text);
	int64_t number = 0;
	char *end;

	do {
		const long part = strtol(at, &end, 10);

		if (end == at || part < INT32_MIN || part > INT32_MAX)
			return parent;
		number += part;
		at = end + 1;
	} while (*end == '+');
	return unit_lines__id(units, parent, depth, file, number > 0 && number <= INT32_MAX ? (uint32_t)number : 0);
}

int unit_lines__emit(const struct units *units, uint32_t first, struct event_sink *sink)
{
	struct source_line_row rows[LINES_A_LINE];
	uint32_t n;
	int err = 0;

	for (; !err && first <= units->n_lines; first += n) {
		for (n = 0; n < LINES_A_LINE && first + n <= units->n_lines; n++) {
			const struct line *line = &units->lines[first + n - 1];

			rows[n] = (struct source_line_row){line->parent, line->depth, texts__get(&units->texts, line->file), line->number};
		}
		err = sink->event(sink, &(struct event){.kind = EVENT_LINES, .rows = {.first = first, .n = n, .rows = rows}});
	}
	return err;
}

void unit_lines__clear(struct units *units)
{
	units->n_lines = units->emitted_lines = 0;
	slots__clear(&units->by_line);
}

void unit_lines__free(struct units *units)
{
	free(units->by_line.slots);
	free(units->lines);
}
