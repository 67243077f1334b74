/* SPDX-License-Identifier: MIT */
/* A table of keys (intern), and an array of times by id. */
#include "aggregate/sums.h"

#include <errno.h>

int sums__id(struct sums *sums, const void *key, size_t len, uint32_t *ret)
{
	struct times *sum = intern__item(&sums->keys, key, len, &sums->times, sizeof(*sum));

	if (!sum)
		return -ENOMEM;
	/* intern__item() returns the item beside the key; its index is the key's id. */
	*ret = (uint32_t)(sum - &ITEM(sums->times, struct times, 0));
	return 0;
}

void sums__add_to(struct sums *sums, uint32_t i, const struct times *times)
{
	times__add(&ITEM(sums->times, struct times, i), times);
}

int sums__add(struct sums *sums, const void *key, size_t len, const struct times *times)
{
	uint32_t i;
	int err = sums__id(sums, key, len, &i);

	if (!err)
		sums__add_to(sums, i, times);
	return err;
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
