/* SPDX-License-Identifier: MIT */
/* An arena for the text and an index over it. Names are dropped between two epochs, as nobody borrows one then. */
#include "codemap/known_names.h"

#include <string.h>

#include "base/array.h"

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
	struct known_name row = *name;
	char *copy;

	if (known->text.bytes + size > KNOWN_NAMES_BYTES || !(copy = arena__take(&known->text, size)))
		return NULL;
	row.name = memcpy(copy, name->name, size);
	return SLOTS_ADD(&known->by_vaddr, hash_name, known, known->rows, known->n, known->capacity, row) ? NULL : copy;
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
	uint32_t row;

	if (known->files != files)
		return NULL;
	row = SLOTS_FIND(&known->by_vaddr, i, hash__pair(&known->seed, start, module),
			 known->rows[i].start == start && known->rows[i].module == module);
	if (row == SLOTS_NONE)
		return NULL;
	known->rows[row].used = true;
	return &known->rows[row];
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
