/* SPDX-License-Identifier: MIT */
/* Lookup in sorted ranges of addresses: rows of any struct whose first two members are `start` and `end`, in order of
 * `start`, which differ. Example: the pieces of an eval loop, the functions that Python code calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/search.h"

struct range {
	uint64_t start, end;
};

static inline void range__from(struct range *range, uint64_t start)
{
	range->start = start > range->start ? start : range->start;
}

static inline void range__to(struct range *range, uint64_t end)
{
	range->end = end < range->end ? end : range->end;
}

/* The row of `size` bytes that contains `at`, or NULL; where two overlap, the one that begins last. *within (NULL: not
 * asked for), which contains `at`, is narrowed to where the answer is the same. O(log n). */
static inline const void *range__find(const void *rows, uint32_t n, size_t size, uint64_t at, struct range *within)
{
	const char *first = rows;
	uint32_t begun = SEARCH(i, n, ((const struct range *)(first + i * size))->start <= at);
	const struct range *last = begun ? (const void *)(first + (begun - 1) * size) : NULL;
	const struct range *next = begun < n ? (const void *)(first + begun * size) : NULL;
	const bool inside = last && at < last->end;

	if (within && last)
		range__from(within, inside ? last->start : last->end);
	if (within && inside)
		range__to(within, last->end);
	if (within && next)
		range__to(within, next->start);
	return inside ? last : NULL;
}
