/* SPDX-License-Identifier: MIT */
/* The registry of JIT objects: when each lived (struct jit_life), its names, and rows in spans.c over its code. New
 * code ends older objects at the same addresses; jit__done() frees what ended before the oldest sample.
 *
 * Ids grow, so objects[] is sorted by id and found by binary search. Rows refer to objects by id: a row whose object
 * is gone is skipped, and removed at the next jit__done(). */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/search.h"
#include "jit/internal.h"

int jit__new(uint64_t (*clock)(void), struct jit **ret)
{
	struct jit *jit = calloc(1, sizeof(*jit));
	int err;

	if (!jit)
		return -ENOMEM;
	err = hash_seed__draw(&jit->seed);
	if (err) {
		free(jit);
		return err;
	}
	jit->clock = clock ? clock : clock__now;
	jit->next_id = 1;
	*ret = jit;
	return 0;
}

struct jit *jit__free(struct jit *jit)
{
	if (!jit)
		return NULL;
	for (uint32_t i = 0; i < jit->n_lists; i++)
		list__free(&jit->lists[i]);
	perf_map__free(&jit->perf_map);
	jitdump__free(&jit->dump);
	free(jit->image.bytes);
	registry__free(jit);
	free(jit);
	return NULL;
}

size_t jit__bytes(const struct jit *jit)
{
	size_t bytes = jit->bytes + jit->n_objects * sizeof(*jit->objects);

	for (unsigned i = 0; i < JIT_SOURCE_COUNT; i++)
		bytes += jit->spans[i].total * sizeof(struct span);
	return bytes;
}

void jit__file_ended(struct jit *jit, enum jit_source source, uint64_t time)
{
	*(source == JIT_SOURCE_PERF_MAP ? &jit->perf_map.ended : &jit->dump.ended) = time;
}

/* Index of the first object with an id >= `id`. */
static uint32_t lower(const struct jit *jit, uint32_t id)
{
	return SEARCH(i, jit->n_objects, jit->objects[i].seen.id < id);
}

struct object *registry__get(const struct jit *jit, uint32_t id)
{
	uint32_t at = lower(jit, id);

	return at < jit->n_objects && jit->objects[at].seen.id == id ? &jit->objects[at] : NULL;
}

const struct jit_object *jit__object(const struct jit *jit, uint32_t id)
{
	uint32_t at = lower(jit, id);

	return at < jit->n_objects ? &jit->objects[at].seen : NULL;
}

/* Idempotent. died_by 0 means "lives", so an end at time 0 is stored as 1. */
void registry__end(struct jit *jit, uint32_t id, uint64_t died_after, uint64_t died_by)
{
	struct object *object = registry__get(jit, id);

	if (!object || object->seen.life.died_by)
		return;
	object->seen.life.died_after = died_after > object->seen.life.born_by ? died_after
									     : object->seen.life.born_by;
	object->seen.life.died_by = died_by ? died_by : 1;
	jit->ends++;
}

uint64_t jit__ends(const struct jit *jit)
{
	return jit->ends;
}

struct overlapping {
	struct jit *jit;
	const struct object *fresh;
	bool found;
};

/* Code of an older object at a newer one's addresses is gone, whatever its list says. */
static bool end_older(void *ctx, const struct span *span)
{
	struct overlapping *o = ctx;
	struct object *older = registry__get(o->jit, span->object);

	if (older && span->object < o->fresh->seen.id && !older->seen.life.died_by) {
		registry__end(o->jit, span->object,
			  older->list ? older->list->sound : o->fresh->seen.life.born_after,
			  o->fresh->seen.life.born_by);
		o->found = true;
	}
	return true;
}

void registry__replaced(struct jit *jit, uint64_t start, uint64_t end)
{
	jit->replaced[jit->n_replaced++ % JIT_REPLACED_MAX] = (struct range){start, end};
}

uint32_t jit__replaced(const struct jit *jit, uint64_t *cursor, struct range *ret)
{
	uint64_t from = *cursor;
	uint32_t n = 0;

	*cursor = jit->n_replaced;
	if (jit->n_replaced - from > JIT_REPLACED_MAX)
		return UINT32_MAX;
	for (; from < jit->n_replaced; from++)
		ret[n++] = jit->replaced[from % JIT_REPLACED_MAX];
	return n;
}

bool jit__has_files(const struct jit *jit)
{
	return jit->perf_map.ended || jit->dump.ended;
}

bool jit__has_trampolines(const struct jit *jit)
{
	return jit->trampolines;
}

/* Does another row lie where a new one goes? */
struct taking {
	uint32_t object;
	bool taken;
};

static bool is_others(void *ctx, const struct span *span)
{
	struct taking *taking = ctx;

	taking->taken = span->object != taking->object || span->name != SPAN_NO_NAME;
	return !taking->taken;
}

static bool lives_there(void *ctx, const struct span *span)
{
	struct overlapping *o = ctx;
	const struct object *object = registry__get(o->jit, span->object);

	o->found |= object && !object->seen.life.died_by;
	return !o->found;
}

/* The object ended, and no living object has code where it was. */
bool registry__revived(const struct jit *jit, uint32_t id)
{
	const struct object *object = registry__get(jit, id);
	struct overlapping overlapping = {.jit = (struct jit *)jit};

	if (!object || !object->seen.life.died_by)
		return false;
	for (uint32_t i = 0; i < object->seen.n_ranges; i++)
		spans__each(&jit->spans[object->seen.source], object->ranges[i].start,
			    object->ranges[i].end, lives_there, &overlapping);
	return !overlapping.found;
}

static size_t size_of(const struct object *object)
{
	return object->names_len + object->seen.n_ranges * sizeof(*object->ranges) +
	       (object->unwind.eh_frame ? object->unwind.len : 0);
}

const struct jit_reach *jit__reach(const struct jit *jit)
{
	return &jit->reach;
}

/* Adds a row. If another object of a file had code there, the range counts as replaced (jit__replaced). */
static int add_row(struct jit *jit, enum jit_source source, const struct span *row)
{
	struct taking taking = {.object = row->object};

	reach__add(&jit->reach, row->start, row->start + row->size);
	if (source != JIT_SOURCE_GDB && row->name != SPAN_NO_NAME)
		spans__each(&jit->spans[source], row->start, row->start + row->size, is_others, &taking);
	if (taking.taken)
		registry__replaced(jit, row->start, row->start + row->size);
	return spans__add(&jit->spans[source], row);
}

static int add_rows(struct jit *jit, const struct jit_object *object, const struct jit_image *image)
{
	struct span row = {.object = object->id};
	int err;

	for (uint32_t i = 0; i < image->n_ranges; i++) {
		row.start = image->ranges[i].start;
		row.size = (uint32_t)(image->ranges[i].end - row.start);
		row.name = SPAN_NO_NAME;
		err = add_row(jit, object->source, &row);
		if (err)
			return err;
	}
	for (uint32_t i = 0; i < image->n_symbols; i++) {
		row.start = image->symbols[i].start;
		row.size = image->symbols[i].size;
		row.name = image->symbols[i].name;
		jit->trampolines = jit->trampolines || is_trampoline(object->source, image->names + row.name);
		row.seq = i;
		err = add_row(jit, object->source, &row);
		if (err)
			return err;
	}
	return 0;
}

/* Memory is checked first, for all of it. The id is used up even on error, as rows with it may exist. Older objects
 * are ended last: until then a failure changes nothing that is found. */
int registry__add(struct jit *jit, struct making *making, uint32_t *ret_id)
{
	struct jit_image *image = making->image;
	struct object object = {
		.seen = {
			.id = jit->next_id,
			.origin = jit->origin,
			.source = making->source,
			.life = making->life,
			.ranges = image->ranges,
			.n_ranges = image->n_ranges,
			.n_symbols = image->n_symbols,
			.image = making->address,
			.image_size = making->size,
			.has_lines = image->has_lines,
			.has_unwind = image->unwind.eh_frame != NULL,
			.had_unwind = image->unwind.eh_frame != NULL,
		},
		.ranges = image->ranges,
		.names = image->names,
		.names_len = (uint32_t)image->names_len,
		.n_rows = image->n_ranges + image->n_symbols,
		.unwind = image->unwind,
		.code_index = making->code_index,
		.list = making->list,
	};
	struct overlapping overlapping = {.jit = jit};
	int err;

	if (jit__bytes(jit) + size_of(&object) + object.n_rows * sizeof(struct span) > JIT_BYTES_MAX ||
	    jit->next_id == UINT32_MAX) {
		jit->counts.no_room++;
		return -ENOSPC;
	}
	err = ARRAY_RESERVE(jit->objects, jit->n_objects, jit->capacity);
	if (!err)
		/* if it fails midway: rows without an object are never found */
		err = add_rows(jit, &object.seen, image);
	jit->next_id++;
	if (err)
		return err;
	jit->objects[jit->n_objects++] = object;
	jit->bytes += size_of(&object);
	free(image->symbols);
	*image = (struct jit_image){};
	overlapping.fresh = &jit->objects[jit->n_objects - 1];
	for (uint32_t i = 0; i < object.seen.n_ranges; i++)
		spans__each(&jit->spans[making->source], object.ranges[i].start, object.ranges[i].end,
			    end_older, &overlapping);
	jit->counts.overlaps += overlapping.found;
	if (making->list)
		making->list->drops |= overlapping.found;
	*ret_id = object.seen.id;
	return 0;
}

int jit__take_unwind(struct jit *jit, uint32_t id, struct jit_unwind *ret)
{
	struct object *object = registry__get(jit, id);

	if (!object || !object->unwind.eh_frame)
		return -ENOENT;
	*ret = object->unwind;
	jit->bytes -= object->unwind.len;
	object->unwind = (struct jit_unwind){};
	object->seen.has_unwind = false;
	return 0;
}

/* --- freeing what ended --- */

static void object__free(struct jit *jit, struct object *object)
{
	jit->bytes -= size_of(object);
	free(object->ranges);
	free(object->names);
	free(object->unwind.eh_frame);
}

struct done {
	struct jit *jit;
	uint64_t time;
};

/* Is the row still needed? Not if its object ended, nor in a perf map if a later line covers it. */
static bool still_asked(void *ctx, const struct span *span, const struct span *next)
{
	const struct done *done = ctx;
	struct object *object = registry__get(done->jit, span->object), *later;
	const struct jit_life *life = object ? &object->seen.life : NULL;

	if (!object)
		return false; /* left by registry__add() that failed midway */
	if (life->died_by && life->died_by <= done->time)
		return false;
	if (object->seen.source != JIT_SOURCE_PERF_MAP || !next || next->start != span->start ||
	    next->size < span->size)
		return true;
	later = registry__get(done->jit, next->object);
	if (!later || later->seen.life.born_by > done->time)
		return true;
	object->n_rows--;
	return false;
}

/* spans__retain() may fail for lack of memory: then nothing is freed now, and the next call tries again. */
void jit__done(struct jit *jit, uint64_t time_ns)
{
	struct done done = {.jit = jit, .time = time_ns};
	uint32_t i, n = 0, dead = 0;
	size_t bytes = jit__bytes(jit);

	for (i = 0; i < jit->n_objects; i++) {
		const struct jit_life *life = &jit->objects[i].seen.life;

		dead += life->died_by && life->died_by <= time_ns;
	}
	/* Freeing sorts all rows: only if a quarter of the objects ended, or memory is short. */
	if (dead <= jit->n_objects / 4 && bytes < JIT_BYTES_MAX / 2)
		return;
	for (i = 0; i < JIT_SOURCE_COUNT; i++)
		if (spans__retain(&jit->spans[i], still_asked, &done))
			return;
	for (i = 0; i < jit->n_objects; i++) {
		struct object *object = &jit->objects[i];
		const struct jit_life *life = &object->seen.life;

		if ((life->died_by && life->died_by <= time_ns) ||
		    (!object->n_rows && object->seen.source == JIT_SOURCE_PERF_MAP)) {
			object__free(jit, object);
		} else {
			jit->objects[n++] = *object;
		}
	}
	jit->n_objects = n;
}

void registry__recount(struct jit *jit)
{
	jit->bytes = 0;
	for (uint32_t i = 0; i < jit->n_objects; i++)
		jit->bytes += size_of(&jit->objects[i]);
}

void registry__free(struct jit *jit)
{
	for (uint32_t i = 0; i < jit->n_objects; i++)
		object__free(jit, &jit->objects[i]);
	for (uint32_t i = 0; i < JIT_SOURCE_COUNT; i++)
		spans__free(&jit->spans[i]);
	free(jit->objects);
}
