/* SPDX-License-Identifier: MIT */
/* Spans: an index over address ranges that may overlap. Which ranges intersect [lo, hi)?
 *
 * It is a list of arrays of doubling capacity, each sorted by start; a full one is merged into the next. Adding costs
 * O(log n) on average and 32 bytes per row. Each array is also an interval tree without pointers: the middle row of
 * a range is the root, and each row holds the largest end in its subtree.
 *
 * Owner: its holder; zero-initialised is empty. Threads: one.
 *
 * Example: rows [0x1000,0x2000) text of object 1, [0x1000,0x1080) "f", [0x1080,0x1100) "g", and [0x1000,0x1800) of
 * object 2, which came later: a query of [0x1010,0x1011) visits the first, second and fourth. Which of them was
 * there is find.c's decision.
 *
 * Why not a plain sorted array: a JIT adds rows all the time, and each would move half of the others. Query: O(log n
 * + found) for each of at most 20 arrays. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t start;
	uint64_t max_end;       /* of its subtree; set by the index */
	uint32_t size;
	uint32_t object;
	uint32_t name;          /* offset in the object's names; SPAN_NO_NAME */
	uint32_t seq;           /* number of the row in its object */
};
_Static_assert(sizeof(struct span) == 32, "a span is half a cache line");

#define SPAN_NO_NAME UINT32_MAX
#define SPANS_LEVELS 20u

struct spans {
	struct span *levels[SPANS_LEVELS]; /* capacity 256 << level; level 0 is not sorted */
	uint32_t n[SPANS_LEVELS];
	uint32_t total;
};

int spans__add(struct spans *spans, const struct span *span); /* -ENOMEM, -ENOSPC */
/* Calls fn for each row that intersects [lo, hi), in no order, until it returns false. */
typedef bool spans_fn(void *ctx, const struct span *span);
void spans__each(const struct spans *spans, uint64_t lo, uint64_t hi, spans_fn *fn, void *ctx);
/* Keeps the rows for which `keep` returns true. It is called for all rows in the order of start, object and seq; `next`
 * is the row after this one, or NULL. */
typedef bool spans_keep(void *ctx, const struct span *span, const struct span *next);
int spans__retain(struct spans *spans, spans_keep *keep, void *ctx);
int spans__copy(const struct spans *spans, struct spans *ret); /* -ENOMEM: *ret is empty */
void spans__free(struct spans *spans);
