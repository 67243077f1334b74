/* SPDX-License-Identifier: MIT */
/* The collector: a bounded arena of records that wait to be flushed. The ring is in order of reservation, which is
 * nearly the order of time: CPUs differ by the length of one interrupt. So sorting is the merging of a few runs.
 *
 * Memory: the arena (records as they came, one after another), and held[] with time and offset of each. held[] is
 * sorted, the records are not moved until compact(). Invariant: offsets in held[] are distinct and each leads to a
 * whole record that was checked. */

#include "base/array.h"
#include "base/buf.h"
#include "base/order.h"
#include "collect/collect.h"

#define RUNS_MAX 8u    /* merged one by one */
#define EXPECTED 1280u /* bytes of a record to prefetch: most are not longer */

/* One record in the arena. `previewed`: the sink has seen it, but does not have it yet. */
struct held {
	uint64_t time;
	uint32_t offset; /* in the arena; ascending in order of arrival */
	bool previewed;
};

struct collector {
	struct collect_sink *sink;
	struct collect_counts counts;
	struct buf arena;
	struct held *held;
	uint32_t n, capacity;
	struct held *aside; /* one of two runs that are merged */
	uint32_t aside_capacity;
	uint64_t newest; /* time of the youngest record passed on */
	struct record_room *unfolded; /* buffer for one unfolded sample */
};

int collector__new(struct collect_sink *sink, struct collector **ret)
{
	struct collector *collector = calloc(1, sizeof(*collector));

	if (!collector)
		return -ENOMEM;
	collector->sink = sink;
	*ret = collector;
	return 0;
}

struct collector *collector__free(struct collector *collector)
{
	if (collector) {
		buf__free(&collector->arena);
		free(collector->held);
		free(collector->aside);
		free(collector->unfolded);
		free(collector);
	}
	return NULL;
}

void collector__counts(const struct collector *collector, struct collect_counts *ret)
{
	*ret = collector->counts;
}

/* The record, unfolded if necessary; NULL: it does not unfold, or no memory. */
static const void *unfolded(struct collector *collector, const void *data, size_t len)
{
	if (!record__is_folded(data, len))
		return data;
	if (!collector->unfolded)
		collector->unfolded = malloc(sizeof(*collector->unfolded));
	return collector->unfolded && !record__unfold(data, len, collector->unfolded) ? collector->unfolded : NULL;
}

/* A held record; it was checked before. */
static const void *held_record(struct collector *collector, const struct held *held)
{
	const struct record_header *header = (const void *)(collector->arena.data + held->offset);

	return unfolded(collector, header, header->size);
}

static int preview(struct collector *collector, struct held *held)
{
	struct sample sample;
	const struct record_header *header = (const void *)(collector->arena.data + held->offset);

	if (held->previewed || header->kind != RECORD_SAMPLE || !collector->sink->preview)
		return 0;
	held->previewed = true;
	record__parse(held_record(collector, held), &sample);
	return collector->sink->preview(collector->sink, &sample);
}

/* By kind. A kind that the sink has no function for is skipped. */
static int hand_on(struct collector *collector, const void *record)
{
	const struct record_header *header = record;
	struct collect_sink *sink = collector->sink;
	struct sample sample;

	switch (header->kind) {
	case RECORD_CODE:
		return sink->code ? sink->code(sink, record) : 0;
	case RECORD_SAMPLE:
		if (!sink->sample)
			return 0;
		record__parse(record, &sample);
		return sink->sample(sink, &sample);
	case RECORD_MAP: /* for other readers of the ring */
	case RECORD_STARTED:
		return 0;
	default:
		return sink->other ? sink->other(sink, header) : 0;
	}
}

static int hold(struct collector *collector, const struct record_header *header)
{
	const struct held held = {header->time, (uint32_t)collector->arena.len, false};
	int err = ARRAY_RESERVE(collector->held, collector->n, collector->capacity)
			  ?: buf__append(&collector->arena, header, header->size);

	if (!err)
		collector->held[collector->n++] = held;
	return err;
}

/* A folded sample is checked unfolded, and held as it came: that is smaller, and it is unfolded again when it is
 * passed on. */
int collector__record(struct collector *collector, const void *data, size_t len)
{
	const struct record_header *header = data;
	const void *whole = unfolded(collector, data, len);
	int err = whole ? record__check(whole, whole == data ? len : sizeof(struct record_room)) : -EBADMSG;

	if (err) {
		collector->counts.bad += err == -EBADMSG;
		return 0;
	}
	if (header->size > COLLECT_ARENA_MAX) {
		collector->counts.bad++;
		return 0;
	}
	collector->counts.records++;
	if (header->kind == RECORD_CODE)
		return hand_on(collector, data);
	if (collector->arena.len + header->size > COLLECT_ARENA_MAX) {
		collector->counts.early_flushes++;
		err = collector__flush(collector, UINT64_MAX);
		if (err)
			return err;
	}
	return hold(collector, header);
}

static int compare_held(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	return ORDER(x->time, y->time) ?: ORDER(x->offset, y->offset);
}

/* The end of the run in order that begins at `begin`. */
static uint32_t run_end(const struct collector *collector, uint32_t begin)
{
	uint32_t i = begin + 1;

	while (i < collector->n && compare_held(&collector->held[i - 1], &collector->held[i]) < 0)
		i++;
	return i < collector->n ? i : collector->n;
}

/* Merges the runs [0, middle) and [middle, end), from the back. The second one is copied out of the way first. */
static int merge(struct collector *collector, uint32_t middle, uint32_t end)
{
	struct held *held = collector->held, *aside;
	uint32_t n = end - middle;

	if (n > collector->aside_capacity) {
		aside = realloc(collector->aside, collector->capacity * sizeof(*aside));
		if (!aside)
			return -ENOMEM;
		collector->aside = aside;
		collector->aside_capacity = collector->capacity;
	}
	aside = collector->aside;
	memcpy(aside, held + middle, n * sizeof(*held));
	while (n && middle)
		held[--end] = compare_held(&held[middle - 1], &aside[n - 1]) > 0 ? held[--middle] : aside[--n];
	memcpy(held, aside, n * sizeof(*held));
	return 0;
}

/* Each CPU's ring is in order, and is emptied in one go: there are a few runs. With more of them, sorting is cheaper.
 * Ties keep the order of arrival. */
static void sort(struct collector *collector)
{
	uint32_t end = run_end(collector, 0), next, runs;

	for (runs = 1; end < collector->n; runs++, end = next) {
		next = run_end(collector, end);
		if (runs == RUNS_MAX || merge(collector, end, next)) {
			qsort(collector->held, collector->n, sizeof(*collector->held), compare_held);
			return;
		}
	}
}

/* Moves the remaining records to the front of the arena, in order of arrival. */
static void compact(struct collector *collector, size_t done)
{
	size_t used = 0, i;

	if (!done)
		return;
	collector->n -= done;
	memmove(collector->held, collector->held + done, collector->n * sizeof(*collector->held));
	if (!collector->n) {
		collector->arena.len = 0;
		return;
	}
	/* In order of offsets, so that no move overwrites a record that is still to be moved. `time` is the key for
	 * compare_held() meanwhile; it is restored from the record. */
	for (i = 0; i < collector->n; i++) {
		struct held *held = &collector->held[i];

		held->time = held->offset;
	}
	qsort(collector->held, collector->n, sizeof(*collector->held), compare_held);
	for (i = 0; i < collector->n; i++) {
		struct held *held = &collector->held[i];
		struct record_header *header = (void *)(collector->arena.data + held->offset);
		uint32_t size = header->size;

		held->time = header->time;
		memmove(collector->arena.data + used, header, size);
		held->offset = (uint32_t)used;
		used += size;
	}
	collector->arena.len = used;
}

int collector__preview(struct collector *collector, uint64_t up_to)
{
	int err = 0;

	sort(collector);
	for (size_t i = 0; !err && i < collector->n && collector->held[i].time <= up_to; i++)
		err = preview(collector, &collector->held[i]);
	return err;
}

size_t collector__held(const struct collector *collector)
{
	return collector->arena.len;
}

/* Prefetches a record. It was written some 100 ms ago, so it is in no cache; handling the one before takes about as
 * long as loading it. */
static void expect(const struct collector *collector, size_t i)
{
	const char *record;

	if (i >= collector->n)
		return;
	record = collector->arena.data + collector->held[i].offset;
	for (uint32_t at = 0; at < EXPECTED && collector->held[i].offset + at < collector->arena.len; at += 64)
		__builtin_prefetch(record + at);
}

/* A record counts as done before the sink is called: one that the sink refuses is not offered again. */
int collector__flush(struct collector *collector, uint64_t up_to)
{
	size_t done = 0;
	int err = 0;

	sort(collector);
	while (!err && done < collector->n && collector->held[done].time <= up_to) {
		struct held *held = &collector->held[done++];

		expect(collector, done);
		if (held->time < collector->newest)
			collector->counts.late++;
		else
			collector->newest = held->time;
		err = preview(collector, held) ?: hand_on(collector, held_record(collector, held));
	}
	compact(collector, done);
	return err;
}
