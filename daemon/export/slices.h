/* SPDX-License-Identifier: MIT */
/* A thread's slices in the order of time, packed: 6 bytes each, as an hour at 999 Hz has 3.6 million of them. The last
 * one can still grow. Zero-initialised is empty. Private to this directory. Errors: -ENOMEM.
 *
 *     stack * 4 + how     varint    how: 0: it ran all the time, 1: it did not run, 2: its CPU time follows
 *     ns                  varint
 *     cpu                 varint    of 2 alone */
#pragma once

#include "base/buf.h"

struct slice {
	uint32_t stack;
	uint64_t ns, cpu;
};

struct slices {
	struct buf packed; /* all but the last */
	struct slice last;
	uint32_t n;
};

/* Those of a thread, in turn: SLICES(&thread->slices), then slices__next() while it is true. Valid until one is added. */
struct slices_cursor {
	const unsigned char *at, *end;
	const struct slice *last; /* NULL: it was passed */
};

int slices__add(struct slices *slices, const struct slice *slice);
bool slices__next(struct slices_cursor *cursor, struct slice *ret);

static inline struct slices_cursor SLICES(const struct slices *slices)
{
	const unsigned char *packed = (const unsigned char *)slices->packed.data;

	/* Of one slice nothing is packed, and there is no buffer. */
	return (struct slices_cursor){packed, packed ? packed + slices->packed.len : NULL, slices->n ? &slices->last : NULL};
}
