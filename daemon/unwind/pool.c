/* SPDX-License-Identifier: MIT */
/* The allocator of a pool: first fit, in whole blocks. Tables smaller than a block share one, which becomes free when
 * the last table in it is released. What is in use is noted outside of the pool (`used`), so that tables have whole
 * blocks. Linear in the number of blocks: a pool of 4 MB has 1,024. */
#include "unwind/unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_WHOLE UINT16_MAX

/* As struct unwind_sink: a table is compiled or loaded directly into the pool. */
static void *allot(struct unwind_sink *sink, size_t size)
{
	return pool__allot((struct unwind_pool *)sink, size);
}

int pool__init(struct unwind_pool *pool, void *blocks, uint32_t n)
{
	*pool = (struct unwind_pool){.sink.allot = allot, .blocks = blocks, .n = n};
	pool->used = calloc(n + 1, 2 * sizeof(*pool->used));
	return pool->used ? 0 : -ENOMEM;
}

void pool__free(struct unwind_pool *pool)
{
	free(pool->used);
	pool->used = NULL;
	pool->n = 0;
}

/* used[2i]: BLOCK_WHOLE, or number of words given out from the block's start; used[2i + 1]: number of tables in it. */
static uint16_t *used_of(struct unwind_pool *pool, uint32_t i)
{
	return pool->used + 2 * (size_t)i;
}

/* Appended to a shared block: no holes are reused, as JIT objects come and go together. */
static void *allot_small(struct unwind_pool *pool, uint32_t words)
{
	char *at;

	for (uint32_t i = pool->next; i < pool->n; i++) {
		uint16_t *used = used_of(pool, i);

		if (used[0] == BLOCK_WHOLE || used[0] + words > UNWIND_BLOCK_WORDS)
			continue;
		at = pool->blocks + (size_t)i * UNWIND_BLOCK + used[0] * 8u;
		used[0] += words;
		used[1]++;
		return at;
	}
	return NULL;
}

/* The first run of n free blocks. */
static void *allot_blocks(struct unwind_pool *pool, uint32_t n)
{
	uint32_t i, run = 0, k;

	for (i = pool->next; i < pool->n; i++) {
		run = used_of(pool, i)[0] ? 0 : run + 1;
		if (run < n)
			continue;
		for (k = i + 1 - n; k <= i; k++)
			used_of(pool, k)[0] = BLOCK_WHOLE;
		return pool->blocks + (size_t)(i + 1 - n) * UNWIND_BLOCK;
	}
	return NULL;
}

/* Also moves `next` beyond blocks that are full. */
void *pool__allot(struct unwind_pool *pool, size_t size)
{
	uint32_t words = (uint32_t)((size + 7) / 8);
	void *at;

	if (!size || size > (size_t)pool->n * UNWIND_BLOCK)
		return NULL;
	if (words < UNWIND_BLOCK_WORDS)
		at = allot_small(pool, words);
	else
		at = allot_blocks(pool, (uint32_t)((size + UNWIND_BLOCK - 1) / UNWIND_BLOCK));
	while (pool->next < pool->n && used_of(pool, pool->next)[0] >= UNWIND_BLOCK_WORDS - 32)
		pool->next++; /* 32 words are left at most: as good as full */
	return at;
}

void pool__release(struct unwind_pool *pool, void *at, size_t size)
{
	size_t offset = (size_t)((char *)at - pool->blocks);
	uint32_t first = (uint32_t)(offset / UNWIND_BLOCK), i;
	uint32_t n = (uint32_t)((size + UNWIND_BLOCK - 1) / UNWIND_BLOCK);

	/* A table's memory has to be zeros when it is given out (struct unwind_sink). */
	memset(at, 0, size);
	if (used_of(pool, first)[0] != BLOCK_WHOLE) {
		/* Other tables are in that block still. */
		if (--used_of(pool, first)[1])
			return;
		used_of(pool, first)[0] = 0;
	} else {
		for (i = first; i < first + n; i++)
			used_of(pool, i)[0] = 0;
	}
	if (first < pool->next)
		pool->next = first;
}

/* Addresses of the table's first page and positions of its parts, as the walker needs them: it has no pointer to the
 * table's head. */
void unwind_entry__make(struct unwind_entry *entry, const struct unwind_pool *pool, uint16_t number,
		  const struct unwind_table *table, uint64_t bias, uint64_t start, uint64_t end)
{
	uint64_t from = table->text + bias, to = from + table->text_size;
	uint32_t at = (uint32_t)(((const char *)table - pool->blocks) / 8);

	if (start < from)
		start = from;
	if (end > to)
		end = to;
	entry->start = start;
	entry->range = (struct unwind_range){
		.origin = table->base + bias,
		.size = start < end ? (uint32_t)(end - start) : 0,
		.pool = number,
		.shift = (uint8_t)table->shift,
		.index = at + table->index,
		.rows = at + table->rows,
		.rules = at + table->rules,
	};
}
