/* SPDX-License-Identifier: MIT */
/* A file that a JIT wrote, fed in pieces: FUZZ_FEED is its reader. The first byte says of which size they come. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "jit/jit.h"

static uint64_t ticks;
static uint64_t fuzz_clock(void) { return ++ticks; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct jit_object *o;
	struct jit_unwind unwind;
	struct jit_function functions[64];
	struct range replaced[JIT_REPLACED_MAX];
	struct jit_found found;
	size_t at, len, piece;
	uint64_t cursor = 0;
	uint32_t i, n;
	struct jit *jit;

	if (!size || jit__new(fuzz_clock, &jit))
		return 0;
	piece = data[0] ? data[0] : 65536;
	for (at = 1; at < size; at += len) {
		len = size - at < piece ? size - at : piece;
		if (FUZZ_FEED(jit, data + at, len))
			break;
	}
	jit__file_ended(jit, JIT_SOURCE_PERF_MAP, ticks);
	jit__jitdump_skip(jit, size);
	jit__replaced(jit, &cursor, replaced);
	for (o = jit__object(jit, 0); o; o = jit__object(jit, o->id + 1)) {
		if (o->n_ranges && !jit__find(jit, o->ranges[0].start, o->life.born_by, &found) &&
		    found.start + found.size <= o->ranges[0].start)
			abort();
		if (!jit__take_unwind(jit, o->id, &unwind))
			free(unwind.eh_frame);
	}
	/* They overlap nowhere. */
	for (at = 0; at < 64; at += 16) {
		n = jit__functions(jit, at << 10, UINT64_MAX, functions, 64);
		for (i = 1; i < n; i++)
			if (functions[i].start - functions[i - 1].start < functions[i - 1].size || functions[i].start < functions[i - 1].start)
				abort();
	}
	for (at = 1; at < size; at++)
		jit__find(jit, (uint64_t)data[at] << (at % 48), ticks, &found);
	jit__done(jit, ticks);
	jit__free(jit);
	return 0;
}
