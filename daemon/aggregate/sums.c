/* SPDX-License-Identifier: MIT */
/* An intern of keys, with times by id. */
#include "aggregate/sums.h"

#include <errno.h>

int sums__add(struct sums *sums, const void *key, size_t len, const struct times *times)
{
	struct times *sum = intern__item(&sums->keys, key, len, &sums->times, sizeof(*sum));

	if (!sum)
		return -ENOMEM;
	times__add(sum, times);
	return 0;
}

const void *sums__key(const struct sums *sums, uint32_t i)
{
	size_t len;

	return intern__key(&sums->keys, i, &len);
}

const struct times *sums__times(const struct sums *sums, uint32_t i)
{
	return &ITEM(sums->times, const struct times, i);
}

void sums__free(struct sums *sums)
{
	intern__free(&sums->keys);
	buf__free(&sums->times);
}
