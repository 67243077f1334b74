/* SPDX-License-Identifier: MIT */
/* The cache of answers about addresses. Whoever asks has one: beside what the code map said of an address it keeps
 * the row that was made of that, so an address that was sampled lately costs one lookup.
 *
 * An answer holds as long as its generation, a small number that stands for one of codemap__generations(). Two kinds
 * of entries: one address; all addresses of a function without lines (code_location.from, to). Both are 4-way set
 * associative, the one used last in front.
 *
 * Why generations and not invalidation: mappings and JIT code change in other folders, hundreds of times a second
 * while a compiler runs; comparing a number costs nothing, and searching the cache for what became wrong would.
 *
 * Owner: who asks; zeroed, with a seed, it is empty. 1.3 MB. Threads: one. */
#ifndef CPROFD_CODEMAP_CACHE_H
#define CPROFD_CODEMAP_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "codemap/codemap.h"

#define CACHED_LOCATIONS 32768u /* Numba's loop meets 8,000 in ten seconds, 20,000 in a minute */
#define CACHED_RANGES 16384u
#define CACHED_RANGE_SHIFT 9 /* a function is found by the 512 bytes that an address lies in */
#define CACHED_WAYS 4u

/* What an address was found to be. Four of one hash lie in a line and a half. */
struct cached_location {
	uint64_t pc;
	const struct callable *callable; /* code_location.callable */
	uint32_t generation;		 /* 0: free */
	uint32_t row : 29, role : 3;	 /* row: of who asks; role: enum frame_role */
};
_Static_assert(FRAME_ROLES <= 8, "cached_location.role");

/* What addresses of a function were found to be: its generation is always that of stable answers. */
struct cached_range {
	uint64_t from;
	const struct callable *callable;
	uint32_t size, generation;
	uint32_t row : 29, role : 3;
};

/* In the cache each generation of each process has an id of its own. */
struct code_now {
	uint32_t all, stable; /* 0: none yet */
};
/* Of a process: its generations of last time. */
struct code_seen {
	struct code_generations last;
	struct code_now ids;
};

struct code_cache {
	struct cached_location locations[CACHED_LOCATIONS];
	struct cached_range ranges[CACHED_RANGES];
	struct hash_seed seed;
	uint32_t ids; /* the last that was given */
};

/* Rows are void: nothing is known. */
void code_cache__forget(struct code_cache *cache);
/* The ids of a process' generations at `time`. `rows`: a number that differs when an address may have another row. */
struct code_now code_cache__now(struct code_cache *cache, struct code_seen *process, struct codemap *codemap,
				const struct record_task *task, uint64_t time, uint64_t rows);

/* The entry of pc, as a walk has it; `space`: whose address it is, any number but of the same process the same. NULL:
 * it is not known. Valid until the next call. */
const struct cached_location *code_cache__find(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc);
/* Keeps what was found of one that is not known, NULL: nothing was there, and its row. */
const struct cached_location *code_cache__keep(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc, const struct code_location *location, uint32_t row);

/* The front of those that share a hash with pc. */
static inline struct cached_location *code_cache__front(struct code_cache *cache, uint64_t space, uint64_t pc)
{
	return &cache->locations[hash__pair(&cache->seed, pc, space) % (CACHED_LOCATIONS / CACHED_WAYS) * CACHED_WAYS];
}

/* It will be asked for: on its way to the processor's cache. */
static inline void code_cache__expect(struct code_cache *cache, uint64_t space, uint64_t pc)
{
	__builtin_prefetch(code_cache__front(cache, space, pc));
}

#endif
