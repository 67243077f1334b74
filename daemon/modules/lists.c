/* SPDX-License-Identifier: MIT */
/* Lists: what a process has mapped, as the sampler's walker reads it (struct unwind_range, include/cprofd/unwind.h).
 * For each range it says which table in which pool describes the code, and what is to be added to its addresses:
 *
 *    0x55d0c0a01000  size 0x2c1000  table in pool 1 of /usr/bin/python3.11   bias 0x55d0c0800000
 *    0x7f14a1e28000  size 0x155000  PENDING: the table of libc.so.6 is still being made
 *    0x7f149c000000  size 0x180     table of JIT object 17
 *
 * A list is published by its address, in the sampler's map `processes`. It is written whole, sorted, into the first
 * pool, and never changed afterwards; the former one is retired. */
#include <string.h>

#include "base/cleanup.h"
#include "modules/internal.h"

/* Words of struct unwind_range.module that are no module's id. */
#define OF_OBJECT 0x80000000u /* + the object's; alone: of a file's functions */

/* Without a table the range is in the list nevertheless: "no rule" and "not yet" are different losses, and both differ
 * from "nothing is mapped". */
static void put_code(struct modules *modules, const struct code *code, struct unwind_entry *to,
		     uint32_t *n)
{
	const struct file *file = code->file;

	to += *n;
	if (file->table.at && code->biased) {
		unwind_entry__make(to, &modules->pools[file->table.pool].room, file->table.pool,
			     file->table.at, code->bias, code->start, code->end);
	} else {
		to->start = code->start;
		to->range = (struct unwind_range){
			.origin = code->start,
			.size = (uint32_t)(code->end - code->start),
			.flags = file__is_pending(file) ? UNWIND_RANGE_PENDING : UNWIND_RANGE_BARE,
		};
	}
	to->range.module = file->seen.id;
	*n += to->range.size != 0;
}

/* Was it there at `time` (NOW: it is)? As jit__find() sees it. */
#define NOW UINT64_MAX
static bool is_of(const struct jit_life *life, uint64_t time)
{
	if (time < life->born_by && time <= life->born_after)
		return false;
	return !life->died_by || time < life->died_by;
}

static void put_object(struct modules *modules, const struct modules_process *process,
		       const struct object *object, uint64_t time, struct unwind_entry *to,
		       uint32_t *n, uint32_t max)
{
	const struct jit_object *o = jit__object(process->jit, object->id);

	if (!o || o->id != object->id || !object->table.at || !is_of(&o->life, time))
		return;
	for (uint32_t i = 0; i < o->n_ranges && *n < max; i++) {
		unwind_entry__make(&to[*n], &modules->pools[object->table.pool].room, object->table.pool,
			     object->table.at, 0, o->ranges[i].start, o->ranges[i].end);
		to[*n].range.module = OF_OBJECT | object->id;
		*n += to[*n].range.size != 0;
	}
}

static int by_start(const void *a, const void *b)
{
	const struct unwind_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->range.module < y->range.module ? 1 : -1; /* the newer object first */
}

/* Sorts n ranges of which the first `sorted` are in order: only the others are sorted, then both are merged from the
 * end. A JIT that adds one object at a time would otherwise sort thousands of ranges for each. Without memory for the
 * copy all are sorted. */
static void put_in_order(struct unwind_entry *entries, uint32_t sorted, uint32_t n)
{
	uint32_t fresh = n - sorted;
	struct unwind_entry *copy = sorted ? malloc(fresh * sizeof(*copy) + 1) : NULL;

	qsort(copy ? entries + sorted : entries, copy ? fresh : n, sizeof(*entries), by_start);
	if (!copy)
		return;
	memcpy(copy, entries + sorted, fresh * sizeof(*copy));
	while (fresh) {
		bool older = sorted && by_start(&entries[sorted - 1], &copy[fresh - 1]) > 0;

		entries[sorted + fresh - 1] = older ? entries[sorted - 1] : copy[fresh - 1];
		sorted -= older;
		fresh -= !older;
	}
	free(copy);
}

/* Ranges that begin within an earlier one are dropped, but for a newer object, which took its place. */
static uint32_t sort(struct unwind_entry *entries, uint32_t sorted, uint32_t n)
{
	struct unwind_entry *last = NULL;
	uint32_t i, kept = 0;

	put_in_order(entries, sorted, n);
	for (i = 0; i < n; i++) {
		uint64_t into = last ? entries[i].start - last->start : 0;

		if (entries[i].start >= UNWIND_NO_START)
			continue;
		if (last && into < last->range.size) {
			if (!into || !(last->range.module & OF_OBJECT) ||
			    entries[i].range.module < last->range.module)
				continue;
			last->range.size = (uint32_t)into;
		}
		last = &entries[kept++];
		*last = entries[i];
	}
	return kept;
}

/* Did all of it lie there at `time`, as modules_process__code() sees it? */
static bool was_there(const struct modules_process *process, const struct code *code, uint64_t time)
{
	return modules_process__code(process, code->start, time) == code &&
	       modules_process__code(process, code->end - 1, time) == code;
}

/* All that was there at `time`, or is there NOW. From all mappings, objects and functions, at most UNWIND_RANGES_MAX
 * ranges. */
static struct unwind_entry *gather(struct modules *modules, const struct modules_process *process,
				    uint64_t time, uint32_t *ret_n)
{
	uint32_t max = process->n + process->n_gone + 1, n = 0, i;
	struct unwind_entry *entries;

	*ret_n = 0;
	max += jit_tables__count(process);
	for (i = 0; i < process->n_objects; i++) {
		const struct jit_object *o = jit__object(process->jit, process->objects[i].id);

		max += o ? o->n_ranges : 0;
	}
	if (max > UNWIND_RANGES_MAX)
		max = UNWIND_RANGES_MAX;
	entries = calloc(max, sizeof(*entries));
	if (!entries)
		return NULL;
	for (i = 0; i < (time == NOW ? process->n : process->n + process->n_gone) && n < max; i++)
		if (process->code[i].file && !files__is_memory(process->code[i].file) &&
		    (time == NOW || was_there(process, &process->code[i], time)))
			put_code(modules, &process->code[i], entries, &n);
	for (i = 0; i < process->n_objects && n < max; i++)
		put_object(modules, process, &process->objects[i], time, entries, &n, max);
	jit_tables__put(modules, process, time, OF_OBJECT, entries, &n, max);
	*ret_n = sort(entries, 0, n);
	return entries;
}

/* The list that is there, and the objects that came since. NULL: all of it has to be gathered. */
static struct unwind_entry *grow(struct modules *modules, const struct modules_process *process, uint32_t *ret_n)
{
	uint32_t listed = process->list && !process->dirty ? unwind_list_ranges(process->list_word) : 0, n = listed, max = n, i;
	struct unwind_entry *entries;

	for (i = process->n_listed; i < process->n_objects; i++) {
		const struct jit_object *o = jit__object(process->jit, process->objects[i].id);

		max += o ? o->n_ranges : 0;
	}
	if (!listed || max > UNWIND_RANGES_MAX)
		return NULL;
	entries = calloc(max, sizeof(*entries));
	if (!entries)
		return NULL;
	ranges__read(process->list, n, entries);
	for (i = process->n_listed; i < process->n_objects; i++)
		put_object(modules, process, &process->objects[i], NOW, entries, &n, max);
	*ret_n = sort(entries, listed, n);
	return entries;
}

struct unwind_entry *lists__at(struct modules *modules, const struct modules_process *process,
				uint64_t time, uint32_t *ret_n)
{
	return gather(modules, process, time, ret_n);
}

/* The key with tgid 0 stands for all processes of the image that have no entry of their own: forked children before
 * their first sample. The eldest process of an image sets it. */
static void notify(struct modules *modules, const struct modules_process *process)
{
	struct unwind_process value = {.list = process->list_word, .salt = process->salt};
	struct native_key key = {.image = process->key, .tgid = (uint64_t)process->pid};

	modules->host->set_process(modules->host, &key, &value);
	key.tgid = 0;
	if (fork__is_eldest(modules, process))
		modules->host->set_process(modules->host, &key, &value);
}

/* The old list's room, unless a forked process still uses it. */
static void retire(struct modules *modules, struct modules_process *process, uint64_t now)
{
	if (process->list && refcount__drop(&process->list_refcount))
		room__retire(modules, UNWIND_POOL_LISTS, process->list, process->list_size, now);
	process->list = NULL;
}

bool lists__share(struct modules *modules, struct modules_process *from,
		  struct modules_process *process, uint64_t now)
{
	struct refcount *refcount;

	if (refcount__share(&from->list_refcount, &refcount))
		return false;
	retire(modules, process, now);
	process->list_refcount = refcount;
	process->list = from->list;
	process->list_size = from->list_size;
	process->list_word = from->list_word;
	process->list_at = from->list_at;
	process->salt = from->salt; /* rules by pc are the same */
	notify(modules, process);
	return true;
}

/* Does the new list only add to the one that is there? Then the sampler's caches of rules stay valid, and the list
 * keeps its number of changes. Not if another process shares the list: it would go on with the same number. */
static bool only_grew(const struct modules_process *process, const struct unwind_entry *entries, uint32_t n)
{
	const struct refcount *refcount = process->list_refcount;

	return process->list && (!refcount || refcount->n == 1) &&
	       ranges__stay(process->list, unwind_list_ranges(process->list_word), entries, n);
}

/* Writes the list into the pool and publishes it. False: no room. */
static bool publish(struct modules *modules, struct modules_process *process, const void *list,
		    size_t size, const struct unwind_entry *entries, uint32_t n, uint64_t now)
{
	struct modules_process *twin = fork__twin(modules, process, list, size);
	struct pool *lists = &modules->pools[UNWIND_POOL_LISTS];
	uint32_t change;
	void *to;

	if (twin)
		return twin == process || lists__share(modules, twin, process, now);
	to = pool__allot(&lists->room, size);
	if (!to)
		return false;
	memcpy(to, list, size);
	change = only_grew(process, entries, n) ? unwind_list_change(process->list_word) : ++modules->change;
	retire(modules, process, now);
	process->list = to;
	process->list_size = size;
	process->list_word = UNWIND_LIST((uint32_t)(((char *)to - lists->memory) / UNWIND_BLOCK), n, change) |
			     (late__awaits_file(process) ? UNWIND_LIST_AWAITS : 0);
	notify(modules, process);
	process->list_at = modules__clock();
	return true;
}

void lists__publish(struct modules *modules, struct modules_process *process, uint64_t now)
{
	_cleanup_free_ struct unwind_entry *entries = NULL;
	uint32_t n;
	size_t size;
	void *list;

	if ((!process->dirty && !process->grown) || !modules->tables || !modules->n_pools) {
		if (!process->dirty)
			changes__published(process, now);
		return;
	}
	entries = grow(modules, process, &n);
	if (!entries)
		entries = gather(modules, process, NOW, &n);
	if (!entries)
		return;
	size = (size_t)ranges__blocks(n) * UNWIND_BLOCK;
	list = calloc(1, size);
	if (list && n && !ranges__write(list, entries, n) &&
	    !publish(modules, process, list, size, entries, n, now)) {
		modules->counts.no_room++; /* tried again when older ones are given back */
	} else {
		process->dirty = process->grown = false;
		process->n_listed = process->n_objects;
		changes__published(process, modules__clock());
		jit_tables__published(process, modules__clock());
	}
	free(list);
}

void lists__drop(struct modules *modules, struct modules_process *process, uint64_t now)
{
	struct native_key key = {.image = process->key, .tgid = (uint64_t)process->pid};
	struct modules_process *next;

	modules->host->set_process(modules->host, &key, NULL);
	retire(modules, process, now);
	if (!fork__is_eldest(modules, process)) /* the entry of those that have none is not its */
		return;
	next = fork__eldest(modules, &process->key);
	key.tgid = 0;
	if (next && next->list)
		notify(modules, next);
	else
		modules->host->set_process(modules->host, &key, NULL);
}
