/* SPDX-License-Identifier: MIT */
/* An arena: many small allocations that are freed all at once. Pointers stay valid until arena__free().
 * Zero-initialised is empty. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	char data[];
};

struct arena {
	struct arena_chunk *chunks; /* the newest first */
	size_t bytes;               /* of all chunks */
};

#define ARENA_CHUNK 65000u /* with malloc's header just under 16 pages */

/* `len` bytes, aligned to 1 (text); NULL: out of memory. */
static inline char *arena__take(struct arena *arena, size_t len)
{
	struct arena_chunk *chunk = arena->chunks;
	size_t size = len > ARENA_CHUNK / 4 ? len : ARENA_CHUNK;

	if (!chunk || chunk->size - chunk->used < len) {
		struct arena_chunk *fresh = malloc(sizeof(*fresh) + size);

		if (!fresh)
			return NULL;
		fresh->used = 0;
		fresh->size = size;
		arena->bytes += sizeof(*fresh) + size;
		if (chunk && size != ARENA_CHUNK) { /* a large allocation: keep filling the current chunk */
			fresh->next = chunk->next;
			chunk->next = fresh;
		} else {
			fresh->next = chunk;
			arena->chunks = fresh;
		}
		chunk = fresh;
	}
	chunk->used += len;
	return chunk->data + chunk->used - len;
}

static inline void arena__free(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *next = arena->chunks->next;

		free(arena->chunks);
		arena->chunks = next;
	}
	arena->bytes = 0;
}
