/* SPDX-License-Identifier: MIT */
/* An index over address ranges that may overlap: which ones meet [lo, hi)?
 *
 * Arrays of doubling capacity, each sorted by start (a full one is merged into the
 * next): adding costs O(log n) on average, 32 bytes a row, no pointers. In each, the
 * middle row is the root of a tree that lies in the array itself, and a row holds
 * the largest end of its subtree.
 *
 * Owner: its holder; zero-initialised is empty. Threads: one. */
#ifndef CPROFD_JIT_SPANS_H
#define CPROFD_JIT_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t start;
	uint64_t max_end;       /* the index's own */
	uint32_t size;
	uint32_t object;
	uint32_t name;          /* offset in the object's names; SPAN_NO_NAME */
	uint32_t seq;           /* in its object */
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
/* Calls fn for each row that meets [lo, hi), in no order, until it returns false. */
typedef bool spans_fn(void *ctx, const struct span *span);
void spans__each(const struct spans *spans, uint64_t lo, uint64_t hi, spans_fn *fn, void *ctx);
/* Keeps the rows for which `keep` is true. It is called in the order of start, object
 * and seq over all rows; `next` is the one that follows, or NULL. */
typedef bool spans_keep(void *ctx, const struct span *span, const struct span *next);
int spans__retain(struct spans *spans, spans_keep *keep, void *ctx);
int spans__copy(const struct spans *spans, struct spans *ret); /* -ENOMEM: *ret is empty */
void spans__free(struct spans *spans);

#endif
