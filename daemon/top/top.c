/* SPDX-License-Identifier: MIT */
/* The live view has the same model and rows as a report. Each turn (about a second) moves what was added
 * since the last one from column GOING to column LAST.
 *
 *     events -> on_event() -> top_units__event()      names of compiles, before the model forgets an epoch
 *                          -> the model -> on_slice() -> rows of frames, threads, classes
 *                          -> add_units()             rows of compiles
 *     each second: top__turn(); for each picture: top__head(), top__rows()
 *
 * Rows are never removed: a program has a bounded number of functions and lines, and a live view should not
 * lose what it has shown. */
#include "top/top.h"

#include <errno.h>
#include <stdlib.h>

#include "aggregate/rows.h"
#include "base/order.h"
#include "events/loss_names.h"
#include "export/callee.h"
#include "export/shown.h"
#include "top/units.h"

/* Columns of a row, all CPU time: the current turn; the last complete turn; since the start or reset, now and at the
 * last turn (which is what is shown). */
enum { GOING, LAST, SINCE, SHOWN, COLUMNS };

struct view {
	struct rows rows;  /* by struct key */
	struct buf frames; /* uint32_t by row: one of its frames; in other views a thread, class or unit */
};

/* Of a view of frames: function and line. Of others: the number of the thread, class or unit, and 0. */
struct key {
	uint32_t function, line;
};

struct top {
	/* first: on_event() casts it to the table */
	struct event_sink sink;
	struct export_options options; /* of the model */
	struct model model;
	struct view views[TOP_VIEW_COUNT];
	struct top_units units;
	uint64_t turned, turn;         /* end of the last turn; its length, ns */
	uint64_t samples, losses;      /* of the last ledger */
	/* samples that came, so far and until the last turn; fewer than `samples` if there was a gap */
	uint64_t taken, taken_before;
	uint64_t shown;                /* samples in the last turn */
	uint64_t cpu;                  /* of all threads, in the last turn */
	/* threads that ran in the last turn */
	uint32_t threads;
	struct buf rows;               /* struct top_row: result of the last top__rows() */
	bool ended;
};

/* --- time into rows --- */

/* Finds or adds the row of a key. `frame` is stored with a new row, for name_row(). */
static int row_of(struct view *view, uint32_t function, uint32_t line, uint32_t frame, uint32_t *ret)
{
	const struct key key = {function, line};
	const uint32_t known = rows__n(&view->rows);
	int err = rows__row(&view->rows, &key, sizeof(key), ret);

	return err || *ret < known ? err : buf__append(&view->frames, &frame, sizeof(frame));
}

/* Cached by frame: most frames were seen a millisecond ago. */
static int row_of_frame(struct top *top, enum top_view by, uint32_t frame, uint32_t *ret)
{
	struct view *view = &top->views[by];
	uint32_t *known = rows__of_frame(&view->rows, frame);
	struct model_frame row;
	int err;

	if (!known)
		return -ENOMEM;
	*ret = *known - 1;
	if (*known)
		return 0;
	row = model__frame(&top->model, frame);
	err = row_of(view, row.function, by == TOP_LINE ? row.line : 0, frame, ret);
	if (!err)
		*known = *ret + 1;
	return err;
}

/* Adds to two columns: the current turn, and since the reset. They are separate, because a reset within a turn must
 * not change the turn. */
static void add(struct view *view, uint32_t row, uint64_t cpu, bool own)
{
	const struct times times = {.cpu = cpu};
	const bool first = rows__first(&view->rows, row);
	static const uint32_t columns[] = {GOING, SINCE};

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		struct row_times *to = rows__times(&view->rows, row, columns[i]);

		if (own)
			times__add(&to->exclusive, &times);
		if (first)
			times__add(&to->inclusive, &times);
	}
}

static int add_frame(struct top *top, enum top_view by, uint32_t frame, uint64_t cpu, bool own)
{
	uint32_t id;
	int err = row_of_frame(top, by, frame, &id);

	if (!err)
		add(&top->views[by], id, cpu, own);
	return err;
}

/* A thread or a class, which are not stacks: own and total are the same. */
static int add_plain(struct view *view, uint32_t number, uint64_t cpu)
{
	uint32_t id;
	int err = row_of(view, number, 0, number, &id);

	if (!err)
		add(view, id, cpu, true);
	return err;
}

/* From the leaf outwards. A function that recurs adds its inclusive time once: rows__stack() was called
 * before. */
static int add_stack(struct top *top, uint32_t stack, uint64_t cpu)
{
	struct callee_finder finder = CALLEE_FINDER_NONE;
	bool own = true, called = true, alone = model__is_alone(&top->model, stack);
	uint32_t callee;
	int err = 0;

	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(&top->model, stack);
		struct model_frame frame = model__frame(&top->model, node.frame);

		stack = node.parent;
		if (!frame__is_shown(frame.kind, alone))
			continue;
		err = add_frame(top, TOP_FUNCTION, node.frame, cpu, own)
			      ?: add_frame(top, TOP_LINE, node.frame, cpu, own);
		if (!err && callee_finder__frame(&finder, &frame, node.frame, &callee))
			err = add_frame(top, TOP_CALLEE, callee, cpu, called);
		/* The callee of the innermost Python frame is what the thread is in now; those farther out
		 * contain it. */
		called &= frame.kind != FUNCTION_PYTHON;
		own = alone = false;
	}
	return err;
}

/* The model's callback for each slice of time: adds it to the rows of all views except units. Also called for
 * time that no tick sampled (export/unsampled.h). */
static int on_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t ns)
{
	struct top *top = model->ctx;

	/* The view is about CPU time. */
	if (!cpu || stack == model->idle || !model__passes(model, thread))
		return 0;
	for (uint32_t i = 0; i < TOP_VIEW_COUNT; i++)
		rows__stack(&top->views[i].rows);
	return add_plain(&top->views[TOP_THREAD], thread->id, cpu)
		       ?: add_plain(&top->views[TOP_CLASS], model->class_now, cpu)
			?: add_stack(top, stack, cpu);
}

/* Adds the samples' time to the rows of their units. */
static int add_units(struct top *top, const struct event_samples *samples)
{
	struct view *view = &top->views[TOP_UNIT];
	uint32_t i, id;
	int err = 0;

	top->taken += samples->n;
	for (i = 0; i < samples->n && !err; i++) {
		struct top_units_walk walk = top_units__walk(&top->units, samples->rows[i].unit);
		uint32_t text;
		bool own;

		rows__stack(&view->rows);
		while (!err && top_units__next(&top->units, &walk, &text, &own)) {
			err = row_of(view, text, 0, text, &id);
			if (!err)
				add(view, id, samples->rows[i].cpu, own);
		}
	}
	return err;
}

/* The name of a compile arrived: moves the time of its provisional row to the row of its name. */
static int rename_unit(struct top *top)
{
	struct view *view = &top->views[TOP_UNIT];
	uint32_t from, to, i;
	int err = row_of(view, top->units.was, 0, top->units.was, &from)
			  ?: row_of(view, top->units.is, 0, top->units.is, &to);

	for (i = 0; i < COLUMNS && !err; i++) {
		struct row_times *was = rows__times(&view->rows, from, i), *is = rows__times(&view->rows, to, i);

		times__add(&is->exclusive, &was->exclusive);
		times__add(&is->inclusive, &was->inclusive);
		*was = (struct row_times){};
	}
	return err;
}

/* A sample that lost only frames or details is not lost. */
static uint64_t lost_samples(const struct event_ledger *ledger)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ledger->n; i++)
		if (loss__is_sample(ledger->lines[i].name))
			sum += ledger->lines[i].count;
	return sum;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct top *top = (struct top *)self;
	int err = top_units__event(&top->units, event, &top->model);

	if (!err && top->units.was != top->units.is)
		err = rename_unit(top);
	if (event->kind == EVENT_SAMPLES && !err)
		err = add_units(top, &event->samples);
	if (event->kind == EVENT_LEDGER) {
		top->samples = event->ledger.samples;
		top->losses = lost_samples(&event->ledger);
	}
	top->ended |= event->kind == EVENT_END;
	return err ? err : top->model.sink.event(&top->model.sink, event);
}

/* --- turns --- */

void top__turn(struct top *top, uint64_t time)
{
	top->cpu = 0;
	/* The first turn has no beginning: its shares are 0. */
	top->turn = top->turned ? time - top->turned : 0;
	top->turned = time;
	top->threads = 0;
	for (uint32_t i = 0; i < TOP_VIEW_COUNT; i++)
		for (uint32_t id = 0; id < rows__n(&top->views[i].rows); id++) {
			/* A row's columns lie behind each other (aggregate/rows.h). */
			struct row_times *columns = rows__times(&top->views[i].rows, id, 0);

			columns[LAST] = columns[GOING];
			columns[SHOWN] = columns[SINCE];
			columns[GOING] = (struct row_times){};
			if (i == TOP_THREAD) {
				top->cpu += columns[LAST].exclusive.cpu;
				top->threads += columns[LAST].exclusive.cpu > 0;
			}
		}
	top->shown = top->taken - top->taken_before;
	top->taken_before = top->taken;
}

void top__reset(struct top *top)
{
	for (uint32_t i = 0; i < TOP_VIEW_COUNT; i++)
		for (uint32_t id = 0; id < rows__n(&top->views[i].rows); id++) {
			struct row_times *columns = rows__times(&top->views[i].rows, id, 0);

			columns[SINCE] = columns[SHOWN] = (struct row_times){};
		}
}

/* --- rows --- */

static void name_row(struct top *top, enum top_view view, uint32_t row, struct top_row *ret)
{
	const uint32_t id = ITEM(top->views[view].frames, uint32_t, row);
	struct model_frame frame;

	switch (view) {
	case TOP_THREAD: {
		const struct model_thread *thread = model__thread(&top->model, id);

		ret->name = thread->name;
		ret->place = "";
		ret->line = (uint32_t)thread->tid;
		break;
	}
	case TOP_CLASS:
		ret->name = class_names__name(&top->model.classes, id);
		ret->place = "";
		break;
	case TOP_UNIT:
		top_units__name(&top->units, id, &ret->name, &ret->place);
		break;
	default:
		frame = model__frame(&top->model, id);
		ret->name = frame.name;
		/* Native code has no file here, but a module. */
		ret->place = *frame.source ? frame.source : frame.module;
		ret->line = view == TOP_LINE ? frame.line : *frame.source ? frame.first_line : 0;
	}
}

/* The largest first. Rows of equal time are ordered by name, line and place, so that they do not change places from
 * one picture to the next. */
static int compare(const void *left, const void *right, void *arg)
{
	const struct top_row *a = left, *b = right;
	enum top_sort sort = *(enum top_sort *)arg;
	bool total = sort == TOP_TOTAL_NOW || sort == TOP_TOTAL;

	/* Rows that did not run in the last turn come last, ordered by their earlier time. */
	if (sort <= TOP_TOTAL_NOW && a->now[total] != b->now[total])
		return a->now[total] > b->now[total] ? -1 : 1;
	return ORDER(b->since[total], a->since[total]) ?: ORDER(b->since[!total], a->since[!total])
		?: strcmp(a->name, b->name) ?: ORDER(a->line, b->line) ?: strcmp(a->place, b->place);
}

int top__rows(struct top *top, enum top_view view, enum top_sort sort, const char *pattern, const struct top_row **ret,
	      uint32_t *ret_n)
{
	const struct view *from = &top->views[view];
	int err = 0;

	buf__clear(&top->rows);
	for (uint32_t i = 0; i < rows__n(&from->rows) && !err; i++) {
		const struct row_times *last = rows__times(&from->rows, i, LAST);
		const struct row_times *since = rows__times(&from->rows, i, SHOWN);
		struct top_row row = {.since = {since->exclusive.cpu, since->inclusive.cpu}};

		/* No time since the reset, and none in the last turn. */
		if (!since->inclusive.cpu && !last->inclusive.cpu)
			continue;
		name_row(top, view, i, &row);
		if (*pattern && !strcasestr(row.name, pattern) && !strcasestr(row.place, pattern))
			continue;
		row.now[0] = top->turn ? (double)last->exclusive.cpu / (double)top->turn : 0;
		row.now[1] = top->turn ? (double)last->inclusive.cpu / (double)top->turn : 0;
		err = buf__append(&top->rows, &row, sizeof(row));
	}
	*ret = (const struct top_row *)top->rows.data;
	*ret_n = (uint32_t)(top->rows.len / sizeof(**ret));
	if (!err && *ret_n)
		qsort_r(top->rows.data, *ret_n, sizeof(**ret), compare, &sort);
	return err;
}

void top__head(struct top *top, struct top_head *ret)
{
	const struct model *model = &top->model;

	/* `reached`: samples per second of CPU time, so it compares with `rate`, however many threads ran. */
	*ret = (struct top_head){.pid = model->pid,
				 .rate = model->rate,
				 .threads = top->threads,
				 .samples = top->samples,
				 .lost = top->losses,
				 .reached = top->cpu ? (double)top->shown * 1e9 / (double)top->cpu : 0,
				 .cpus = top->turn ? (double)top->cpu / (double)top->turn : 0,
				 .gap = model->gap_events,
				 .command = model->command,
				 .ended = top->ended,
				 .reason = model->reason,
				 .detail = model->detail};
	top_units__now(&top->units, ret->unit, sizeof(ret->unit));
}

/* --- itself --- */

int top__new(const char *thread, struct top **ret)
{
	struct top *top = calloc(1, sizeof(*top));
	int err;

	if (!top)
		return -ENOMEM;
	for (uint32_t i = 0; i < TOP_VIEW_COUNT; i++)
		top->views[i].rows.columns = COLUMNS;
	/* Frames are lines, from which both views of code can be made. */
	top->options = (struct export_options){.lines = true, .thread = thread, .readable = true};
	err = model__init_detailed(&top->model, &top->options);
	top->sink.event = on_event;
	top->model.slice = on_slice;
	top->model.epoch = model__no_epoch; /* a live view may run for days */
	top->model.ctx = top;
	if (err)
		top = top__free(top);
	*ret = top;
	return err;
}

struct top *top__free(struct top *top)
{
	if (!top)
		return NULL;
	for (uint32_t i = 0; i < TOP_VIEW_COUNT; i++) {
		rows__free(&top->views[i].rows);
		buf__free(&top->views[i].frames);
	}
	top_units__free(&top->units);
	model__free(&top->model);
	buf__free(&top->rows);
	free(top);
	return NULL;
}

struct event_sink *top__sink(struct top *top) { return &top->sink; }
