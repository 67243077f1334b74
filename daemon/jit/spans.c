/* SPDX-License-Identifier: MIT */
/* The index of overlapping ranges (spans.h): a log-structured set of sorted arrays, each an implicit interval tree. */
#include "jit/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"

#define FIRST 256u /* rows of level 0, which is searched from end to end */

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return ORDER(x->start, y->start) ?: ORDER(x->object, y->object) ?: ORDER(x->seq, y->seq);
}

static uint64_t span_end(const struct span *span)
{
	return span->start + span->size;
}

/* Sets max_end of a subtree: its root is the middle row. Recursion depth: log2 of n. */
static uint64_t set_max_end(struct span *rows, uint32_t n)
{
	uint32_t mid = n / 2;
	uint64_t left, right;
	struct span *root = &rows[mid];

	if (!n)
		return 0;
	left = set_max_end(rows, mid);
	right = set_max_end(root + 1, n - mid - 1);
	root->max_end = span_end(root);
	if (left > root->max_end)
		root->max_end = left;
	if (right > root->max_end)
		root->max_end = right;
	return root->max_end;
}

/* Two sorted arrays into a new one; of equal rows a's come first. */
static struct span *merge(const struct span *a, uint32_t n_a, const struct span *b, uint32_t n_b,
			  size_t capacity)
{
	struct span *out = malloc(capacity * sizeof(*out)), *to = out;

	if (!out)
		return NULL;
	while (n_a && n_b)
		if (by_start(a, b) <= 0)
			*to++ = *a++, n_a--;
		else
			*to++ = *b++, n_b--;
	if (n_a)
		memcpy(to, a, n_a * sizeof(*a));
	if (n_b)
		memcpy(to + n_a, b, n_b * sizeof(*b));
	return out;
}

/* Merges level 0 and all levels up to the first empty one into that one. */
static int spill(struct spans *spans)
{
	struct span *rows, *merged;
	uint32_t n = spans->n[0], level;

	rows = malloc(n * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	memcpy(rows, spans->levels[0], n * sizeof(*rows));
	qsort(rows, n, sizeof(*rows), by_start);
	for (level = 1; level < SPANS_LEVELS && spans->n[level]; level++) {
		merged = merge(spans->levels[level], spans->n[level], rows, n, (size_t)n + spans->n[level]);
		free(rows);
		if (!merged)
			return -ENOMEM; /* the levels below are as they were */
		n += spans->n[level];
		rows = merged;
	}
	if (level == SPANS_LEVELS) {
		free(rows);
		return -ENOSPC;
	}
	set_max_end(rows, n);
	spans->levels[level] = rows;
	spans->n[level] = n;
	spans->n[0] = 0;
	while (--level > 0) {
		free(spans->levels[level]);
		spans->levels[level] = NULL;
		spans->n[level] = 0;
	}
	return 0;
}

int spans__add(struct spans *spans, const struct span *span)
{

	if (!spans->levels[0]) {
		spans->levels[0] = malloc(FIRST * sizeof(*span));
		if (!spans->levels[0])
			return -ENOMEM;
	}
	if (spans->n[0] == FIRST) {
		int err = spill(spans);

		if (err)
			return err;
	}
	spans->levels[0][spans->n[0]++] = *span;
	spans->total++;
	return 0;
}

/* Visits the rows of a subtree that overlap [lo, hi), by start. Recursion to the left only; depth: log2 of n. */
static bool visit(const struct span *rows, uint32_t n, uint64_t lo, uint64_t hi, spans_fn *fn,
		  void *ctx)
{
	while (n) {
		uint32_t mid = n / 2;
		const struct span *root = &rows[mid];

		if (root->max_end <= lo)
			return true;
		if (!visit(rows, mid, lo, hi, fn, ctx))
			return false;
		if (root->start >= hi)
			return true;
		if (span_end(root) > lo && !fn(ctx, root))
			return false;
		rows = root + 1;
		n -= mid + 1;
	}
	return true;
}

/* Level 0 first, which is not sorted: at most 256 comparisons. */
void spans__each(const struct spans *spans, uint64_t lo, uint64_t hi, spans_fn *fn, void *ctx)
{
	for (uint32_t i = 0; i < spans->n[0]; i++) {
		const struct span *row = &spans->levels[0][i];

		if (row->start < hi && span_end(row) > lo && !fn(ctx, row))
			return;
	}
	for (uint32_t level = 1; level < SPANS_LEVELS; level++)
		if (!visit(spans->levels[level], spans->n[level], lo, hi, fn, ctx))
			return;
}

/* All rows in one sorted array, filtered in place, become the only level above 0 that is used: the lowest whose
 * capacity they fit. */
int spans__retain(struct spans *spans, spans_keep *keep, void *ctx)
{
	uint32_t total = spans->total, level, i, n = 0;
	struct spans fresh = {};
	struct span *rows;

	if (!total)
		return 0;
	rows = malloc(total * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (level = 0; level < SPANS_LEVELS; level++) {
		if (spans->n[level])
			memcpy(rows + n, spans->levels[level], spans->n[level] * sizeof(*rows));
		n += spans->n[level];
	}
	qsort(rows, n, sizeof(*rows), by_start);
	for (i = n = 0; i < total; i++) /* n <= i: a row is asked for before it can be overwritten */
		if (keep(ctx, &rows[i], i + 1 < total ? &rows[i + 1] : NULL))
			rows[n++] = rows[i];
	spans__free(spans);
	if (n) {
		struct span *less = realloc(rows, n * sizeof(*rows));

		if (less)
			rows = less;
		for (level = 1; level < SPANS_LEVELS - 1 && (FIRST << (level - 1)) < n; level++)
			;
		fresh.levels[level] = rows;
		fresh.n[level] = n;
		fresh.total = n;
		set_max_end(rows, n);
	} else {
		free(rows);
	}
	*spans = fresh;
	return 0;
}

/* A level above 0 is copied without spare capacity: it is never added to, only merged into a new one. */
int spans__copy(const struct spans *spans, struct spans *ret)
{
	*ret = (struct spans){};
	for (uint32_t level = 0; level < SPANS_LEVELS; level++) {
		uint32_t n = spans->n[level];

		if (!n)
			continue;
		ret->levels[level] = malloc((level ? n : FIRST) * sizeof(*ret->levels[level]));
		if (!ret->levels[level]) {
			spans__free(ret);
			return -ENOMEM;
		}
		memcpy(ret->levels[level], spans->levels[level], n * sizeof(*ret->levels[level]));
		ret->n[level] = n;
		ret->total += n;
	}
	return 0;
}

void spans__free(struct spans *spans)
{
	for (uint32_t level = 0; level < SPANS_LEVELS; level++)
		free(spans->levels[level]);
	*spans = (struct spans){};
}
