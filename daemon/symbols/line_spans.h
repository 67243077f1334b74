/* SPDX-License-Identifier: MIT */
/* Lines of units that were asked about once: all their functions, as spans of addresses. One more address of such a
 * unit then needs no debug information (if that is packed, each question unpacks some 100 KB). Of a unit that is too
 * large the functions that were asked about are kept, each whole.
 *
 *    function [0x1000,0x1040)   rows      0x1000 line 10   0x1008 line 11   0x1010 strlen.h:5   0x1020 line 12
 *                               inlined   strlen, called in line 11, [0x1010,0x1020)
 *                               spans     0x1000 line 10   0x1008 line 11   0x1020 line 12
 *
 * Spans are some four bytes each: what differs from the span before. They stand in blocks of at most
 * LINE_SPANS_BLOCK, which are sorted by address, so a question costs a binary search and a walk over one block.
 *
 * Owner: struct lines. Strings live until the next line_spans__keep...(). Threads: one. Bounded: when they are full,
 * all are dropped and the collection begins again. */
#pragma once

#include "base/arena.h"
#include "symbols/symbols.h"
#include "symbols/dwarf.h"

#define LINE_SPANS_BYTES_MAX (4u << 20)
#define LINE_SPANS_BLOCKS_MAX (1u << 17)
#define LINE_SPANS_FILES_MAX 2048u
#define LINE_SPANS_UNITS_MAX 2048u
#define LINE_SPANS_BLOCK 64u        /* spans */
#define LINE_SPANS_ROWS_MAX (1u << 16) /* of a unit that is kept whole */

/* Code and where in `bytes` its spans are. */
struct line_block {
	uint64_t start;
	uint32_t size;
	uint32_t at; /* UINT32_MAX: they could not be made, and are not tried again */
};

struct line_spans {
	struct line_block *blocks; /* sorted by start */
	uint32_t n_blocks, blocks_capacity;
	struct buf bytes;
	const char *files[LINE_SPANS_FILES_MAX];
	uint32_t n_files;
	struct arena strings;
	uint64_t units[LINE_SPANS_UNITS_MAX]; /* those that are here whole, by their offset */
	uint32_t n_units;
	bool changed; /* since line_spans__unpack() */
};

/* What the DIEs and rows of a function are read with. */
struct line_unit {
	const struct dwarf_unit *unit;
	const struct dwarf_abbrevs *abbrevs;
	const struct dwarf_lines *table;
};

void line_spans__free(struct line_spans *spans); /* what it holds */
/* False: it is in none of them. */
bool line_spans__find(const struct line_spans *spans, uint64_t vaddr, struct source_line *ret);
/* Code [start, end) of the function at `die` (0: of none). */
struct line_function {
	uint64_t start, end, die;
};
/* Code whose rows are not of one sequence is not kept. */
void line_spans__keep(struct line_spans *spans, const struct line_unit *of, const struct line_function *function);
/* All functions of the unit. False: it is too large. */
bool line_spans__keep_unit(struct line_spans *spans, const struct line_unit *of, const struct line_function *functions, uint32_t n);

/* What is known of one address that is in no function which was kept. line->file may be NULL and line->line 0: there
 * is nothing to know, and that is kept, too. */
void line_spans__keep_one(struct line_spans *spans, uint64_t vaddr, const struct source_line *line);

/* As bytes that line_spans__unpack() takes, appended. -ENOMEM. */
int line_spans__pack(const struct line_spans *spans, struct buf *to);
/* Into what is empty. -EBADMSG: they do not fit together; -ENOMEM. */
int line_spans__unpack(struct line_spans *spans, const void *data, size_t len);
