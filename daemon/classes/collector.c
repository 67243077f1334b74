/* Which function of an interpreter is its collector. */
#include "classes/search.h"

#include <string.h>

#include "classes/jumps.h"

#define COLLECTOR_BYTES 1000u /* 3.9 to 3.15 have 4 to 9 KB of it */

/* What both call may only tell callbacks before and after it calls the collector, which others may call, too. */
static int add_inner_collector(struct search *search, const struct code_frames *frames, uint64_t outer)
{
	uint64_t targets[JUMPS_FROM], best = 0, best_size = COLLECTOR_BYTES;
	const struct code_piece *piece;
	uint32_t i, n = jumps__from(search->data, frames, outer, true, targets);

	for (i = 0; i < n; i++) {
		piece = code_frames__find(frames, targets[i]);
		if (piece->size > best_size && !data__is_exported(search->data, targets[i])) {
			best = targets[i];
			best_size = piece->size;
		}
	}
	return best ? search__add(search, best, "", CALLABLE_COLLECTOR_NAME, CALLABLE_COLLECTOR) : 0;
}

/* gc.collect() and PyGC_Collect() both call the collector, which is no exported function; of what they
 * call else none is as large (Modules/gcmodule.c, Python/gc.c). */
int search__collector(struct search *search, const struct code_frames *frames)
{
	uint64_t method = 0, exported, a[JUMPS_FROM], b[JUMPS_FROM], best = 0, best_size = 0;
	const struct code_piece *piece;
	uint32_t i, j, n, m;

	for (i = 0; i < search->n; i++)
		if (!strcmp(search->found[i].name, "gc.collect"))
			method = search->found[i].address;
	if (!method || !data__symbol(search->data, "PyGC_Collect", &exported))
		return 0;
	n = jumps__from(search->data, frames, method, true, a);
	m = jumps__from(search->data, frames, exported, true, b);
	for (i = 0; i < n; i++)
		for (j = 0; j < m; j++) {
			piece = code_frames__find(frames, a[i]);
			if (a[i] == b[j] && piece->size > best_size && !data__is_exported(search->data, a[i])) {
				best = a[i];
				best_size = piece->size;
			}
		}
	if (!best)
		return 0;
	i = (uint32_t)search__add(search, best, "", CALLABLE_COLLECTOR_NAME, CALLABLE_COLLECTOR);
	return i || best_size >= COLLECTOR_BYTES ? (int)i : add_inner_collector(search, frames, best);
}
