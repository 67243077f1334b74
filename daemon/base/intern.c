/* SPDX-License-Identifier: MIT */
/* Keys lie one behind another in one buffer, ends in a second one; the index has ids and parts of hashes. Seeds are
 * random, as whoever is recorded chooses the keys. */
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const void *intern__key(const struct intern *intern, uint32_t id, size_t *ret_len)
{
	const size_t *ends = (const size_t *)intern->ends.data;
	size_t from = id ? ends[id - 1] : 0;

	*ret_len = ends[id] - from;
	return intern->keys.data + from;
}

static bool hash_key(const void *holder, uint32_t id, uint64_t *ret)
{
	const struct intern *intern = holder;
	size_t len;
	const void *key = intern__key(intern, id, &len);

	*ret = hash__bytes(&intern->seed, key, len);
	return true;
}

static bool is_key(const struct intern *intern, uint32_t id, const void *key, size_t len)
{
	size_t have_len;
	const void *have = intern__key(intern, id, &have_len);

	return have_len == len && !memcmp(have, key, len);
}

uint32_t intern__find(const struct intern *intern, const void *key, size_t len)
{
	return intern->slots.capacity ? SLOTS_FIND(&intern->slots, id, hash__bytes(&intern->seed, key, len), is_key(intern, id, key, len)) : SLOTS_NONE;
}

int intern__id(struct intern *intern, const void *key, size_t len, uint32_t *ret)
{
	size_t end = intern->keys.len + len;
	uint64_t hash;

	if (!intern->slots.capacity && hash_seed__draw(&intern->seed))
		return -ENOMEM;
	hash = hash__bytes(&intern->seed, key, len);
	*ret = SLOTS_FIND(&intern->slots, id, hash, is_key(intern, id, key, len));
	if (*ret != SLOTS_NONE)
		return 0;
	if (slots__reserve(&intern->slots, intern->n, hash_key, intern) || buf__reserve(&intern->ends, sizeof(end)) ||
	    buf__append(&intern->keys, key, len))
		return -ENOMEM;
	buf__append(&intern->ends, &end, sizeof(end));
	slots__enter(&intern->slots, hash, *ret = intern->n++);
	return 0;
}

void *intern__item(struct intern *intern, const void *key, size_t len, struct buf *items, size_t item)
{
	uint32_t id;

	return intern__id(intern, key, len, &id) ? NULL : buf__at(items, item, id);
}

void intern__free(struct intern *intern)
{
	buf__free(&intern->keys);
	buf__free(&intern->ends);
	free(intern->slots.slots);
	*intern = (struct intern){};
}
