/* SPDX-License-Identifier: MIT */
/* The cache of what was made of addresses: the frame row, the role, the callable. An address that was sampled lately
 * costs one lookup.
 *
 * An answer of the code map holds as long as its generation, a small number that stands for one of
 * codemap__generations(). Two kinds of entries: one address; all addresses of a function without lines
 * (code_location.from, to). Both are 4-way set associative, the one used last in front.
 *
 * Why generations and not invalidation: mappings and JIT code change in other folders, hundreds of times a second
 * while a compiler runs; comparing a number costs nothing, and searching the cache for what became wrong would.
 *
 * Zeroed, with a seed, it is empty. 1.3 MB. Implemented in natives.c. */
#pragma once

#include "base/hash.h"
#include "codemap/codemap.h"
#include "weave/weave.h"

#define CACHED_LOCATIONS 32768u /* a loop of Numba compiles has 8,000 addresses in ten seconds, 20,000 in a minute */
#define CACHED_RANGES 16384u
#define CACHED_RANGE_SHIFT 9 /* ranges are hashed by the 512 bytes that an address lies in */
#define CACHED_WAYS 4u

/* The answer for one address. The four ways of a hash take one and a half cache lines. */
struct cached_location {
	uint64_t pc;
	const struct callable *callable; /* code_location.callable */
	uint32_t generation;		 /* 0: free */
	uint32_t row : 29, role : 3;	 /* role: enum frame_role */
};
_Static_assert(FRAME_ROLES <= 8, "cached_location.role");

/* The answer for all addresses of a function without lines. Only stable answers are kept so, so its generation is
 * code_now.stable. */
struct cached_range {
	uint64_t from;
	const struct callable *callable;
	uint32_t size, generation;
	uint32_t row : 29, role : 3;
};

/* A process's generations as ids: small numbers that no other process or generation has. */
struct code_now {
	uint32_t all, stable; /* 0: none yet */
};
/* Kept by the caller for each process: its generations at the last question, and their ids. */
struct code_seen {
	struct code_generations last;
	struct code_now ids;
};

struct tables;
struct code_cache {
	struct cached_location locations[CACHED_LOCATIONS];
	struct cached_range ranges[CACHED_RANGES];
	struct hash_seed seed;
	uint32_t ids; /* the last that was given */
};

/* Empties the cache: the caller's rows are not valid any more (a new epoch). */
void code_cache__clear(struct code_cache *cache);
/* Drops the addresses whose row is not valid any more. */
void code_cache__drop(struct code_cache *cache, bool (*is_replaced)(const void *rows, uint32_t row), const void *rows);
/* The ids of a process's generations at `time`. */
struct code_now code_cache__now(struct code_cache *cache, struct code_seen *process, struct codemap *codemap,
				const struct record_task *task, uint64_t time);

/* The entry of pc (as a walk has it, with NATIVE_EXACT). `space`: any number that is the same for all questions
 * about one process and differs between processes. NULL: it is not in the cache. Valid until the next call. */
const struct cached_location *code_cache__find(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc);
/* Enters the answer for an address that is not in the cache (location NULL: nothing is there), with its row. */
const struct cached_location *code_cache__keep(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc, const struct code_location *location, uint32_t row);

/* What is at an address that is not in the cache, by the code map: its row is made if there is none, and entered. */
int code_cache__ask(struct code_cache *cache, struct tables *tables, uint64_t space, const struct record_header *header,
		    const struct code_now *now, uint64_t pc, const struct cached_location **ret);

/* The first of the four ways that pc's hash has. */
static inline struct cached_location *code_cache__front(struct code_cache *cache, uint64_t space, uint64_t pc)
{
	return &cache->locations[hash__pair(&cache->seed, pc, space) % (CACHED_LOCATIONS / CACHED_WAYS) * CACHED_WAYS];
}

/* Prefetches the ways of pc, which will be asked for soon. */
static inline void code_cache__expect(struct code_cache *cache, uint64_t space, uint64_t pc)
{
	__builtin_prefetch(code_cache__front(cache, space, pc));
}
