/* SPDX-License-Identifier: MIT */
/* Filters samples between the recording and its reader. Each function, frame and stack row gets bits HAS_*
 * when it arrives: a stack has the bits of its parent and of its frame. So testing a sample is one lookup by
 * its stack id.
 *
 *     recording__read() -> filter -> hide -> model        for exporters (filter.h: ids move up by one)
 *     recording__read() -> filter -> encoder              `whole`: a new recording (ids stay)
 *
 * Tables are handed on as a whole, also rows that no sample refers to any more: leaving rows out would mean
 * to renumber all others. */
#include "export/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "export/class_names.h"
#include "export/close.h"
#include "export/pattern.h"
#include "export/places.h"
#include "export/skip.h"


/* What a function, a frame, or any frame of a stack matched. */
#define HAS_FUNCTION 1u
#define HAS_MODULE 2u
#define HAS_HOLE 4u /* a frame "(cut: ...)": frames are missing */
#define HOLE "(cut: " /* how the name of such a frame begins */

/* One filter by name: did anything match, and which names that did not are similar? */
struct name {
	const char *option;
	bool matched;
	struct close close;
};

struct filter {
	struct event_sink sink;
	struct event_sink *next;
	const struct export_options *options;
	bool whole; /* makes a new recording: threads and the window are cut here, not in the model */
	bool noted; /* the row "(left out)" was emitted in this epoch */
	/* HAS_* that the stack of a sample must have; class, thread and compile are tested by other means */
	uint8_t need;
	uint64_t origin, last;	 /* the session's start; the latest time that was read */
	uint64_t kept, kept_whole; /* with `whole`: samples that passed, and those of them with a whole stack */
	struct name class_name, function, module, thread, skip_first;
	struct skip skip;
	uint32_t units, units_before; /* rows of `units` so far; of earlier epochs */
	struct class_names classes;
	struct buf functions, frames, stacks; /* uint8_t: HAS_* by id of the epoch */
	struct buf threads;		      /* bool by thread id: selected by --thread */
	struct buf rows;		      /* rows of the event that is passed on */
};

bool filter__wanted(const struct export_options *options)
{
	return options->class_name || options->function || options->module || options->skip_first;
}

/* --- tables --- */

static int hand_on(struct filter *filter, enum event_kind kind, uint32_t first, uint32_t n,
		   const void *rows)
{
	const struct event event = {.kind = kind, .rows = {first, n, rows}};

	return filter->next->event(filter->next, &event);
}

/* The first row of each table of an epoch: "(left out)", function 0 and frame 0, which is stack 1. Before any
 * other row. */
static int emit_note(struct filter *filter)
{
	const struct function_row function = {FILTER_LEFT_OUT, "", 0, "", FUNCTION_NOTE};
	const struct frame_row frame = {.offset = -1};
	const struct stack_row stack = {};

	if (filter->noted || filter->whole)
		return 0;
	filter->noted = true;
	return hand_on(filter, EVENT_FUNCTIONS, 0, 1, &function)
		       ?: hand_on(filter, EVENT_FRAMES, 0, 1, &frame)
		       ?: hand_on(filter, EVENT_STACKS, 1, 1, &stack);
}

/* How far the row "(left out)" moves the ids of each table. */
static uint32_t shift(const struct filter *filter)
{
	return !filter->whole;
}

/* A copy of the event's rows that may be changed; NULL: out of memory. */
static void *copy(struct filter *filter, const struct event_rows *event, size_t size)
{
	buf__clear(&filter->rows);
	return buf__append(&filter->rows, event->rows, event->n * size) ? NULL : filter->rows.data;
}

/* The bits of a function. Names that do not match are offered as "did you mean", until one matches. */
static uint8_t has(struct filter *filter, const struct function_row *row)
{
	char module[512];
	uint8_t answer = 0;

	if (filter->need & HAS_FUNCTION) {
		if (pattern__function(filter->options->function, row->name))
			answer |= HAS_FUNCTION;
		else if (!filter->function.matched)
			close__offer(&filter->function.close, row->name);
	}
	if (filter->need & HAS_MODULE) {
		/* By the Python module, or by the name of the file: reports print both, so both can be asked
		 * for. */
		place__module(row->kind, row->file, row->module, module, sizeof(module));
		if (pattern__module(filter->options->module, module) ||
		    (row->module[0] && pattern__module(filter->options->module, row->module)))
			answer |= HAS_MODULE;
		else if (!filter->module.matched)
			close__offer(&filter->module.close, module);
	}
	if (row->kind == FUNCTION_NOTE && !strncmp(row->name, HOLE, strlen(HOLE)))
		answer |= HAS_HOLE;
	filter->function.matched |= (answer & HAS_FUNCTION) != 0;
	filter->module.matched |= (answer & HAS_MODULE) != 0;
	return answer;
}

static int on_functions(struct filter *filter, const struct event_rows *event)
{
	const struct function_row *row = event->rows;
	uint32_t i;

	for (i = 0; i < event->n; i++) {
		uint8_t answer = has(filter, &row[i]);

		if (buf__append(&filter->functions, &answer, 1))
			return -ENOMEM;
	}
	return hand_on(filter, EVENT_FUNCTIONS, event->first + shift(filter), event->n, event->rows);
}

static int on_frames(struct filter *filter, const struct event_rows *event)
{
	struct frame_row *row = copy(filter, event, sizeof(*row));
	uint32_t i;

	for (i = 0; row && i < event->n; i++) {
		if (buf__append(&filter->frames, &filter->functions.data[row[i].function], 1))
			return -ENOMEM;
		row[i].function += shift(filter);
	}
	return row ? hand_on(filter, EVENT_FRAMES, event->first + shift(filter), event->n, row) : -ENOMEM;
}

static int on_stacks(struct filter *filter, const struct event_rows *event)
{
	struct stack_row *row = copy(filter, event, sizeof(*row));
	uint32_t i;

	for (i = 0; row && i < event->n; i++) {
		/* stacks.data[0] is the empty stack, which start_epoch() has appended: a root's parent is 0. */
		char answer = (char)(filter->frames.data[row[i].frame] |
				     filter->stacks.data[row[i].parent]);

		if (buf__append(&filter->stacks, &answer, 1))
			return -ENOMEM;
		row[i].frame += shift(filter);
		row[i].parent += row[i].parent ? shift(filter) : 0;
	}
	return row ? hand_on(filter, EVENT_STACKS, event->first + shift(filter), event->n, row) : -ENOMEM;
}

/* The trigger of a compile is a stack id. */
static int on_units(struct filter *filter, const struct event_rows *event)
{
	struct unit_row *row = copy(filter, event, sizeof(*row));
	uint32_t i;

	filter->units += event->n;
	for (i = 0; row && i < event->n; i++)
		row[i].trigger += row[i].trigger ? shift(filter) : 0;
	return row ? hand_on(filter, EVENT_UNITS, event->first, event->n, row) : -ENOMEM;
}

/* --- which samples pass --- */

static int of_class(struct filter *filter, uint32_t id, bool *ret)
{
	const char *name, *want = filter->options->class_name;
	uint32_t known;
	int err;

	*ret = true;
	if (!want)
		return 0;
	err = class_names__id(&filter->classes, id, &known);
	if (err)
		return err;
	name = class_names__name(&filter->classes, known);
	*ret = !strcmp(name, want);
	if (*ret)
		filter->class_name.matched = true;
	else if (!filter->class_name.matched)
		close__offer(&filter->class_name.close, name);
	return 0;
}

/* Is this the unit of a compile that --skip-first leaves out, or inside of one? Units are numbered from 1 in
 * each epoch; skip.rows counts on over all epochs. */
static bool is_skipped(const struct filter *filter, uint32_t unit)
{
	uint32_t row = filter->units_before + unit - 1;

	return unit && row < LENGTH(filter->skip.rows, bool) && ITEM(filter->skip.rows, bool, row);
}

static int passes(struct filter *filter, const struct sample_row *row, bool *ret)
{
	int err = of_class(filter, row->class_id, ret);

	*ret = *ret && ((uint8_t)filter->stacks.data[row->stack] & filter->need) == filter->need;
	*ret = *ret && !is_skipped(filter, row->unit);
	return err;
}

/* --- `whole`: the new recording has only the window; a sample that begins or ends outside of it is shortened --- */

/* Saturates: --window 1e9 on a hostile time must not wrap around. */
static uint64_t low(const struct filter *filter)
{
	uint64_t time;

	return __builtin_add_overflow(filter->origin, filter->options->from, &time) ? UINT64_MAX : time;
}

static uint64_t high(const struct filter *filter)
{
	uint64_t time;

	return !filter->options->to || __builtin_add_overflow(filter->origin, filter->options->to, &time) ? UINT64_MAX : time;
}

static uint64_t within(const struct filter *filter, uint64_t time)
{
	time = time > low(filter) ? time : low(filter);
	return time < high(filter) ? time : high(filter);
}

/* How much of the `ns` before `time` lies in the window. */
static uint64_t part(const struct filter *filter, uint64_t time, uint64_t ns)
{
	uint64_t from = time > ns ? time - ns : 0;

	return within(filter, time) - within(filter, from);
}

/* Shortens the sample's times to the window, as the model does; false: none of it is in the window. */
static bool cut(const struct filter *filter, struct sample_row *row)
{
	/* Taken before the time is moved. The CPU time of others belongs to the instant of the sample. */
	bool inside = row->time >= low(filter) && row->time <= high(filter);
	uint64_t wall = part(filter, row->time, row->wall), cpu = part(filter, row->time, row->cpu);

	if (!filter->options->from && !filter->options->to)
		return true;
	row->time = within(filter, row->time);
	row->wall = wall;
	row->cpu = cpu;
	row->others = inside ? row->others : 0;
	row->given = row->given < cpu ? row->given : cpu;
	return inside || wall || cpu;
}

/* Drops samples that do not pass. The times of the others stay right: a sample says itself how long it is. */
static int keep_samples(struct filter *filter, const struct event_samples *event)
{
	struct event out = {.kind = EVENT_SAMPLES};
	bool pass;
	uint32_t i;
	int err = 0;

	buf__clear(&filter->rows);
	for (i = 0; i < event->n && !err; i++) {
		struct sample_row row = event->rows[i];

		err = passes(filter, &row, &pass);
		if (err || !pass || !ITEM(filter->threads, bool, row.thread) || !cut(filter, &row))
			continue;
		filter->kept++;
		/* The ledger of the new recording: a stack without a note "(cut: ...)" is whole. */
		filter->kept_whole += row.stack && !((uint8_t)filter->stacks.data[row.stack] & HAS_HOLE);
		err = buf__append(&filter->rows, &row, sizeof(row));
	}
	out.samples = (struct event_samples){LENGTH(filter->rows, struct sample_row), (struct sample_row *)filter->rows.data};
	return err || !out.samples.n ? err : filter->next->event(filter->next, &out);
}

/* Other events of the new recording: times are moved into the window, and the ledger counts the samples that passed.
 * Losses and ends of native stacks are known only for the whole session; the latter are left out. */
static int keep_event(struct filter *filter, const struct event *event)
{
	struct event out = *event;
	bool known;

	switch (event->kind) {
	case EVENT_PROCESS:
		out.process.time = within(filter, event->process.time);
		break;
	case EVENT_THREAD:
		out.thread.time = within(filter, event->thread.time);
		break;
	case EVENT_THREAD_END:
		/* Time after a thread's last sample belongs to no stack, so with a filter of samples it
		 * cannot pass. */
		known = !filter__wanted(filter->options) && ITEM(filter->threads, bool, event->ending.id);
		out.ending.wall = known ? part(filter, event->ending.time, event->ending.wall) : 0;
		out.ending.cpu = known ? part(filter, event->ending.time, event->ending.cpu) : 0;
		out.ending.time = within(filter, event->ending.time);
		break;
	case EVENT_PROCESS_END:
		out.ending.time = within(filter, event->ending.time);
		break;
	case EVENT_LEDGER:
		out.ledger.time = within(filter, event->ledger.time);
		out.ledger.samples = filter->kept;
		out.ledger.whole = filter->kept_whole;
		out.ledger.native = out.ledger.native_whole = out.ledger.stops_more = 0;
		out.ledger.n_stops = 0;
		break;
	case EVENT_END:
		out.end.time = within(filter, event->end.time);
		break;
	default:
		break;
	}
	return filter->next->event(filter->next, &out);
}

/* --- samples --- */

static int on_samples(struct filter *filter, const struct event_samples *event)
{
	struct event out = {.kind = EVENT_SAMPLES};
	struct sample_row *row;
	uint32_t i;
	bool pass;
	int err = 0;

	if (filter->whole)
		return keep_samples(filter, event);
	buf__clear(&filter->rows);
	if (buf__append(&filter->rows, event->rows, event->n * sizeof(*row)))
		return -ENOMEM;
	row = (struct sample_row *)filter->rows.data;
	for (i = 0; i < event->n && !err; i++, row++) {
		err = passes(filter, row, &pass);
		/* The stack "(left out)" is in front; the empty stack stays 0. */
		row->call += row->call != 0;
		row->stack += row->stack != 0;
		if (pass)
			continue;
		row->stack = 1;
		row->class_id = row->unit = row->cause = 0;
	}
	out.samples = (struct event_samples){event->n, (struct sample_row *)filter->rows.data};
	return err ? err : filter->next->event(filter->next, &out);
}

static void note_time(struct filter *filter, const struct event *event)
{
	uint64_t time = event->kind == EVENT_END	? event->end.time
			: event->kind == EVENT_LEDGER ? event->ledger.time
			: event->kind == EVENT_SAMPLES && event->samples.n
				? event->samples.rows[event->samples.n - 1].time
				: 0;

	filter->last = time > filter->last ? time : filter->last;
}

/* --- the rest --- */

static int start_epoch(struct filter *filter)
{
	const char none = 0;

	buf__clear(&filter->functions);
	buf__clear(&filter->frames);
	buf__clear(&filter->stacks);
	buf__clear(&filter->threads);
	class_names__epoch(&filter->classes);
	/* Tables begin anew. */
	filter->noted = false;
	filter->units_before = filter->units;
	return buf__append(&filter->stacks, &none, 1); /* the empty stack */
}

static int on_thread(struct filter *filter, const struct event_thread *event)
{
	const char *want = filter->options->thread;
	bool *match = buf__at(&filter->threads, sizeof(*match), event->id);
	char *end = NULL;

	if (!match)
		return -ENOMEM;
	/* The same test as model__passes(); here for `whole`, which has no model. */
	*match = !want || !strcmp(want, event->name) || (*want && strtol(want, &end, 10) == event->tid && !*end);
	filter->thread.matched |= *match;
	if (want && !*match)
		close__offer(&filter->thread.close, event->name);
	return 0;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct filter *filter = (struct filter *)self;
	int err = 0;

	note_time(filter, event);
	switch (event->kind) {
	case EVENT_FUNCTIONS:
		return emit_note(filter) ?: on_functions(filter, &event->rows);
	case EVENT_FRAMES:
		return emit_note(filter) ?: on_frames(filter, &event->rows);
	case EVENT_STACKS:
		return emit_note(filter) ?: on_stacks(filter, &event->rows);
	case EVENT_UNITS:
		return emit_note(filter) ?: on_units(filter, &event->rows);
	case EVENT_SAMPLES:
		return emit_note(filter) ?: on_samples(filter, &event->samples);
	case EVENT_SESSION:
		/* The first session event; a late joiner's stream repeats it. */
		filter->origin = filter->origin ? filter->origin : event->session.monotonic;
		err = start_epoch(filter);
		break;
	case EVENT_EPOCH:
		err = start_epoch(filter);
		break;
	case EVENT_THREAD:
		err = on_thread(filter, &event->thread);
		break;
	case EVENT_CLASSES:
		err = class_names__rows(&filter->classes, &event->rows);
		break;
	default:
		break;
	}
	if (!err && filter->whole)
		return keep_event(filter, event);
	return err ? err : filter->next->event(filter->next, event);
}

static struct name name_of(const char *option, bool matched, const char *want)
{
	return (struct name){.option = option, .matched = matched, .close = {.want = want}};
}

int filter__new(const struct export_options *options, bool whole, int recording_fd,
		struct event_sink *next, struct filter **ret)
{
	struct filter *filter = calloc(1, sizeof(*filter));
	int err;

	if (!filter)
		return -ENOMEM;
	filter->sink.event = on_event;
	filter->next = next;
	filter->options = options;
	filter->whole = whole;
	filter->need = (options->function ? HAS_FUNCTION : 0) | (options->module ? HAS_MODULE : 0);
	/* A filter that was not given counts as matched. */
	filter->class_name = name_of("class", !options->class_name, options->class_name);
	filter->function = name_of("function", !options->function, options->function);
	filter->module = name_of("module", !options->module, options->module);
	filter->thread = name_of("thread", !whole || !options->thread, options->thread);
	err = start_epoch(filter);
	if (options->skip_first)
		err = err ?: skip__find(&filter->skip, recording_fd, options->skip_first);
	filter->skip_first = name_of("skip-first", !options->skip_first || filter->skip.compiles, "");
	if (err) {
		filter__free(filter);
		return err;
	}
	*ret = filter;
	return 0;
}

struct event_sink *filter__sink(struct filter *filter)
{
	return &filter->sink;
}

uint64_t filter__kept(const struct filter *filter)
{
	return filter->kept;
}

uint64_t filter__span(const struct filter *filter)
{
	return filter->last > filter->origin ? filter->last - filter->origin : 0;
}

int filter__missing(const struct filter *filter, struct export_missing *ret)
{
	const struct name *const names[] = {&filter->thread, &filter->class_name, &filter->function,
					    &filter->module, &filter->skip_first};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i]->matched)
			continue;
		ret->option = names[i]->option;
		close__text(&names[i]->close, ret->close, sizeof(ret->close));
		return -ENOENT;
	}
	return 0;
}

struct filter *filter__free(struct filter *filter)
{
	if (!filter)
		return NULL;
	class_names__free(&filter->classes);
	buf__free(&filter->functions);
	buf__free(&filter->frames);
	buf__free(&filter->stacks);
	buf__free(&filter->threads);
	buf__free(&filter->rows);
	skip__free(&filter->skip);
	free(filter);
	return NULL;
}
