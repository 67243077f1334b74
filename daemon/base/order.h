/* SPDX-License-Identifier: MIT */
/* Orders for qsort() and bsearch(): of items of any struct by their first member, ascending; of one of several keys. */
#pragma once

#include <stdint.h>

static inline int order__u64(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static inline int order__u32(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* The smaller value first: ORDER(a->weight, b->weight) ?: ORDER(b->time, a->time), where the later time is first. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))
