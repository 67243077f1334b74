/* SPDX-License-Identifier: MIT */
/* Interning: byte strings -> ids 0, 1, 2 ... in order of first use. This is the keyed table of the whole reading half:
 * frames, stack nodes, threads and rows of tables are each a key with an id. Zero-initialised is empty.
 * Errors: -ENOMEM. */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "base/slots.h"

struct intern {
	struct buf keys;     /* all keys, one after another */
	struct buf ends;     /* size_t for each id: where its key ends */
	uint32_t n;
	struct slots slots;
	struct hash_seed seed; /* drawn with the first slots: the target chooses the names */
};

int intern__id(struct intern *intern, const void *key, size_t len, uint32_t *ret);
/* UINT32_MAX: it is not there. */
uint32_t intern__find(const struct intern *intern, const void *key, size_t len);
/* The element of the array `items` (of `item` bytes each) for the key; zeros at first. NULL: out of memory. Valid until
 * the next call. */
void *intern__item(struct intern *intern, const void *key, size_t len, struct buf *items, size_t item);
/* Valid until the next intern__id(). */
const void *intern__key(const struct intern *intern, uint32_t id, size_t *ret_len);
void intern__free(struct intern *intern);
