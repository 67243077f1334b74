/* SPDX-License-Identifier: MIT */
/* Finds the garbage collector of an interpreter without symbols: gc.collect() and PyGC_Collect() both call it, and
 * it is the largest function that they call. The result is a callable with the name "(GC)".
 *
 *    gc.collect (address from its PyMethodDef) --call--> gc_collect_main <--call-- PyGC_Collect (exported)
 *
 * Why not by a pattern of its code: compilers and versions differ too much, and these two callers have been the same
 * since 3.8. With symbols, interpreter_trait() in classes.c knows it by name; the row is added all the same, and
 * agrees. */
#include "classes/search.h"

#include <string.h>

#define COLLECTOR_BYTES 1000u /* the least size; in 3.9 to 3.15 it has 4 to 9 KB */

/* The largest function, above *size, that the one at `at` calls, directly or through `deep` others. */
static uint64_t largest(const struct search *search, const struct code_frames *frames, uint64_t at, uint32_t deep, uint64_t *size)
{
	uint64_t targets[JUMPS_FROM], best = 0, inner;
	uint32_t i, n = jumps__from(search->data, frames, at, true, targets);

	for (i = 0; i < n; i++) {
		const struct code_piece *piece = code_frames__find(frames, targets[i]);

		if (data__is_exported(search->data, targets[i]))
			continue;
		if (piece->size > *size) {
			best = targets[i];
			*size = piece->size;
		}
		inner = deep ? largest(search, frames, targets[i], deep - 1, size) : 0;
		best = inner ? inner : best;
	}
	return best;
}

/* In the table of callables the row has no owner, so its name is shown as it is. */
static int add(struct search *search, uint64_t address)
{
	return search__add(search, address, "", CALLABLE_COLLECTOR_NAME, CALLABLE_COLLECTOR);
}

/* Both entry points call the collector, which is not exported; nothing else that they call is as large
 * (Modules/gcmodule.c, Python/gc.c). */
int search__collector(struct search *search, const struct code_frames *frames)
{
	uint64_t method = 0, exported, a[JUMPS_FROM], b[JUMPS_FROM], best = 0, best_size = 0;
	uint32_t i, j, n, m;
	int err = 0;

	for (i = 0; i < search->n; i++)
		if (!strcmp(search->found[i].name, "gc.collect"))
			method = search->found[i].address;
	if (!method || !data__symbol(search->data, "PyGC_Collect", &exported))
		return 0;
	n = jumps__from(search->data, frames, method, true, a);
	m = jumps__from(search->data, frames, exported, true, b);
	for (i = 0; i < n; i++)
		for (j = 0; j < m; j++) {
			const struct code_piece *piece = code_frames__find(frames, a[i]);

			if (a[i] == b[j] && piece->size > best_size && !data__is_exported(search->data, a[i])) {
				best = a[i];
				best_size = piece->size;
			}
		}
	if (best_size >= COLLECTOR_BYTES)
		return add(search, best);
	/* Each may call a clone of its own, with a constant argument (gcc, 3.8), or a small function in between that
	 * runs the callbacks of gc. */
	for (i = 0; !err && i < 2; i++) {
		best_size = COLLECTOR_BYTES;
		best = largest(search, frames, i ? exported : method, 1, &best_size);
		err = best ? add(search, best) : 0;
	}
	return err;
}
