/* SPDX-License-Identifier: MIT */
/* Counters: of each process the CPUs that it used and how many of its threads waited for the GIL, in bins of time; of
 * the recording samples and losses a second, from ledger to ledger. */
#include "export/perfetto.h"

#include <errno.h>

#include "base/limits.h"

enum { COUNTER_UNIT = 6, TRACK_COUNTER = 8, EVENT_TYPE = 9, EVENT_TRACK = 11, EVENT_VALUE = 44 };
enum { TYPE_COUNTER = 4 };
#define BIN 100000000ull /* ns, in recordings up to BINS_MAX of them; longer ones have longer bins */
#define BINS_MAX 65536u

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

/* Twice as long: two bins become one. */
static void widen(struct perfetto *perfetto)
{
	uint32_t i, bin;

	perfetto->bin *= 2;
	for (i = 0; i < LENGTH(perfetto->bins, struct buf); i++) {
		struct buf *bins = &ITEM(perfetto->bins, struct buf, i);
		struct perfetto_bin *item = (struct perfetto_bin *)bins->data;
		uint32_t n = LENGTH(*bins, struct perfetto_bin);

		for (bin = 0; bin < n; bin++) {
			struct perfetto_bin from = item[bin];

			item[bin] = (struct perfetto_bin){};
			item[bin / 2].cpu += from.cpu;
			item[bin / 2].gil += from.gil;
		}
		bins->len = (n + 1) / 2 * sizeof(*item);
	}
}

/* The bin of a time. */
static struct perfetto_bin *bin_at(struct perfetto *perfetto, uint32_t process, uint64_t time)
{
	struct buf *bins = buf__at(&perfetto->bins, sizeof(struct buf), process);
	struct perfetto_bin *bin;

	if (!perfetto->bin)
		perfetto->bin = BIN;
	while (time / perfetto->bin >= BINS_MAX)
		widen(perfetto);
	bin = bins ? buf__at(bins, sizeof(*bin), time / perfetto->bin) : NULL;
	if (!bin)
		perfetto->err = perfetto->err ?: -ENOMEM;
	return bin;
}

void perfetto__ran(struct perfetto *perfetto, const struct model_thread *thread, uint64_t time, uint64_t cpu)
{
	struct perfetto_bin *bin = bin_at(perfetto, thread->process, time);

	if (bin)
		bin->cpu += cpu;
}

void perfetto__waited(struct perfetto *perfetto, const struct model_thread *thread, uint64_t begin, uint64_t end)
{
	while (begin < end && !perfetto->err) {
		struct perfetto_bin *bin = bin_at(perfetto, thread->process, begin);
		uint64_t next = (begin / perfetto->bin + 1) * perfetto->bin;

		perfetto->err = perfetto->err ?: limits__walk(1);
		if (bin)
			bin->gil += (next < end ? next : end) - begin;
		begin = next;
	}
}

static void put_process(struct perfetto *perfetto, uint32_t process)
{
	const struct buf *bins = &ITEM(perfetto->bins, const struct buf, process);
	const struct perfetto_bin *bin = (const struct perfetto_bin *)bins->data;
	uint64_t parent = perfetto__track(perfetto, TRACK_PROCESS, process), cpu = perfetto__track(perfetto, TRACK_CPU, process);
	uint64_t gil = perfetto__track(perfetto, TRACK_GIL, process);
	uint32_t i, n = LENGTH(*bins, struct perfetto_bin);

	if (!n)
		return;
	describe(perfetto, cpu, parent, "CPU", "CPUs");
	if (perfetto->model.waits_asked)
		describe(perfetto, gil, parent, "waiting for the GIL", "threads");
	/* Values that do not change are written once; the last one ends the counter. */
	for (i = 0; i <= n && !perfetto->err; i++) {
		struct perfetto_bin now = i < n ? bin[i] : (struct perfetto_bin){};

		if (!i || i == n || now.cpu != bin[i - 1].cpu)
			put_value(perfetto, cpu, i * perfetto->bin, (double)now.cpu / (double)perfetto->bin);
		if (perfetto->model.waits_asked && (!i || i == n || now.gil != bin[i - 1].gil))
			put_value(perfetto, gil, i * perfetto->bin, (double)now.gil / (double)perfetto->bin);
	}
}

void perfetto__counters(struct perfetto *perfetto)
{
	uint32_t i;

	for (i = 0; i < LENGTH(perfetto->bins, struct buf) && !perfetto->err; i++)
		put_process(perfetto, i);
}

/* --- the recording --- */

void perfetto__ledger(struct perfetto *perfetto, const struct event_ledger *ledger)
{
	uint64_t time = ledger->time > perfetto->model.origin ? ledger->time - perfetto->model.origin : 0, losses = 0, from = perfetto->ledger_time;
	double seconds = (double)(time - from) / 1e9;
	uint32_t i;

	if (time <= from)
		return;
	for (i = 0; i < ledger->n; i++)
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
