/* SPDX-License-Identifier: MIT */
/* Code objects by their capture keys: where each lies. Private to this folder. */
#ifndef CPROFD_DUMP_CODES_H
#define CPROFD_DUMP_CODES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define CODES_MAX 65536u

struct dump_codes {
	struct dump_code {
		uint64_t key, code; /* key 0: free */
	} *slots;                   /* CODES_MAX * 2, never full */
	uint32_t n;
};

static inline struct dump_code *dump_codes__find(const struct dump_codes *codes, uint64_t key)
{
	uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 47) % (CODES_MAX * 2);

	while (codes->slots[at].key && codes->slots[at].key != key)
		at = (at + 1) % (CODES_MAX * 2);
	return &codes->slots[at];
}

static inline void dump_codes__add(struct dump_codes *codes, uint64_t key, uint64_t code)
{
	struct dump_code *at = dump_codes__find(codes, key);

	if (!key || (!at->key && codes->n == CODES_MAX))
		return;
	codes->n += !at->key;
	*at = (struct dump_code){key, code};
}

#endif
