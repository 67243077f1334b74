/* SPDX-License-Identifier: MIT */
/* Reports of the sampler that a range of addresses is given away (RECORD_MAP, from the tracepoint
 * mmap:vm_unmapped_area). If code of a library lay there, that library is gone as of that instant. Without the report,
 * cprofd would notice at its next reading of /proc/PID/maps, up to a second later, and meanwhile name the new code by
 * the old file:
 *
 *    time   ---- libA.so at 0x7f..000 ----|report|---- libB.so at 0x7f..000 ----
 *                                         |<-- walks here may have used libA's table: cut -->| list with libB published
 *
 * So a change holds two times: when it happened, and from when on the published list knows of it. Where the kernel has
 * no such tracepoint, mappings are only read now and then, and walks are believed. */
#include <string.h>

#include "base/clock.h"
#include "base/search.h"
#include "modules/internal.h"

/* Reading the mappings may take 1/20 of the time: the pause is 20 times what the last reading took. */
#define POLL_SHARE 20u
#define PAUSE_NS (1 * MS)

/* A loader asks for room for a whole library, and maps its pieces over it afterwards: reading at once would see half of
 * it. */
#define SETTLE_NS (3 * MS)

uint64_t modules__clock(void)
{
	return clock__now();
}

static uint64_t due(const struct modules_process *process)
{
	uint64_t pause = process->poll_ns * POLL_SHARE;

	return process->read_at + (pause > PAUSE_NS ? pause : PAUSE_NS);
}

bool polls__affordable(const struct modules_process *process, uint64_t now)
{
	return now >= due(process);
}

static bool overlaps(const struct change *change, uint64_t start, uint64_t end)
{
	return change->start < end && start < change->end;
}

/* The oldest change goes: no walk can see it any more if a list knows of it. Else it is merged into the next: too
 * large a range only cuts more walks than needed. */
static void make_room(struct modules_process *process)
{
	struct change *changes = process->changes;
	uint32_t last = CHANGES_MAX - 1;

	process->file_answers += changes[0].file;
	if (!changes[0].known) {
		changes[1].start = changes[0].start < changes[1].start ? changes[0].start
								       : changes[1].start;
		changes[1].end = changes[0].end > changes[1].end ? changes[0].end : changes[1].end;
		changes[1].time = changes[0].time;
		changes[1].file |= changes[0].file;
		changes[1].known = 0;
	}
	memmove(changes, changes + 1, last * sizeof(*changes));
	process->n_changes = last;
	process->changes_gone++;
}

/* The first of what is mapped now, in order of addresses, that ends behind `start`. */
static uint32_t first_behind(const struct modules_process *process, uint64_t start)
{
	return SEARCH(i, process->n, process->code[i].end <= start);
}

/* The next mapping from `i` on that overlaps [start, end): first of those that are there, then of those that are gone; n +
 * n_gone: none. */
static uint32_t next_overlap(const struct modules_process *process, uint32_t i, uint64_t start, uint64_t end)
{
	uint32_t all = process->n + process->n_gone;

	if (i < process->n) {
		if (process->code[i].start < end)
			return i;
		i = process->n;
	}
	while (i < all && (process->code[i].start >= end || start >= process->code[i].end))
		i++;
	return i;
}

/* The mappings were read before this report arrived, but after the change: what that reading found gone was gone by
 * `time`, and what it found new came after it. */
static bool correct(struct modules_process *process, uint64_t start, uint64_t end, uint64_t time)
{
	bool file = false;

	for (uint32_t i = next_overlap(process, first_behind(process, start), start, end); i < process->n + process->n_gone;
	     i = next_overlap(process, i + 1, start, end)) {
		struct code *code = &process->code[i];

		if (i < process->n && code->born < time) {
			code->born = time;
			code->exact = true;
		} else if (i >= process->n && code->born < time && code->died > time) {
			code->died = time;
			file |= code->file != NULL;
		}
	}
	return file;
}

/* Does code of a file lie there, as far as is known? A mapping that the last reading saw first may be the new one
 * already, if the change happened while it was reading. */
static bool is_file_code(struct modules_process *process, uint64_t start, uint64_t end,
			 uint64_t time)
{
	bool file = false;

	for (uint32_t i = first_behind(process, start); i < process->n && process->code[i].start < end; i++) {
		struct code *code = &process->code[i];

		file |= code->file != NULL;
		if (time <= process->read_end && code->seen_at_poll == process->polls && code->born < time) {
			code->born = time;
			code->exact = true;
		}
	}
	return file;
}

/* Keeps the ranges in order of time. They nearly come in it: only records of two CPUs may be out of order. */
static void give(struct modules_process *process, uint64_t start, uint64_t end, uint64_t time)
{
	uint32_t i;

	if (process->n_given == GIVEN_MAX)
		memmove(process->given, process->given + 1, --process->n_given * sizeof(process->given[0]));
	for (i = process->n_given++; i && process->given[i - 1].time > time; i--)
		process->given[i] = process->given[i - 1];
	process->given[i] = (struct given){start, end, time};
}

/* Was a file's code seen there once (from entry `i` on)? Then names of before and after have to be told apart by the
 * time. Code of a JIT needs none of this: its objects have times of their own. */
static bool has_file(const struct modules_process *process, uint32_t i, uint64_t start, uint64_t end)
{
	uint32_t all = process->n + process->n_gone;

	for (i = next_overlap(process, i, start, end); i < all; i = next_overlap(process, i + 1, start, end))
		if (process->code[i].file)
			return true;
	return false;
}

void modules_process__mapped(struct modules_process *process, uint64_t start, uint64_t end,
			     uint64_t time)
{
	struct change change = {.start = start, .end = end, .time = time};
	bool seen = process->read_at > time, file;

	if (process->closed || start >= end)
		return;
	process->n_reports++;
	file = seen ? correct(process, start, end, time)
		    : is_file_code(process, start, end, time);
	/* Where no code was, walks end, and the mappings are read then. */
	if (!file && !has_file(process, process->n, start, end)) {
		process->file_answers += has_file(process, first_behind(process, start), start, end);
		give(process, start, end, time);
		return;
	}
	change.file = has_file(process, first_behind(process, start), start, end);
	if (!file) /* no list has code there */
		change.known = time;
	else if (seen && process->list_at > process->read_at && !process->dirty)
		change.known = process->list_at;
	if (process->n_changes == CHANGES_MAX)
		make_room(process);
	process->changes[process->n_changes++] = change;
	process->poll_soon |= process->read_at < time + SETTLE_NS;
}

uint64_t modules__refresh(struct modules *modules, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (struct modules_process *process = modules->processes; process; process = process->next) {
		if (process->closed || process->maps < 0 || !process->poll_soon)
			continue;
		if (polls__affordable(process, now))
			modules_process__poll(modules, process, now);
		if (process->poll_soon && due(process) < next)
			next = due(process);
	}
	return next;
}

bool changes__settle(const struct modules_process *process, uint64_t now)
{
	uint32_t n = process->n_changes;

	return n && now < process->changes[n - 1].time + SETTLE_NS;
}

uint64_t changes__left(const struct modules_process *process, uint64_t start, uint64_t end,
		       uint64_t after)
{
	for (uint32_t i = 0; i < process->n_changes; i++)
		if (overlaps(&process->changes[i], start, end) && process->changes[i].time > after)
			return process->changes[i].time;
	return after;
}

uint64_t changes__taken(const struct modules_process *process, uint64_t start, uint64_t end,
			uint64_t after)
{
	uint64_t last = after;

	for (uint32_t i = process->n_changes; i-- > 0;)
		if (overlaps(&process->changes[i], start, end) && process->changes[i].time > last)
			last = process->changes[i].time;
	for (uint32_t i = process->n_given; i-- > 0;)
		if (process->given[i].start < end && start < process->given[i].end &&
		    process->given[i].time > last)
			last = process->given[i].time;
	return last;
}

void changes__published(struct modules_process *process, uint64_t now)
{
	for (uint32_t i = 0; i < process->n_changes; i++)
		if (!process->changes[i].known && process->changes[i].time <= process->read_at)
			process->changes[i].known = now;
}
