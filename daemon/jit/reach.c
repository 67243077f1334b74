#include "jit/reach.h"

/* Stretches [at, at + n) become one. */
static void join(struct jit_reach *reach, uint32_t at, uint32_t n)
{
	uint32_t i;

	reach->end[at] = reach->end[at + n - 1];
	for (i = at + n; i < reach->n; i++) {
		reach->start[i - n + 1] = reach->start[i];
		reach->end[i - n + 1] = reach->end[i];
	}
	reach->n -= n - 1;
}

static void insert(struct jit_reach *reach, uint32_t at, uint64_t start, uint64_t end)
{
	uint32_t i;

	for (i = reach->n++; i > at; i--) {
		reach->start[i] = reach->start[i - 1];
		reach->end[i] = reach->end[i - 1];
	}
	reach->start[at] = start;
	reach->end[at] = end;
}

static void join_closest(struct jit_reach *reach)
{
	uint32_t i, best = 0;

	for (i = 1; i + 1 < reach->n; i++)
		if (reach->start[i + 1] - reach->end[i] < reach->start[best + 1] - reach->end[best])
			best = i;
	join(reach, best, 2);
}

void reach__add(struct jit_reach *reach, uint64_t start, uint64_t end)
{
	uint64_t low = start > REACH_NEAR ? start - REACH_NEAR : 0, high = end < UINT64_MAX - REACH_NEAR ? end + REACH_NEAR : UINT64_MAX;
	uint32_t first = 0, n = 0;

	if (start >= end)
		return;
	while (first < reach->n && reach->end[first] < low)
		first++;
	while (first + n < reach->n && reach->start[first + n] <= high)
		n++;
	if (!n && reach->n == REACH_STRETCHES) {
		join_closest(reach);
		reach__add(reach, start, end);
		return;
	}
	if (!n) {
		insert(reach, first, start, end);
		return;
	}
	join(reach, first, n);
	if (start < reach->start[first])
		reach->start[first] = start;
	if (end > reach->end[first])
		reach->end[first] = end;
}
