/* SPDX-License-Identifier: MIT */
/* A hash index (open addressing) over the rows of an array that its holder keeps. A slot is a row number + 1, and in
 * the bits that row numbers do not need a part of the hash. The holder compares keys; rows are never removed. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/array.h"

struct slots {
	uint32_t *slots;   /* 0: free */
	uint32_t capacity; /* a power of two, or 0 */
};

#define SLOTS_FIRST 256u
#define SLOTS_NONE UINT32_MAX

/* Computes the hash of a row; false: the row gets no slot, so it is never found. */
typedef bool slots_hash(const void *holder, uint32_t row, uint64_t *ret_hash);

static inline void slots__enter(struct slots *slots, uint64_t hash, uint32_t row)
{
	uint32_t mask = slots->capacity - 1, at = (uint32_t)hash & mask;

	while (slots->slots[at])
		at = (at + 1) & mask;
	slots->slots[at] = ((uint32_t)(hash >> 32) & ~mask) | (row + 1); /* row < capacity - 1 */
}

/* Makes room for row `n`: at most three quarters of the slots are in use. */
static inline int slots__reserve(struct slots *slots, uint32_t n, slots_hash *hash,
				 const void *holder)
{
	struct slots fresh = {.capacity = slots->capacity ? slots->capacity * 2 : SLOTS_FIRST};
	uint64_t value;

	if (n + 1 <= slots->capacity / 4 * 3)
		return 0;
	if (!fresh.capacity)
		return -ENOMEM;
	fresh.slots = calloc(fresh.capacity, sizeof(*fresh.slots));
	if (!fresh.slots)
		return -ENOMEM;
	for (uint32_t row = 0; row < n; row++)
		if (hash(holder, row, &value))
			slots__enter(&fresh, value, row);
	free(slots->slots);
	*slots = fresh;
	return 0;
}

/* Removes all rows; keeps the memory. */
static inline void slots__clear(struct slots *slots)
{
	if (slots->capacity)
		memset(slots->slots, 0, slots->capacity * sizeof(*slots->slots));
}

/* Enters row `n`, which is the last one, and is there already. */
static inline int slots__add(struct slots *slots, uint32_t n, slots_hash *hash, const void *holder)
{
	int err = slots__reserve(slots, n, hash, holder);
	uint64_t value;

	if (!err && hash(holder, n, &value))
		slots__enter(slots, value, n);
	return err;
}

static inline uint32_t slots__first(const struct slots *slots, uint64_t hash)
{
	return (uint32_t)hash & (slots->capacity - 1);
}

static inline uint32_t slots__next(const struct slots *slots, uint32_t at)
{
	return (at + 1) & (slots->capacity - 1);
}

static inline bool slots__row(const struct slots *slots, uint32_t at, uint32_t *ret_row)
{
	if (!slots->capacity || !slots->slots[at])
		return false;
	*ret_row = (slots->slots[at] & (slots->capacity - 1)) - 1;
	return true;
}

/* ARRAY_ADD() of an item that the index finds from then on. On an error nothing was added. */
#define SLOTS_ADD(index, hash, holder, items, n, capacity, ...)                                                        \
	(ARRAY_RESERVE(items, n, capacity) ?: ((items)[n] = (__VA_ARGS__), slots__add(index, n, hash, holder)) ?: ((n)++, 0))

/* May the row at `at` have this hash? Most rows with another hash are rejected without reading them, which would be a
 * cache miss. */
static inline bool slots__may(const struct slots *slots, uint32_t at, uint64_t hash)
{
	return !((slots->slots[at] ^ (uint32_t)(hash >> 32)) & ~(slots->capacity - 1));
}

/* The row with this hash that is searched for, or SLOTS_NONE: `same` is an expression of its number `row`, as in
 * SLOTS_FIND(&codes->by_key, row, hash, codes->rows[row].key == key). */
#define SLOTS_FIND(index, row, hash, same)                                                                             \
	({                                                                                                             \
		const struct slots *slots_ = (index);                                                                  \
		const uint64_t hash_ = (hash);                                                                         \
		uint32_t at_ = slots__first(slots_, hash_), row;                                                       \
		while (slots__row(slots_, at_, &row) && !(slots__may(slots_, at_, hash_) && (same)))                   \
			at_ = slots__next(slots_, at_);                                                                \
		slots__row(slots_, at_, &row) ? row : SLOTS_NONE;                                                      \
	})
