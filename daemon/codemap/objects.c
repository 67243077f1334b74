/* SPDX-License-Identifier: MIT */
/* Objects of JIT compilers: their numbers, and where their lines are.
 *
 * An object's lines are in the image that the JIT keeps in the target's memory. The namer copies that image while
 * the target runs, so it may have copied something else: the copy counts only if modules/ saw the object alive at a
 * poll after the copy (`certain`). The maker may have ended since a fork: then a child's memory has the same bytes
 * (`heir`). */
#include <errno.h>

#include "base/hash.h"
#include "codemap/internal.h"

static bool hash_object(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct codemap *self = holder;

	*ret = hash__pair(&self->seed, self->objects[row].origin, self->objects[row].object);
	return true;
}

uint32_t objects__number(struct codemap *self, uint64_t origin, uint32_t object)
{
	const struct object_names fresh = {.origin = origin, .object = object};
	uint64_t hash = hash__pair(&self->seed, origin, object);
	uint32_t at, row;

	for (at = slots__first(&self->by_object, hash); slots__row(&self->by_object, at, &row);
	     at = slots__next(&self->by_object, at))
		if (self->objects[row].origin == origin && self->objects[row].object == object)
			return row;
	if (ARRAY_RESERVE(self->objects, self->n_objects, self->objects_capacity) ||
	    slots__reserve(&self->by_object, self->n_objects, hash_object, self))
		return UINT32_MAX;
	self->objects[self->n_objects] = fresh;
	slots__enter(&self->by_object, hash, self->n_objects);
	return self->n_objects++;
}

/* Who made it may be gone, or have dropped it. */
static int image_of(const struct codemap *self, const struct object_names *object, uint64_t *ret_process,
		    struct jit_object *ret, int *ret_mem)
{
	const uint64_t makers[] = {object->origin, object->heir};
	int err = -ENOENT;
	unsigned i;

	for (i = 0; err && i < 2; i++) {
		*ret_process = object->copied ? object->copied : makers[i];
		err = modules__jit_object(self->modules, *ret_process, object->object, ret, ret_mem);
		if (!err && (!ret->has_lines || ret->source != JIT_SOURCE_GDB || ret->life.died_by ||
			     ret->origin != object->origin))
			err = -ENOENT;
	}
	return err;
}

int objects__lines(struct codemap *self, struct object_names *object)
{
	struct jit_object info;
	uint64_t process;
	int mem, err;

	if (object->certain || object->no_lines)
		return object->certain ? 0 : -ENOENT;
	err = image_of(self, object, &process, &info, &mem);
	if (!err && !object->names) {
		object->names = namer__add_object(self->namer, mem, info.image, info.image_size);
		object->copied = object->names ? process : 0;
		err = object->names ? -EAGAIN : -ENOMEM;
	} else if (!err) {
		err = names__ready(object->names);
		if (!err && !object->seen)
			object->seen = self->ticks;
		/* modules/ polls the lists between two ticks. */
		if (!err && object->seen == self->ticks)
			err = -EAGAIN;
		object->certain = !err;
	}
	object->no_lines = err && err != -EAGAIN;
	return err;
}
