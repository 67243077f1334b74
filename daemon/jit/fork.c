/* SPDX-License-Identifier: MIT */
/* fork(): the child has a copy of all of its parent's JIT code, at the same addresses; from then on the objects of both
 * live and end independently. So the child gets a copy of what is known of the parent, and polls its own list.
 *
 * Called by modules/ when a fork record arrives. The child's objects keep id and origin, so that its functions and
 * unwind tables are the parent's ones. The files (jitdump, perf map) are not copied: the child has its own, by its
 * own pid. */
#include <errno.h>
#include <stdlib.h>

#include "jit/internal.h"

#define ROOM 64u /* for new objects: without it the first one would grow the array by half */

void jit__set_origin(struct jit *jit, uint32_t origin)
{
	jit->origin = origin;
}

static void *copy(const void *from, size_t size)
{
	void *to = malloc(size + 1);

	return to && size ? memcpy(to, from, size) : to;
}

/* Could the object have been there? If it came or went between two polls, the child's own list decides later. */
static bool was_there(const struct jit_life *life, uint64_t time)
{
	return life->born_after < time && (!life->died_by || life->died_by > time);
}

/* n_objects is counted up before the copies are checked, so that jit__free() frees a half-made one. */
static int fork_object(struct jit *to, const struct jit *from, const struct object *object)
{
	struct object *fresh = &to->objects[to->n_objects];
	size_t ranges = object->seen.n_ranges * sizeof(*object->ranges);

	*fresh = *object;
	fresh->ranges = copy(object->ranges, ranges);
	fresh->names = copy(object->names, object->names_len);
	fresh->unwind.eh_frame = object->unwind.eh_frame ? copy(object->unwind.eh_frame, object->unwind.len) : NULL;
	to->n_objects++;
	if (!fresh->ranges || !fresh->names || (object->unwind.eh_frame && !fresh->unwind.eh_frame))
		return -ENOMEM;
	fresh->seen.ranges = fresh->ranges;
	/* if it was taken: the parent has made a table of it, or will */
	fresh->seen.had_unwind = fresh->seen.has_unwind;
	fresh->seen.life.died_after = fresh->seen.life.died_by = 0;
	if (object->list)
		fresh->list = &to->lists[object->list - from->lists];
	return 0;
}

int jit__fork(const struct jit *jit, uint64_t time_ns, struct jit **ret)
{
	struct jit *to;
	int err = jit__new(jit->clock, &to);

	if (err)
		return err;
	to->seed = jit->seed;
	to->next_id = jit->next_id;
	to->origin = jit->origin;
	to->reach = jit->reach;
	to->trampolines = jit->trampolines;
	to->capacity = jit->n_objects + ROOM;
	to->objects = calloc(to->capacity, sizeof(*to->objects));
	err = to->objects ? 0 : -ENOMEM;
	for (uint32_t i = 0; !err && i < jit->n_objects; i++)
		if (was_there(&jit->objects[i].seen.life, time_ns))
			err = fork_object(to, jit, &jit->objects[i]);
	/* Rows of objects that were left out stay: their ids lead to no object. */
	for (uint32_t i = 0; !err && i < JIT_SOURCE_COUNT; i++)
		err = spans__copy(&jit->spans[i], &to->spans[i]);
	for (uint32_t i = 0; !err && i < jit->n_lists; i++) {
		err = list__fork(&jit->lists[i], to, &to->lists[i]);
		to->n_lists += !err;
	}
	if (err) {
		jit__free(to);
		return err;
	}
	registry__recount(to);
	*ret = to;
	return 0;
}
