/* SPDX-License-Identifier: MIT */
/* Adds up times for the summary, straight from the events. The summary is printed after every recording, so
 * it must be cheap: it does without the model that exporters need. Within an epoch, each sample adds its
 * weight to one node of the stack tree; at the end of the epoch, fold_epoch() adds the nodes' weights to the
 * functions on their paths.
 *
 * So the cost is one addition for each sample, and one walk to the root for each node that has time, not for
 * each sample: a recording of ten minutes has some 600,000 samples and some 20,000 such nodes.
 *
 * Ids in the events are trusted here: the decoder (events/) has checked that each refers to an earlier row. */
#include <errno.h>

#include "aggregate/rows.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/intern.h"
#include "base/order.h"
#include "base/safe_text.h"
#include "cli/tally.h"
#include "export/class_names.h"
#include "export/shown.h"

/* A node of the stack tree; its number is the stack id of the event `stacks`. Node 0 is the root, which has
 * no frame. */
struct node {
	uint32_t parent, function; /* function: in tally.rows */
	uint32_t place;            /* the node that shows its time: itself, or the nearest shown ancestor */
	bool interpreter;          /* an interpreter frame: shown only in stacks without Python */
	bool python;               /* it or an ancestor is a Python frame */
	uint64_t self;
};

/* Flags in the uppermost bits of a row number, in `names` and `frames`. */
#define INTERPRETER 0x80000000u
#define PYTHON 0x40000000u

/* The start of a process or thread is rounded to 10 ms: the one read from /proc is in USER_HZ ticks. */
#define START_TICK_NS 10000000u

struct tally {
	struct event_sink sink;
	struct tally_result result;
	/* ns, CLOCK_MONOTONIC, of the session's start */
	uint64_t begin;
	bool waits;           /* waits of all threads are recorded */
	struct thread_sums *thread_sums;
	struct thread_ids ids;
	/* names of losses and versions; until the tally is freed */
	struct arena strings;
	/* of the current epoch */
	struct buf names;  /* uint32_t: function row -> tally.rows */
	struct buf frames; /* uint32_t: frame row -> tally.rows, and INTERPRETER or PYTHON */
	struct buf nodes;  /* struct node, by stack id */
	/* of the whole recording */
	struct rows rows;     /* one per function; the key is line, name, file */
	struct buf key;		 /* scratch buffer for such a key */
	struct buf functions; /* struct tally_function: rows with exclusive time, sorted, after the last event */
	struct buf losses;	 /* struct tally_loss */
	struct intern threads, processes; /* see add_known() */
	struct class_names class_names;
	struct buf classes;	 /* struct tally_class, by class_names' ids */
};

static char *keep(struct tally *tally, const char *string)
{
	size_t size = strlen(string) + 1;
	char *copy = arena__take(&tally->strings, size);

	return copy ? memcpy(copy, string, size) : NULL;
}

/* The row of a function, new or known. The key is line, name and file: the same in all epochs, whose ids
 * differ. */
static int function_index(struct tally *tally, const struct function_row *row, uint32_t *ret)
{
	buf__clear(&tally->key);
	return buf__append(&tally->key, &row->line, sizeof(row->line)) ?: buf__append(&tally->key, row->name, strlen(row->name) + 1)
	       ?: buf__append(&tally->key, row->file, strlen(row->file) + 1) ?: rows__row(&tally->rows, tally->key.data, tally->key.len, ret);
}

/* Valid until the next new row. */
static struct tally_function function_at(const struct tally *tally, uint32_t row)
{
	const struct row_times *times = rows__times(&tally->rows, row, 0);
	const char *key = rows__key(&tally->rows, row);
	struct tally_function function = {.self = times->exclusive.cpu, .total = times->inclusive.cpu};

	memcpy(&function.line, key, sizeof(function.line));
	function.name = key + sizeof(function.line);
	function.file = function.name + strlen(function.name) + 1;
	return function;
}

/* With --lines a row is a line of a function: the same key, with the line in place of the function's first
 * line. */
static int line_index(struct tally *tally, uint32_t function, uint32_t line, uint32_t *ret)
{
	const struct tally_function of = function_at(tally, function);
	const struct function_row row = {.name = of.name, .file = of.file, .line = line};

	return function_index(tally, &row, ret); /* copies the strings before adding a row may move them */
}

/* The same rule as in reports (export/shown.h); here only two kinds need to be told apart. */
static bool is_shown(const struct tally *tally, uint32_t id, bool innermost)
{
	const struct node *node = &ITEM(tally->nodes, struct node, id);

	return frame__is_shown(node->interpreter ? FUNCTION_INTERPRETER : FUNCTION_NATIVE, innermost && !node->python);
}

/* Adds each node's weight to the functions on its path: exclusive to the leaf, inclusive to each function once. */
static void fold_epoch(struct tally *tally)
{
	for (uint32_t id = 1; id < LENGTH(tally->nodes, struct node); id++) {
		const struct node *leaf = &ITEM(tally->nodes, struct node, id);
		const struct times times = {.cpu = leaf->self};

		if (!leaf->self)
			continue;
		/* Begins a path: rows__inclusive() counts a function once until the next such call, however
		 * often it recurs. */
		rows__stack(&tally->rows);
		rows__exclusive(&tally->rows, leaf->function, 0, &times);
		for (uint32_t at = id; at; at = ITEM(tally->nodes, struct node, at).parent)
			if (is_shown(tally, at, at == id))
				rows__inclusive(&tally->rows, ITEM(tally->nodes, struct node, at).function, 0, &times);
	}
	buf__clear(&tally->names);
	buf__clear(&tally->frames);
	/* All nodes but the root are forgotten: ids start again in the next epoch. */
	tally->nodes.len = sizeof(struct node);
}

static int add_functions(struct tally *tally, const struct event_rows *event)
{
	const struct function_row *rows = event->rows;

	/* Ids of a table are consecutive over its events: this one has `first` to `first` + `n` - 1. */
	if (buf__lengthen(&tally->names, (event->first + event->n) * sizeof(uint32_t)))
		return -ENOMEM;
	for (uint32_t i = 0; i < event->n; i++) {
		uint32_t *name = &ITEM(tally->names, uint32_t, event->first + i);

		if (function_index(tally, &rows[i], name))
			return -ENOMEM;
		if (rows[i].kind == FUNCTION_INTERPRETER)
			*name |= INTERPRETER;
		else if (rows[i].kind == FUNCTION_PYTHON)
			*name |= PYTHON;
	}
	return 0;
}

static int add_frames(struct tally *tally, const struct event_rows *event)
{
	const struct frame_row *rows = event->rows;

	if (buf__lengthen(&tally->frames, (event->first + event->n) * sizeof(uint32_t)))
		return -ENOMEM;
	for (uint32_t i = 0; i < event->n; i++) {
		uint32_t *frame = &ITEM(tally->frames, uint32_t, event->first + i), line;

		*frame = ITEM(tally->names, uint32_t, rows[i].function);
		if (!tally->result.lines || !rows[i].line)
			continue;
		if (line_index(tally, *frame & ~(INTERPRETER | PYTHON), rows[i].line, &line))
			return -ENOMEM;
		*frame = line | (*frame & (INTERPRETER | PYTHON));
	}
	return 0;
}

static int add_stacks(struct tally *tally, const struct event_rows *event)
{
	const struct stack_row *rows = event->rows;

	if (buf__lengthen(&tally->nodes, (event->first + event->n) * sizeof(struct node)))
		return -ENOMEM;
	for (uint32_t i = 0; i < event->n; i++) {
		uint32_t function = ITEM(tally->frames, uint32_t, rows[i].frame), id = event->first + i;

		ITEM(tally->nodes, struct node, id) = (struct node){
			.parent = rows[i].parent,
			.function = function & ~(INTERPRETER | PYTHON),
			.place = id,
			.interpreter = function & INTERPRETER,
			/* Inherited, so that is_shown() need not walk to the root: rows[i].parent is an
			 * earlier node. */
			.python = function & PYTHON || ITEM(tally->nodes, struct node, rows[i].parent).python,
		};
		/* The parent's place is known already and is itself a shown node, so one step is enough. */
		if (!is_shown(tally, id, true))
			ITEM(tally->nodes, struct node, id).place = ITEM(tally->nodes, struct node, rows[i].parent).place;
	}
	return 0;
}

/* What a sample counts for, in ns. In CPU mode, waits are recorded for the elapsed time of compiles only: they count
 * no wall time here. */
static uint64_t weight(const struct tally *tally, const struct sample_row *row)
{
	return row->cause && tally->waits ? row->wall : sample__weight(row->cpu, row->given, row->others);
}

static int add_to_class(struct tally *tally, const struct sample_row *row)
{
	struct tally_class *class;
	uint32_t id;
	int err = class_names__id(&tally->class_names, row->class_id, &id);

	if (err)
		return err;
	class = buf__at(&tally->classes, sizeof(*class), id);
	if (!class)
		return -ENOMEM;
	class->cpu += weight(tally, row);
	return 0;
}

/* A sample costs one addition to its node. */
static int add_samples(struct tally *tally, const struct event_samples *event)
{
	int err;

	for (uint32_t i = 0; i < event->n; i++) {
		const struct sample_row *row = &event->rows[i];

		tally->result.cpu += row->cpu;
		tally->result.wall += row->wall;
		tally->result.seen += !row->cause; /* a tick */
		tally->result.waits += row->cause && tally->waits;
		/* Until the event `end` brings the exact value; it is all that a recording has that was cut
		 * off. */
		tally->result.span = row->time > tally->begin ? row->time - tally->begin : 0;
		/* Its CPU time stays in the sums above. Only its waits are kept out of functions and classes,
		 * and a thread that hardly ran has hardly anything else. */
		if (tally->thread_sums && thread_sums__is_quiet(tally->thread_sums, thread_ids__thread(&tally->ids, row->thread))) {
			tally->result.quiet += row->wall;
			continue;
		}
		if (row->stack)
			ITEM(tally->nodes, struct node, ITEM(tally->nodes, struct node, row->stack).place).self += weight(tally, row);
		err = add_to_class(tally, row);
		if (err)
			return err;
	}
	return 0;
}

/* Copied, as strings of an event are valid only during the call. */
static void set_stops(struct tally *tally, const struct event_ledger *event)
{
	struct tally_result *result = &tally->result;

	result->native = event->native;
	result->native_whole = event->native_whole;
	result->n_stops = event->n_stops < TALLY_STOPS ? event->n_stops : TALLY_STOPS;
	for (uint32_t i = 0; i < result->n_stops; i++) {
		const struct ledger_stop *from = &event->stops[i];
		struct tally_stop *to = &result->stops[i];

		text__copy(to->loss, sizeof(to->loss), from->loss);
		text__copy(to->module, sizeof(to->module), from->module);
		text__copy(to->function, sizeof(to->function), from->function);
		to->offset = from->offset;
		to->count = from->count;
	}
}

static int set_losses(struct tally *tally, const struct event_ledger *event)
{
	tally->result.samples = event->samples;
	tally->result.whole = event->whole;
	set_stops(tally, event);
	if (buf__lengthen(&tally->losses, event->n * sizeof(struct tally_loss)))
		return -ENOMEM;
	/* buf__lengthen() never shortens; a later ledger may have fewer names. */
	tally->losses.len = event->n * sizeof(struct tally_loss);
	for (uint32_t i = 0; i < event->n; i++) {
		struct tally_loss *loss = &ITEM(tally->losses, struct tally_loss, i);

		/* A ledger has running totals, mostly with the same names in the same order: copy a name only
		 * if it changed. */
		if (!loss->name || strcmp(loss->name, event->lines[i].name))
			loss->name = keep(tally, event->lines[i].name);
		if (!loss->name)
			return -ENOMEM;
		loss->count = event->lines[i].count;
	}
	return 0;
}

/* A process or thread is emitted again after exec and in each epoch, but counts once. Its id and its start identify
 * it. */
static int add_known(struct intern *all, int32_t id, uint64_t start)
{
	const uint64_t key[] = {(uint64_t)id, start / START_TICK_NS};
	uint32_t number;

	return intern__id(all, key, sizeof(key), &number);
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct tally *tally = (struct tally *)self;

	switch (event->kind) {
	case EVENT_SESSION:
		tally->begin = event->session.monotonic;
		tally->waits = event->session.idle || !strcmp(event->session.mode, "wall");
		tally->result.rate = event->session.rate;
		return 0;
	case EVENT_EPOCH:
		fold_epoch(tally);
		return 0;
	case EVENT_PROCESS:
		if (event->process.unsupported && *event->process.unsupported && !tally->result.unsupported &&
		    !(tally->result.unsupported = keep(tally, event->process.unsupported)))
			return -ENOMEM;
		return add_known(&tally->processes, event->process.pid, event->process.start);
	case EVENT_THREAD:
		if (tally->thread_sums && thread_ids__add(&tally->ids, tally->thread_sums, &event->thread))
			return -ENOMEM;
		return add_known(&tally->threads, event->thread.tid, event->thread.start);
	case EVENT_FUNCTIONS:
		return add_functions(tally, &event->rows);
	case EVENT_FRAMES:
		return add_frames(tally, &event->rows);
	case EVENT_STACKS:
		return add_stacks(tally, &event->rows);
	case EVENT_SAMPLES:
		return add_samples(tally, &event->samples);
	case EVENT_CLASSES:
		return class_names__rows(&tally->class_names, &event->rows);
	case EVENT_THREAD_END:
		tally->result.wall += event->ending.wall;
		if (tally->thread_sums && thread_sums__is_quiet(tally->thread_sums, thread_ids__thread(&tally->ids, event->ending.id)))
			tally->result.quiet += event->ending.wall;
		tally->result.cpu += event->ending.cpu;
		/* What a thread ran after its last sample comes with its end. It is CPU time, though no
		 * sample has it. */
		tally->result.unsampled += event->ending.cpu;
		return 0;
	case EVENT_LEDGER:
		return set_losses(tally, &event->ledger);
	case EVENT_GAP:
		tally->result.gap_events += event->gap.events;
		return 0;
	case EVENT_END:
		tally->result.span =
			event->end.time > tally->begin ? event->end.time - tally->begin : 0;
		return 0;
	default:
		return 0;
	}
}

int tally__new(bool lines, struct thread_sums *thread_sums, struct tally **ret)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return -ENOMEM;
	tally->sink.event = on_event;
	tally->rows.columns = 1;
	tally->result.lines = lines;
	tally->thread_sums = thread_sums;
	tally->result.quiet_threads = thread_sums ? thread_sums__quiet(thread_sums) : 0;
	/* Node 0 is the empty stack. */
	if (buf__lengthen(&tally->nodes, sizeof(struct node))) {
		free(tally);
		return -ENOMEM;
	}
	*ret = tally;
	return 0;
}

void tally__free(struct tally *tally)
{
	if (!tally)
		return;
	thread_ids__free(&tally->ids);
	buf__free(&tally->names);
	buf__free(&tally->frames);
	buf__free(&tally->nodes);
	rows__free(&tally->rows);
	buf__free(&tally->functions);
	buf__free(&tally->key);
	buf__free(&tally->losses);
	intern__free(&tally->threads);
	intern__free(&tally->processes);
	class_names__free(&tally->class_names);
	buf__free(&tally->classes);
	arena__free(&tally->strings);
	free(tally);
}

struct event_sink *tally__sink(struct tally *tally)
{
	return &tally->sink;
}

/* By exclusive, then inclusive time, then name: the order does not depend on the order of ids. */
static int heavier(const void *a, const void *b)
{
	const struct tally_function *x = a, *y = b;

	return ORDER(y->self, x->self) ?: ORDER(y->total, x->total)
		?: strcmp(x->name, y->name) ?: strcmp(x->file, y->file) ?: ORDER(x->line, y->line);
}

static int longer(const void *a, const void *b)
{
	const struct tally_class *x = a, *y = b;

	return x->cpu < y->cpu ? 1 : x->cpu > y->cpu ? -1 : strcmp(x->name, y->name);
}

int tally__finish(struct tally *tally, struct tally_result *ret)
{
	struct tally_class *classes = (void *)tally->classes.data;
	uint32_t i, n = LENGTH(tally->classes, struct tally_class);

	for (i = 0; i < n; i++)
		classes[i].name = class_names__name(&tally->class_names, i);
	if (n)
		qsort(classes, n, sizeof(*classes), longer);
	tally->result.classes = classes;
	tally->result.n_classes = n;
	fold_epoch(tally);
	buf__clear(&tally->functions);
	for (i = 0; i < rows__n(&tally->rows); i++) {
		const struct tally_function function = function_at(tally, i);

		if (function.self && buf__append(&tally->functions, &function, sizeof(function)))
			return -ENOMEM;
	}
	n = LENGTH(tally->functions, struct tally_function);
	if (n)
		qsort(tally->functions.data, n, sizeof(struct tally_function), heavier);
	tally->result.functions = (void *)tally->functions.data;
	tally->result.n_functions = n;
	tally->result.losses = (void *)tally->losses.data;
	tally->result.n_losses = LENGTH(tally->losses, struct tally_loss);
	tally->result.threads = tally->threads.n;
	tally->result.processes = tally->processes.n;
	*ret = tally->result;
	return 0;
}
