/* SPDX-License-Identifier: MIT */
#include "export/intern.h"

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

/* The slot of the key, or the free one where it belongs. */
static uint32_t *find_slot(const struct intern *intern, const void *key, size_t len)
{
	uint32_t at = (uint32_t)hash__bytes(&intern->seed, key, len) & intern->slots_mask;

	for (;; at = (at + 1) & intern->slots_mask) {
		uint32_t *slot = &intern->slots[at];
		const void *have;
		size_t have_len;

		if (!*slot)
			return slot;
		have = intern__key(intern, *slot - 1, &have_len);
		if (have_len == len && !memcmp(have, key, len))
			return slot;
	}
}

/* Keeps a quarter of the slots free. */
static int grow(struct intern *intern)
{
	size_t n = intern->slots ? (size_t)intern->slots_mask + 1 : 64;
	uint32_t *slots, id;

	if (intern->slots && intern->n < n - n / 4)
		return 0;
	if (intern->slots)
		n *= 2;
	if (n > 1u << 31 || (!intern->slots && hash_seed__draw(&intern->seed)))
		return -ENOMEM;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(intern->slots);
	intern->slots = slots;
	intern->slots_mask = (uint32_t)(n - 1);
	for (id = 0; id < intern->n; id++) {
		size_t len;
		const void *key = intern__key(intern, id, &len);

		*find_slot(intern, key, len) = id + 1;
	}
	return 0;
}

int intern__id(struct intern *intern, const void *key, size_t len, uint32_t *ret)
{
	int err = grow(intern);
	uint32_t *slot;
	size_t end;

	if (err)
		return err;
	slot = find_slot(intern, key, len);
	if (!*slot) {
		end = intern->keys.len + len;
		if (buf__reserve(&intern->ends, sizeof(end)) ||
		    buf__append(&intern->keys, key, len))
			return -ENOMEM;
		buf__append(&intern->ends, &end, sizeof(end));
		*slot = ++intern->n;
	}
	*ret = *slot - 1;
	return 0;
}

void intern__free(struct intern *intern)
{
	buf__free(&intern->keys);
	buf__free(&intern->ends);
	free(intern->slots);
	*intern = (struct intern){};
}
