/* SPDX-License-Identifier: MIT */
/* Code objects by their capture keys: where each lies. Private to this folder. */
#ifndef CPROFD_DUMP_CODES_H
#define CPROFD_DUMP_CODES_H

#include <stdbool.h>

#include "base/slots.h"

#define CODES_MAX 65536u

struct dump_codes {
	struct dump_code {
		uint64_t key, code;
	} *rows;
	uint32_t n, capacity;
	struct slots by_key;
};

static inline uint64_t dump_codes__hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 1;
}

static inline bool dump_codes__hash_row(const void *holder, uint32_t row, uint64_t *ret)
{
	*ret = dump_codes__hash(((const struct dump_codes *)holder)->rows[row].key);
	return true;
}

/* 0: not known. */
static inline uint64_t dump_codes__find(const struct dump_codes *codes, uint64_t key)
{
	uint64_t hash = dump_codes__hash(key);
	uint32_t at, row;

	for (at = slots__first(&codes->by_key, hash); slots__row(&codes->by_key, at, &row); at = slots__next(&codes->by_key, at))
		if (codes->rows[row].key == key)
			return codes->rows[row].code;
	return 0;
}

/* Of a known key the code object lies where it lay: the key is of its address, too. */
static inline void dump_codes__add(struct dump_codes *codes, uint64_t key, uint64_t code)
{
	if (!key || codes->n == CODES_MAX || dump_codes__find(codes, key) ||
	    array__reserve((void **)&codes->rows, sizeof(*codes->rows), codes->n, &codes->capacity) ||
	    slots__reserve(&codes->by_key, codes->n, dump_codes__hash_row, codes))
		return;
	codes->rows[codes->n] = (struct dump_code){key, code};
	slots__enter(&codes->by_key, dump_codes__hash(key), codes->n++);
}

static inline void dump_codes__free(struct dump_codes *codes)
{
	free(codes->rows);
	free(codes->by_key.slots);
	*codes = (struct dump_codes){};
}

#endif
