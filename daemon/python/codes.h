/* SPDX-License-Identifier: MIT */
/* A hash table: key of a code object -> its address in the target. Private to this folder.
 *
 * The sampler's walker names code objects by key (cprofd/py/code.h) and stops at those that it has not seen; here
 * they become known by adding them. At most CODES_MAX: what does not fit is not known, and a walk ends there with a
 * loss. */
#pragma once

#include "base/slots.h"

#define CODES_MAX 65536u

struct python_codes {
	struct python_code {
		uint64_t key, code;
	} *rows;
	uint32_t n, capacity;
	struct slots by_key;
};

static inline uint64_t python_codes__hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 1;
}

static inline bool python_codes__hash_row(const void *holder, uint32_t row, uint64_t *ret)
{
	*ret = python_codes__hash(((const struct python_codes *)holder)->rows[row].key);
	return true;
}

/* 0: not known. */
static inline uint64_t python_codes__find(const struct python_codes *codes, uint64_t key)
{
	uint64_t hash = python_codes__hash(key);
	uint32_t at, row;

	for (at = slots__first(&codes->by_key, hash); slots__row(&codes->by_key, at, &row); at = slots__next(&codes->by_key, at))
		if (codes->rows[row].key == key)
			return codes->rows[row].code;
	return 0;
}

/* A known key needs no update: it includes the address. */
static inline void python_codes__add(struct python_codes *codes, uint64_t key, uint64_t code)
{
	if (!key || codes->n == CODES_MAX || python_codes__find(codes, key) ||
	    ARRAY_RESERVE(codes->rows, codes->n, codes->capacity) ||
	    slots__reserve(&codes->by_key, codes->n, python_codes__hash_row, codes))
		return;
	codes->rows[codes->n] = (struct python_code){key, code};
	slots__enter(&codes->by_key, python_codes__hash(key), codes->n++);
}

static inline void python_codes__free(struct python_codes *codes)
{
	free(codes->rows);
	free(codes->by_key.slots);
	*codes = (struct python_codes){};
}
