/* SPDX-License-Identifier: MIT */
/* Lookup and replacement in the caches of cache.h. Of answers about addresses an entry with a generation that is not
 * current is free: it is never found again, and is overwritten when it has moved to the last way. Names are an arena
 * for the text and an index over it; they are dropped between two epochs, as nobody borrows one then. */
#include "codemap/cache.h"

#include <string.h>

void code_cache__clear(struct code_cache *cache)
{
	uint32_t i;

	for (i = 0; i < CACHED_LOCATIONS; i++)
		cache->locations[i].generation = 0;
	for (i = 0; i < CACHED_RANGES; i++)
		cache->ranges[i].generation = 0;
}

void code_cache__drop(struct code_cache *cache, bool (*is_replaced)(const void *rows, uint32_t row), const void *rows)
{
	uint32_t i;

	for (i = 0; i < CACHED_LOCATIONS; i++)
		if (cache->locations[i].generation && is_replaced(rows, cache->locations[i].row))
			cache->locations[i].generation = 0;
	for (i = 0; i < CACHED_RANGES; i++)
		if (cache->ranges[i].generation && is_replaced(rows, cache->ranges[i].row))
			cache->ranges[i].generation = 0;
}

/* --- generations --- */

/* Generations are 64-bit sums that differ between processes; the ids that replace them are unique over all
 * processes, so that one entry's generation also says whose it is. */
struct code_now code_cache__now(struct code_cache *cache, struct code_seen *process, struct codemap *codemap,
				const struct record_task *task, uint64_t time)
{
	struct code_generations now = codemap__generations(codemap, task, time);

	if (!process->ids.all || process->last.all != now.all)
		process->ids.all = ++cache->ids;
	if (!process->ids.stable || process->last.stable != now.stable)
		process->ids.stable = ++cache->ids;
	process->last = now;
	return process->ids;
}

/* --- functions without lines --- */

/* The ways of the ranges that may contain this address. */
static struct cached_range *ranges_of(struct code_cache *cache, uint64_t space, uint64_t address)
{
	uint64_t hash = hash__pair(&cache->seed, address >> CACHED_RANGE_SHIFT, space);

	return &cache->ranges[hash % (CACHED_RANGES / CACHED_WAYS) * CACHED_WAYS];
}

static bool in_range(struct code_cache *cache, uint64_t space, const struct code_now *now, uint64_t pc,
		     struct cached_location *ret)
{
	uint64_t address = native_address(pc);
	struct cached_range *known = ranges_of(cache, space, address), found;
	uint32_t way;

	for (way = 0; way < CACHED_WAYS; way++)
		if (known[way].generation == now->stable && address - known[way].from < known[way].size)
			break;
	if (way == CACHED_WAYS)
		return false;
	found = known[way];
	memmove(known + 1, known, way * sizeof(*known));
	*known = found;
	*ret = (struct cached_location){
		.pc = pc, .callable = found.callable, .generation = now->stable, .row = found.row, .role = found.role};
	return true;
}

static void keep_range(struct code_cache *cache, uint64_t space, const struct code_now *now, uint64_t pc,
		       const struct code_location *location, uint32_t row)
{
	struct cached_range *known = ranges_of(cache, space, native_address(pc));

	if (location->to - location->from > UINT32_MAX)
		return;
	memmove(known + 1, known, (CACHED_WAYS - 1) * sizeof(*known));
	*known = (struct cached_range){.from = location->from,
				       .callable = location->callable,
				       .size = (uint32_t)(location->to - location->from),
				       .generation = now->stable,
				       .row = row,
				       .role = location->role};
}

/* --- addresses --- */

/* An answer that is not stable was stored under `all`, a stable one under `stable`; ids never collide, so comparing
 * with both is safe. */
static bool still_holds(const struct cached_location *known, const struct code_now *now, uint64_t pc)
{
	return known->pc == pc && (known->generation == now->stable || known->generation == now->all);
}

/* Moves the entry to the front; the ways before `way` move back by one. */
static const struct cached_location *put(struct cached_location *front, uint32_t way,
					 const struct cached_location *known)
{
	struct cached_location found = *known;

	memmove(front + 1, front, way * sizeof(*front));
	*front = found;
	return front;
}

/* Most hits are in front. A hit in a range becomes an entry of its own, so that the next lookup is shorter. */
const struct cached_location *code_cache__find(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc)
{
	struct cached_location *front = code_cache__front(cache, space, pc), found;
	uint32_t way;

	if (still_holds(front, now, pc))
		return front;
	for (way = 1; way < CACHED_WAYS; way++)
		if (still_holds(&front[way], now, pc))
			return put(front, way, &front[way]);
	return in_range(cache, space, now, pc, &found) ? put(front, CACHED_WAYS - 1, &found) : NULL;
}

const struct cached_location *code_cache__keep(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc, const struct code_location *location, uint32_t row)
{
	const bool stable = location && location->stable;
	const struct cached_location found = {.pc = pc,
					      .callable = location ? location->callable : NULL,
					      .generation = stable ? now->stable : now->all,
					      .row = row,
					      .role = location ? location->role : WEAVE_CODE};

	if (stable && location->to)
		keep_range(cache, space, now, pc, location, row);
	return put(code_cache__front(cache, space, pc), CACHED_WAYS - 1, &found);
}

/* --- names of functions --- */

static bool hash_name(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct known_names *known = holder;

	*ret = hash__pair(&known->seed, known->rows[row].start, known->rows[row].module);
	return true;
}

/* The rows go, the text stays: tables may still borrow it until the epoch ends. */
static void clear_names(struct known_names *known)
{
	known->stale |= known->n > 0;
	slots__clear(&known->by_vaddr);
	known->n = 0;
}

/* Its copy; NULL: there is no room. */
static const char *add_name(struct known_names *known, const struct known_name *name)
{
	const size_t size = strlen(name->name) + 1;
	uint64_t hash;
	char *copy;

	if (known->text.bytes + size > KNOWN_NAMES_BYTES ||
	    ARRAY_RESERVE(known->rows, known->n, known->capacity) ||
	    slots__reserve(&known->by_vaddr, known->n, hash_name, known) || !(copy = arena__take(&known->text, size)))
		return NULL;
	known->rows[known->n] = *name;
	known->rows[known->n].name = memcpy(copy, name->name, size);
	hash_name(known, known->n, &hash);
	slots__enter(&known->by_vaddr, hash, known->n++);
	return copy;
}

/* Into a text of their own: the old one goes as a whole. */
static void retain_used(struct known_names *known)
{
	const uint32_t n = known->n;
	struct arena old = known->text;

	clear_names(known);
	known->text = (struct arena){};
	for (uint32_t i = 0; i < n; i++)
		if (known->rows[i].used)
			add_name(known, &known->rows[i]);
	arena__free(&old);
	known->stale = false;
}

void known_names__new_epoch(struct known_names *known)
{
	if (known->stale || known->text.bytes > KNOWN_NAMES_EPOCH)
		retain_used(known);
	for (uint32_t i = 0; i < known->n; i++)
		known->rows[i].used = false;
}

void known_names__free(struct known_names *known)
{
	arena__free(&known->text);
	free(known->by_vaddr.slots);
	free(known->rows);
}

const struct known_name *known_names__find(struct known_names *known, uint64_t files, uint32_t module, uint64_t start)
{
	const uint64_t hash = hash__pair(&known->seed, start, module);
	const struct slots *slots = &known->by_vaddr;
	uint32_t at, row;

	if (known->files != files)
		return NULL;
	for (at = slots__first(slots, hash); slots__row(slots, at, &row); at = slots__next(slots, at)) {
		struct known_name *name = &known->rows[row];

		if (slots__may(slots, at, hash) && name->start == start && name->module == module) {
			name->used = true;
			return name;
		}
	}
	return NULL;
}

const char *known_names__keep(struct known_names *known, uint64_t files, const struct known_name *name)
{
	struct known_name row = *name;

	if (known->files != files)
		clear_names(known);
	known->files = files;
	row.used = true;
	return add_name(known, &row);
}
