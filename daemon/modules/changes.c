/* SPDX-License-Identifier: MIT */
/* Code whose place was taken by something else, as the kernel tells it when it happens: the end of a
 * library is exact then, and a walk by a list that still had it is cut where it went astray. Where the
 * kernel does not tell, mappings are looked at now and then, and walks are believed. */
#include <string.h>

#include "base/clock.h"
#include "modules/internal.h"

/* Looking takes at most 1/20 of the time. */
#define POLL_SHARE 20u
#define PAUSE_NS (1 * MS)

/* A loader maps the pieces of a library after it found room for all. */
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

static bool meet(const struct change *change, uint64_t start, uint64_t end)
{
	return change->start < end && start < change->end;
}

/* One that no walk can meet any more, else two become one. */
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
	uint32_t low = 0, high = process->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (process->code[mid].end <= start)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The next one from `i` on that meets [start, end): of what is mapped now first, then of what is gone. n + n_gone: none. */
static uint32_t next_met(const struct modules_process *process, uint32_t i, uint64_t start, uint64_t end)
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

/* A look was there first: what it found gone was gone by then, and what it found new came after. */
static bool correct(struct modules_process *process, uint64_t start, uint64_t end, uint64_t time)
{
	bool file = false;
	uint32_t i;

	for (i = next_met(process, first_behind(process, start), start, end); i < process->n + process->n_gone;
	     i = next_met(process, i + 1, start, end)) {
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

/* Does code of a file lie there, as far as is known? What the last look saw first may have come just now, if
 * it was under way. */
static bool is_file_code(struct modules_process *process, uint64_t start, uint64_t end,
			 uint64_t time)
{
	bool file = false;
	uint32_t i;

	for (i = first_behind(process, start); i < process->n && process->code[i].start < end; i++) {
		struct code *code = &process->code[i];

		file |= code->file != NULL;
		if (time <= process->read_end && code->look == process->polls && code->born < time) {
			code->born = time;
			code->exact = true;
		}
	}
	return file;
}

/* In order of time, which they come in but for what two CPUs wrote: what is older than a question
 * is not looked at. */
static void give(struct modules_process *process, uint64_t start, uint64_t end, uint64_t time)
{
	uint32_t i;

	if (process->n_given == GIVEN_MAX)
		memmove(process->given, process->given + 1, --process->n_given * sizeof(process->given[0]));
	for (i = process->n_given++; i && process->given[i - 1].time > time; i--)
		process->given[i] = process->given[i - 1];
	process->given[i] = (struct given){start, end, time};
}

/* Was a file's code seen there once (from entry `i` on)? Whose time it was has to be told
 * apart. What a JIT had there is in no list, and told apart by its objects. */
static bool has_file(const struct modules_process *process, uint32_t i, uint64_t start, uint64_t end)
{
	uint32_t all = process->n + process->n_gone;

	for (i = next_met(process, i, start, end); i < all; i = next_met(process, i + 1, start, end))
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
	/* Where no code was, walks end, and it is looked at then. */
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
	struct modules_process *process;
	uint64_t next = UINT64_MAX;

	for (process = modules->processes; process; process = process->next) {
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
	uint32_t i;

	for (i = 0; i < process->n_changes; i++)
		if (meet(&process->changes[i], start, end) && process->changes[i].time > after)
			return process->changes[i].time;
	return after;
}

uint64_t changes__taken(const struct modules_process *process, uint64_t start, uint64_t end,
			uint64_t after)
{
	uint64_t last = after;
	uint32_t i;

	for (i = process->n_changes; i-- > 0;)
		if (meet(&process->changes[i], start, end) && process->changes[i].time > last)
			last = process->changes[i].time;
	for (i = process->n_given; i-- > 0;)
		if (process->given[i].start < end && start < process->given[i].end &&
		    process->given[i].time > last)
			last = process->given[i].time;
	return last;
}

void changes__published(struct modules_process *process, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < process->n_changes; i++)
		if (!process->changes[i].known && process->changes[i].time <= process->read_at)
			process->changes[i].known = now;
}
