/* SPDX-License-Identifier: MIT */
/* Orders for qsort() and bsearch(): items of any struct by their first member, ascending. */
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
