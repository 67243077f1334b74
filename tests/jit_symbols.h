/* SPDX-License-Identifier: MIT */
/* What only tests ask of daemon/jit: the symbols of one object, in no order. */
#pragma once

#include "jit/internal.h"

typedef void jit_symbol_fn(void *ctx, const char *name, uint64_t start, uint64_t size);

struct each_symbol {
	const struct object *object;
	jit_symbol_fn *fn;
	void *ctx;
};

static inline bool emit_symbol(void *ctx, const struct span *span)
{
	const struct each_symbol *each = ctx;

	if (span->object == each->object->seen.id && span->name != SPAN_NO_NAME)
		each->fn(each->ctx, each->object->names + span->name, span->start, span->size);
	return true;
}

/* Visits all rows of the source, since the rows of one object lie all over the index. */
static inline void jit__each_symbol(const struct jit *jit, uint32_t id, jit_symbol_fn *fn, void *ctx)
{
	struct each_symbol each = {.object = registry__get(jit, id), .fn = fn, .ctx = ctx};

	if (each.object)
		spans__each(&jit->spans[each.object->seen.source], 0, UINT64_MAX, emit_symbol, &each);
}
