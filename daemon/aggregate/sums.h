/* SPDX-License-Identifier: MIT */
/* Times by key: the first step of every output. Samples are added up by what distinguishes them (thread, stack,
 * class ...), and the rest is done once per stack: a recording has many more samples than stacks.
 *
 * A key is a struct without padding; all keys of one `sums` have the same size. Zero-initialised is empty. Items are
 * in the order of appearance. Memory: the key and 16 bytes per item. Errors: -ENOMEM. */
#pragma once

#include "aggregate/times.h"
#include "base/intern.h"

struct sums {
	struct intern keys;
	struct buf times; /* struct times for each key */
};

int sums__add(struct sums *sums, const void *key, size_t len, const struct times *times);
/* The same in two steps: the id of a key, and adding to an id. */
int sums__id(struct sums *sums, const void *key, size_t len, uint32_t *ret);
void sums__add_to(struct sums *sums, uint32_t i, const struct times *times);
static inline uint32_t sums__n(const struct sums *sums)
{
	return sums->keys.n;
}
/* Valid until something is added. */
const void *sums__key(const struct sums *sums, uint32_t i);
const struct times *sums__times(const struct sums *sums, uint32_t i);
void sums__free(struct sums *sums); /* leaves it empty */
