/* SPDX-License-Identifier: MIT */
/* Each epoch numbers classes of time anew. Maps its ids to ids that hold for the whole recording. */
#include "export/class_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A bound for damaged recordings. Ids beyond it, which cprofd never emits, share one class. */
#define IDS_MAX 65536u

void class_names__epoch(struct class_names *names)
{
	buf__clear(&names->epoch);
}

int class_names__emit(struct class_names *names, uint32_t id, const char *name)
{
	uint32_t known, *to;
	int err;

	/* Not an error: the name is dropped, and class_names__id() gives such ids one common class. */
	if (id >= IDS_MAX)
		return 0;
	to = buf__at(&names->epoch, sizeof(*to), id);
	err = to ? intern__id(&names->names, name, strlen(name) + 1, &known) : -ENOMEM;
	if (!err)
		*to = known + 1;
	return err;
}

int class_names__rows(struct class_names *names, const struct event_rows *rows)
{
	const struct class_row *row = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++)
		err = class_names__emit(names, rows->first + i, row[i].name);
	return err;
}

int class_names__id(struct class_names *names, uint32_t id, uint32_t *ret)
{
	char name[32] = CLASS_NOT_DETERMINED;
	int err = 0;

	id = id < IDS_MAX ? id : IDS_MAX - 1;
	/* A sample may name a class before, or without, its row: the engine never does so, a foreign writer
	 * may. */
	if (names->epoch.len <= id * sizeof(id) || !ITEM(names->epoch, uint32_t, id)) {
		/* 0 is "not determined" in each epoch, without a row of its own. */
		if (id)
			snprintf(name, sizeof(name), "class %u", id);
		err = class_names__emit(names, id, name);
	}
	if (!err)
		*ret = ITEM(names->epoch, uint32_t, id) - 1;
	return err;
}

const char *class_names__name(const struct class_names *names, uint32_t id)
{
	size_t len;

	return intern__key(&names->names, id, &len);
}

void class_names__free(struct class_names *names)
{
	intern__free(&names->names);
	buf__free(&names->epoch);
}
