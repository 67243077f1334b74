/* SPDX-License-Identifier: MIT */
/* Code objects that a walk in user space met, by key: their names are read when they are told. */
#include "cprofd/host.h"

enum { SEEN_MAX = 65536 };
static struct seen {
	uint64_t key, code;
} seen[SEEN_MAX];

static struct seen *seen_find(uint64_t key)
{
	struct seen *s = &seen[key >> 20 & (SEEN_MAX - 1)];

	while (s->key && s->key != key)
		if (++s == seen + SEEN_MAX)
			s = seen;
	return s;
}

static inline int py_seen(__u64 key)
{
	return seen_find(key)->key == key;
}
#define PY_SEEN
#include "cprofd/pywalk.h"
