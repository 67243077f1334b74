/* SPDX-License-Identifier: MIT */
/* Copies lie in an arena; the index has their ids and parts of their hashes. */
#include "base/texts.h"

#include <string.h>

#include "base/array.h"

static bool hash_text(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct texts *texts = holder;

	*ret = hash__bytes(&texts->seed, texts->of[row], strlen(texts->of[row]));
	return true;
}

uint32_t texts__id(struct texts *texts, const char *text, size_t len)
{
	uint32_t row;
	uint64_t hash;
	char *copy;

	if (!texts->slots.capacity && hash_seed__draw(&texts->seed))
		return 0;
	hash = hash__bytes(&texts->seed, text, len);
	row = SLOTS_FIND(&texts->slots, i, hash, !strncmp(texts->of[i], text, len) && !texts->of[i][len]);
	if (row != SLOTS_NONE)
		return row + 1;
	if ((texts->most && texts->strings.bytes + len > texts->most) ||
	    ARRAY_RESERVE(texts->of, texts->n, texts->capacity) ||
	    slots__reserve(&texts->slots, texts->n, hash_text, texts))
		return 0;
	copy = arena__take(&texts->strings, len + 1);
	if (!copy)
		return 0;
	memcpy(copy, text, len);
	copy[len] = '\0';
	texts->of[texts->n] = copy;
	slots__enter(&texts->slots, hash, texts->n);
	return ++texts->n;
}

const char *texts__keep(struct texts *texts, const char *text)
{
	uint32_t id = texts__id(texts, text, strlen(text));

	return id ? texts->of[id - 1] : NULL;
}

const char *texts__get(const struct texts *texts, uint32_t id)
{
	return id ? texts->of[id - 1] : "";
}

size_t texts__bytes(const struct texts *texts)
{
	return texts->capacity * sizeof(*texts->of) + texts->slots.capacity * sizeof(uint32_t) + texts->strings.bytes;
}

void texts__free(struct texts *texts)
{
	free(texts->of);
	free(texts->slots.slots);
	arena__free(&texts->strings);
	*texts = (struct texts){.most = texts->most};
}
