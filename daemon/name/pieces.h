/* SPDX-License-Identifier: MIT */
/* Which bytes of a line table have arrived? A set of ranges; pieces come in any order, perhaps repeatedly. Private
 * to daemon/name/.
 *
 * Pieces come mostly in order, so there is one range most of the time. The array is fixed: a target cannot make it
 * grow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The longest table that is kept has 64 pieces of RECORD_LINES_MAX. */
#define PIECES_MAX 64

struct code_pieces {
	unsigned n;
	struct {
		uint32_t from, to;
	} range[PIECES_MAX]; /* sorted, with gaps between them */
};

/* Adds [from, to), merged with ranges that it touches. If there is no room, it is dropped: the piece may come again. */
static inline void pieces__add(struct code_pieces *pieces, uint32_t from, uint32_t to)
{
	unsigned first = 0, last;

	while (first < pieces->n && pieces->range[first].to < from)
		first++;
	for (last = first; last < pieces->n && pieces->range[last].from <= to; last++) {
		if (pieces->range[last].from < from)
			from = pieces->range[last].from;
		if (pieces->range[last].to > to)
			to = pieces->range[last].to;
	}
	if (first == last && pieces->n == PIECES_MAX)
		return;
	memmove(&pieces->range[first + 1], &pieces->range[last],
		(pieces->n - last) * sizeof(pieces->range[0]));
	pieces->n = pieces->n - (last - first) + 1;
	pieces->range[first].from = from;
	pieces->range[first].to = to;
}

static inline bool pieces__whole(const struct code_pieces *pieces, uint32_t total)
{
	return pieces->n == 1 && !pieces->range[0].from && pieces->range[0].to == total;
}
