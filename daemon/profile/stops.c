/* SPDX-License-Identifier: MIT */
/* A hash table without chains: a location may stand in one of PROBES slots. When all of these are taken, the one that
 * was counted least makes room and its count goes to `more`, so that frequent places stay. */
#include "profile/stops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/safe_text.h"

#define PROBES 16u

#define LOSS_NAME(id, kind, name, sentence) [LOSS_##id] = name,
static const char *const names[LOSS_COUNT] = {CPROFD_LOSSES(LOSS_NAME)};
#undef LOSS_NAME

static bool is_same(const struct stop *a, const struct stop *b)
{
	return a->count && a->module == b->module && a->offset == b->offset && a->loss == b->loss;
}

/* The location's row; where its neighbours are full, that of the least frequent one. */
static struct stop *find(struct stops *stops, const struct stop *wanted)
{
	uint64_t hash = (wanted->offset ^ wanted->module << 40 ^ (uint64_t)wanted->loss << 32) *
			0x9e3779b97f4a7c15ull;
	struct stop *least = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct stop *stop = &stops->items[((hash >> 40) + i) % STOPS_MAX];

		if (is_same(stop, wanted))
			return stop;
		if (!least || stop->count < least->count)
			least = stop;
	}
	stops->more += least->count;
	*least = *wanted;
	least->serial = ++stops->serial;
	return least;
}

/* The location of a stop, with its names. Done once for each location: the result is remembered by pc (stop_memo). An
 * address in no known module is a location of its own. */
static struct stop look_up(struct codemap *codemap, const struct record_header *header, uint64_t pc,
			   uint16_t loss)
{
	uint64_t address = native_address(pc);
	struct code_location location = {.module_name = "", .name = ""};
	struct stop stop = {.loss = loss, .offset = address};

	if (codemap__find(codemap, &header->task, address, header->time, &location))
		return stop;
	stop.module = location.module + 1;
	/* An address in JIT code means nothing later: its function stands for it. */
	stop.offset = location.kind == LOCATION_JIT ? location.start : location.vaddr;
	stop.pending = location.pending;
	text__copy(stop.module_name, sizeof(stop.module_name), location.module_name);
	text__copy(stop.function, sizeof(stop.function), location.name);
	return stop;
}

/* Most stops repeat: the memo spares the lookup. It refers to a row by index and serial number, as that row may have
 * been replaced since. */
void stops__count(struct stops *stops, struct codemap *codemap, uint32_t generation, const struct record_header *header,
		  const struct part_native_frames *native, bool whole, uint16_t loss)
{
	uint64_t pc = native->n ? native->pc[native->n - 1] : NATIVE_EXACT;
	struct stop_memo *memo;
	struct stop wanted, *stop;

	if (!loss && !whole)
		return;
	loss = loss < LOSS_COUNT ? loss : LOSS_RECORD_BAD;
	stops->native++;
	if (!loss) {
		stops->whole++;
		return;
	}
	memo = &stops->memo[((pc ^ generation) * 0x9e3779b97f4a7c15ull >> 40) % STOPS_MEMO];
	stop = &stops->items[memo->stop];
	if (!memo->serial || memo->serial != stop->serial || memo->pc != pc ||
	    memo->generation != generation || memo->loss != loss) {
		wanted = look_up(codemap, header, pc, loss);
		stop = find(stops, &wanted);
		*memo = (struct stop_memo){.pc = pc,
					   .generation = generation,
					   .serial = stop->serial,
					   .stop = (uint32_t)(stop - stops->items),
					   .loss = loss};
	}
	stop->count++;
}

/* A location whose symbols were still being read gets its function's name when the ledger is emitted. */
static void name(struct stop *stop, struct codemap *codemap)
{
	struct code_location location = {.module_name = "", .name = ""};
	int err;

	if (!stop->pending)
		return;
	err = codemap__name(codemap, stop->module - 1, stop->offset, &location);
	stop->pending = err == -EAGAIN;
	if (!err)
		text__copy(stop->function, sizeof(stop->function), location.name);
}

static int by_count(const void *a, const void *b)
{
	const struct stop *x = *(struct stop *const *)a, *y = *(struct stop *const *)b;

	return ORDER(y->count, x->count) ?: (x->serial < y->serial ? -1 : 1);
}

void stops__emit(struct stops *stops, struct codemap *codemap, struct ledger_stop rows[STOPS_LISTED],
		 struct event_ledger *ret)
{
	struct stop *sorted[STOPS_MAX];
	uint32_t n = 0, i;

	for (i = 0; i < STOPS_MAX; i++)
		if (stops->items[i].count)
			sorted[n++] = &stops->items[i];
	qsort(sorted, n, sizeof(sorted[0]), by_count);
	ret->native = stops->native;
	ret->native_whole = stops->whole;
	ret->stops_more = stops->more;
	ret->n_stops = n < STOPS_LISTED ? n : STOPS_LISTED;
	ret->stops = rows;
	for (i = 0; i < n; i++) {
		struct stop *stop = sorted[i];

		if (i < STOPS_LISTED) {
			name(stop, codemap);
			rows[i] = (struct ledger_stop){names[stop->loss], stop->module_name,
						       stop->offset, stop->count, stop->function};
		} else {
			ret->stops_more += stop->count;
		}
	}
}
