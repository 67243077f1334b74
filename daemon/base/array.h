/* SPDX-License-Identifier: MIT */
/* Growing arrays: the holder keeps pointer, number of items and capacity. (Bytes, and arrays that grow with zeros:
 * buf.h.) */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for item `n`. The first allocation has 256 items, or about 8 KB if they are large; then it grows by half.
 * */
static inline int array__reserve(void **array, size_t item, uint32_t n, uint32_t *capacity)
{
	uint32_t fresh = *capacity ? *capacity + *capacity / 2 + 1 : item < 32 ? 256 : (uint32_t)(8192 / item) + 1;
	void *data;

	if (n < *capacity)
		return 0;
	data = realloc(*array, item * fresh);
	if (!data)
		return -ENOMEM;
	*array = data;
	*capacity = fresh;
	return 0;
}

/* The same for a holder's own pointer, count and capacity; and appending an item. 0 or -ENOMEM. */
#define ARRAY_RESERVE(items, n, capacity) array__reserve((void **)&(items), sizeof(*(items)), (n), &(capacity))
#define ARRAY_ADD(items, n, capacity, ...)                                                                             \
	(ARRAY_RESERVE(items, n, capacity) ?: ((items)[(n)++] = (__VA_ARGS__), 0))
