/* SPDX-License-Identifier: MIT */
/* Counters: of each process the CPUs that it used and how many of its threads waited for the GIL, in bins of time; of
 * the recording samples and losses a second, from ledger to ledger. */
#include "export/perfetto.h"

#include <errno.h>

#include "base/limits.h"

enum { COUNTER_UNIT = 6, TRACK_COUNTER = 8, EVENT_TYPE = 9, EVENT_TRACK = 11, EVENT_VALUE = 44 };
enum { TYPE_COUNTER = 4 };
#define BIN 100000000ull /* ns, in recordings up to BINS_MAX of them; longer ones have longer bins */
#define BINS_MAX 16384u

struct perfetto_bin {
	uint64_t cpu, gil; /* ns */
};

static void describe(struct perfetto *perfetto, uint64_t track, uint64_t parent, const char *name, const char *unit)
{
	struct buf *message = &perfetto->message, *inner = &perfetto->inner;

	perfetto__describe(perfetto, message, track, parent, name);
	buf__clear(inner);
	perfetto__text(perfetto, inner, COUNTER_UNIT, unit);
	perfetto__message(perfetto, message, TRACK_COUNTER, inner);
	perfetto__packet(perfetto, NO_TIME, PACKET_TRACK, message);
}

static void put_value(struct perfetto *perfetto, uint64_t track, uint64_t time, double value)
{
	struct buf *message = &perfetto->message;
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	buf__clear(message);
	perfetto__number(perfetto, message, EVENT_TYPE, TYPE_COUNTER);
	perfetto__number(perfetto, message, EVENT_TRACK, track);
	perfetto->err = perfetto->err ?: protobuf__fixed64(message, EVENT_VALUE, bits);
	perfetto__packet(perfetto, time, PACKET_EVENT, message);
}

/* --- processes --- */

static uint32_t n_of(const struct perfetto_counts *counts)
{
	return LENGTH(counts->bins, struct perfetto_bin);
}

/* Bins become twice as long: two are one. */
static void widen(struct perfetto *perfetto)
{
	perfetto->bin *= 2;
	for (uint32_t i = 0; i < LENGTH(perfetto->counts, struct perfetto_counts); i++) {
		struct perfetto_counts *counts = &ITEM(perfetto->counts, struct perfetto_counts, i);
		struct perfetto_bin *bins = (struct perfetto_bin *)counts->bins.data;
		uint32_t n = n_of(counts), odd = counts->first % 2;

		for (uint32_t at = 0; at < n; at++) {
			struct perfetto_bin from = bins[at];

			bins[at] = (struct perfetto_bin){};
			bins[(at + odd) / 2].cpu += from.cpu;
			bins[(at + odd) / 2].gil += from.gil;
		}
		counts->first /= 2;
		counts->bins.len = (n + odd + 1) / 2 * sizeof(*bins);
	}
}

/* So many zeros before the first bin: a process that was seen later, and then earlier. */
static int prepend(struct perfetto_counts *counts, uint64_t more)
{
	size_t len = counts->bins.len, size = more * sizeof(struct perfetto_bin);

	if (buf__lengthen(&counts->bins, len + size))
		return -ENOMEM;
	memmove(counts->bins.data + size, counts->bins.data, len);
	memset(counts->bins.data, 0, size);
	counts->first -= more;
	return 0;
}

/* The bin of a time. */
static struct perfetto_bin *bin_at(struct perfetto *perfetto, uint32_t process, uint64_t time)
{
	struct perfetto_counts *counts = buf__at(&perfetto->counts, sizeof(*counts), process);
	struct perfetto_bin *bin = NULL;
	uint64_t at;

	if (!perfetto->bin)
		perfetto->bin = BIN;
	while (time / perfetto->bin >= BINS_MAX)
		widen(perfetto);
	at = time / perfetto->bin;
	if (counts && !n_of(counts))
		counts->first = at;
	if (counts && (at >= counts->first || !prepend(counts, counts->first - at)))
		bin = buf__at(&counts->bins, sizeof(*bin), at - counts->first);
	if (!bin)
		perfetto->err = perfetto->err ?: -ENOMEM;
	return bin;
}

void perfetto__count(struct perfetto *perfetto, uint32_t process, uint64_t begin, uint64_t end, bool gil)
{
	while (begin < end && !perfetto->err) {
		struct perfetto_bin *bin = bin_at(perfetto, process, begin);
		uint64_t next = (begin / perfetto->bin + 1) * perfetto->bin, ns = (next < end ? next : end) - begin;

		perfetto->err = perfetto->err ?: limits__walk(1);
		if (bin)
			*(gil ? &bin->gil : &bin->cpu) += ns;
		begin = next;
	}
}

static void put_process(struct perfetto *perfetto, uint32_t process)
{
	const struct perfetto_counts *counts = &ITEM(perfetto->counts, const struct perfetto_counts, process);
	const struct perfetto_bin *bin = (const struct perfetto_bin *)counts->bins.data;
	uint64_t parent = perfetto__track(perfetto, TRACK_PROCESS, process), cpu = perfetto__track(perfetto, TRACK_CPU, process);
	uint64_t gil = perfetto__track(perfetto, TRACK_GIL, process), time;
	uint32_t i, n = n_of(counts);

	if (!n)
		return;
	describe(perfetto, cpu, parent, "CPU", "CPUs");
	if (perfetto->model.waits_asked)
		describe(perfetto, gil, parent, "waiting for the GIL", "threads");
	/* Values that do not change are written once; the last one ends the counter. */
	for (i = 0; i <= n && !perfetto->err; i++) {
		struct perfetto_bin now = i < n ? bin[i] : (struct perfetto_bin){};

		time = (counts->first + i) * perfetto->bin;
		if (!i || i == n || now.cpu != bin[i - 1].cpu)
			put_value(perfetto, cpu, time, (double)now.cpu / (double)perfetto->bin);
		if (perfetto->model.waits_asked && (!i || i == n || now.gil != bin[i - 1].gil))
			put_value(perfetto, gil, time, (double)now.gil / (double)perfetto->bin);
	}
}

void perfetto__counters(struct perfetto *perfetto)
{
	for (uint32_t i = 0; i < LENGTH(perfetto->counts, struct perfetto_counts) && !perfetto->err; i++)
		put_process(perfetto, i);
}

/* --- the recording --- */

void perfetto__ledger(struct perfetto *perfetto, const struct event_ledger *ledger)
{
	uint64_t time = ledger->time > perfetto->model.origin ? ledger->time - perfetto->model.origin : 0, losses = 0, from = perfetto->ledger_time;
	double seconds = (double)(time - from) / 1e9;

	if (time <= from)
		return;
	for (uint32_t i = 0; i < ledger->n; i++)
		losses += ledger->lines[i].count;
	if (!from) {
		describe(perfetto, perfetto__track(perfetto, TRACK_SAMPLES, 0), 0, "samples", "1/s");
		describe(perfetto, perfetto__track(perfetto, TRACK_LOSSES, 0), 0, "losses", "1/s");
	}
	put_value(perfetto, perfetto__track(perfetto, TRACK_SAMPLES, 0), from, ((double)ledger->samples - (double)perfetto->ledger_samples) / seconds);
	put_value(perfetto, perfetto__track(perfetto, TRACK_LOSSES, 0), from, ((double)losses - (double)perfetto->ledger_losses) / seconds);
	perfetto->ledger_time = time;
	perfetto->ledger_samples = ledger->samples;
	perfetto->ledger_losses = losses;
}
