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
