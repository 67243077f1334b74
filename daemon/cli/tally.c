/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/safe_text.h"
#include "cli/thread_sums.h"
#include "cli/tally.h"
#include "export/class_names.h"
#include "export/told.h"

/* A vector that grows; elements are zero at first. */
struct vector {
	void *data;
	uint32_t n, capacity;
};

static int vector__grow(struct vector *vector, uint32_t n, size_t size)
{
	uint32_t capacity = vector->capacity ? vector->capacity : 64;
	char *data;

	if (n <= vector->capacity)
		return 0;
	while (capacity < n)
		capacity *= 2;
	data = realloc(vector->data, capacity * size);
	if (!data)
		return -ENOMEM;
	memset(data + vector->capacity * size, 0, (capacity - vector->capacity) * size);
	vector->data = data;
	vector->capacity = capacity;
	return 0;
}

struct node {
	uint32_t parent, function; /* function: index in tally.functions */
	uint32_t place;            /* the node that its time is told of: itself, or one around it */
	bool interpreter;          /* told only where it is alone */
	bool python;               /* itself, or one around it, is Python's */
	uint64_t self;
};

#define INTERPRETER 0x80000000u
#define PYTHON 0x40000000u

/* A process or a thread: its number and its start, in ticks of the kernel's clock for people. One that called exec, and so is
 * told anew, is the same: of the first image a start may come from /proc, which knows it to a tick only. */
struct known {
	int32_t id;
	uint64_t start;
};
#define START_TICK_NS 10000000u

struct tally {
	struct event_sink sink;
	struct tally_result result;
	uint64_t begin;
	bool waits;           /* those of all threads are told */
	const struct thread_sums *thread_sums;
	struct thread_ids ids;
	struct arena strings;
	struct hash_seed seed;
	/* of the epoch */
	struct vector names;  /* uint32_t: function row -> tally.functions */
	struct vector frames; /* uint32_t: frame row -> tally.functions, and INTERPRETER or PYTHON */
	struct vector nodes;  /* struct node, by stack id */
	/* of the recording */
	struct vector functions; /* struct tally_function */
	struct vector marks;	 /* uint32_t, by function: the last node it was counted for */
	struct vector slots;	 /* uint32_t: open hash of function index + 1 */
	struct vector losses;	 /* struct tally_loss */
	struct vector threads;	 /* struct known */
	struct vector processes; /* struct known */
	struct class_names class_names;
	struct vector classes;	 /* struct tally_class, by class_names' ids */
};

#define AT(vector, type, i) (((type *)(vector).data)[i])

static char *keep(struct tally *tally, const char *string)
{
	size_t size = strlen(string) + 1;
	char *copy = arena__take(&tally->strings, size);

	return copy ? memcpy(copy, string, size) : NULL;
}

static uint64_t hash_of(const struct tally *tally, const char *name, const char *file,
			uint32_t line)
{
	return hash__pair(&tally->seed, hash__bytes(&tally->seed, name, strlen(name)) + line,
			  hash__bytes(&tally->seed, file, strlen(file)));
}

static void place(struct tally *tally, uint32_t index, uint64_t hash)
{
	uint32_t mask = tally->slots.capacity - 1, slot = (uint32_t)hash & mask;

	while (AT(tally->slots, uint32_t, slot))
		slot = (slot + 1) & mask;
	AT(tally->slots, uint32_t, slot) = index + 1;
}

static int grow_slots(struct tally *tally)
{
	uint32_t i, need = 2 * (tally->functions.n + 1);

	if (tally->slots.capacity >= need)
		return 0;
	if (vector__grow(&tally->slots, need, sizeof(uint32_t)))
		return -ENOMEM;
	memset(tally->slots.data, 0, tally->slots.capacity * sizeof(uint32_t));
	for (i = 0; i < tally->functions.n; i++) {
		const struct tally_function *f = &AT(tally->functions, struct tally_function, i);

		place(tally, i, hash_of(tally, f->name, f->file, f->line));
	}
	return 0;
}

/* The index of a function, the same in all epochs. */
static int function_index(struct tally *tally, const struct function_row *row, uint32_t *ret)
{
	uint64_t hash = hash_of(tally, row->name, row->file, row->line);
	struct tally_function *function;
	uint32_t mask, slot;

	if (grow_slots(tally))
		return -ENOMEM;
	mask = tally->slots.capacity - 1;
	for (slot = (uint32_t)hash & mask; AT(tally->slots, uint32_t, slot);
	     slot = (slot + 1) & mask) {
		*ret = AT(tally->slots, uint32_t, slot) - 1;
		function = &AT(tally->functions, struct tally_function, *ret);
		if (function->line == row->line && !strcmp(function->name, row->name) &&
		    !strcmp(function->file, row->file))
			return 0;
	}
	*ret = tally->functions.n;
	if (vector__grow(&tally->functions, *ret + 1, sizeof(*function)) ||
	    vector__grow(&tally->marks, *ret + 1, sizeof(uint32_t)))
		return -ENOMEM;
	function = &AT(tally->functions, struct tally_function, *ret);
	function->name = keep(tally, row->name);
	function->file = keep(tally, row->file);
	function->line = row->line;
	if (!function->name || !function->file)
		return -ENOMEM;
	tally->functions.n++;
	place(tally, *ret, hash);
	return 0;
}

static int line_index(struct tally *tally, uint32_t function, uint32_t line, uint32_t *ret)
{
	const struct tally_function *of = &AT(tally->functions, struct tally_function, function);
	const struct function_row row = {.name = of->name, .file = of->file, .line = line};

	return function_index(tally, &row, ret);
}

static bool is_told(const struct tally *tally, uint32_t id, bool innermost)
{
	const struct node *node = &AT(tally->nodes, struct node, id);

	return frame__is_told(node->interpreter ? FUNCTION_INTERPRETER : FUNCTION_NATIVE, innermost && !node->python);
}

/* Hands the nodes' own weights to the functions above them, each once a stack. */
static void fold_epoch(struct tally *tally)
{
	struct tally_function *functions = tally->functions.data;
	uint32_t *marks = tally->marks.data;
	uint32_t id, at;

	if (tally->functions.n)
		memset(marks, 0, tally->functions.n * sizeof(*marks));
	for (id = 1; id < tally->nodes.n; id++) {
		const struct node *leaf = &AT(tally->nodes, struct node, id);

		if (!leaf->self)
			continue;
		functions[leaf->function].self += leaf->self;
		for (at = id; at; at = AT(tally->nodes, struct node, at).parent) {
			uint32_t function = AT(tally->nodes, struct node, at).function;

			if (marks[function] == id || !is_told(tally, at, at == id))
				continue;
			marks[function] = id;
			functions[function].total += leaf->self;
		}
	}
	tally->names.n = tally->frames.n = 0;
	tally->nodes.n = 1;
}

static int add_functions(struct tally *tally, const struct event_rows *event)
{
	const struct function_row *rows = event->rows;
	uint32_t i;

	if (vector__grow(&tally->names, event->first + event->n, sizeof(uint32_t)))
		return -ENOMEM;
	for (i = 0; i < event->n; i++) {
		uint32_t *name = &AT(tally->names, uint32_t, event->first + i);

		if (function_index(tally, &rows[i], name))
			return -ENOMEM;
		if (rows[i].kind == FUNCTION_INTERPRETER)
			*name |= INTERPRETER;
		else if (rows[i].kind == FUNCTION_PYTHON)
			*name |= PYTHON;
	}
	tally->names.n = event->first + event->n;
	return 0;
}

static int add_frames(struct tally *tally, const struct event_rows *event)
{
	const struct frame_row *rows = event->rows;
	uint32_t i;

	if (vector__grow(&tally->frames, event->first + event->n, sizeof(uint32_t)))
		return -ENOMEM;
	for (i = 0; i < event->n; i++) {
		uint32_t *frame = &AT(tally->frames, uint32_t, event->first + i), line;

		*frame = AT(tally->names, uint32_t, rows[i].function);
		if (!tally->result.lines || !rows[i].line)
			continue;
		if (line_index(tally, *frame & ~(INTERPRETER | PYTHON), rows[i].line, &line))
			return -ENOMEM;
		*frame = line | (*frame & (INTERPRETER | PYTHON));
	}
	tally->frames.n = event->first + event->n;
	return 0;
}

static int add_stacks(struct tally *tally, const struct event_rows *event)
{
	const struct stack_row *rows = event->rows;
	uint32_t i;

	if (vector__grow(&tally->nodes, event->first + event->n, sizeof(struct node)))
		return -ENOMEM;
	for (i = 0; i < event->n; i++) {
		uint32_t function = AT(tally->frames, uint32_t, rows[i].frame), id = event->first + i;

		AT(tally->nodes, struct node, id) = (struct node){
			.parent = rows[i].parent,
			.function = function & ~(INTERPRETER | PYTHON),
			.place = id,
			.interpreter = function & INTERPRETER,
			.python = function & PYTHON || AT(tally->nodes, struct node, rows[i].parent).python,
		};
		if (!is_told(tally, id, true))
			AT(tally->nodes, struct node, id).place = AT(tally->nodes, struct node, rows[i].parent).place;
	}
	tally->nodes.n = event->first + event->n;
	return 0;
}

/* What is told of waiting in sessions of CPU time is for the compiles alone. */
static uint64_t weight(const struct tally *tally, const struct sample_row *row)
{
	return row->cause && tally->waits ? row->wall : sample__weight(row->cpu, row->given, row->others);
}

static int add_to_class(struct tally *tally, const struct sample_row *row)
{
	uint32_t id;
	int err = class_names__id(&tally->class_names, row->class_id, &id)
			  ?: vector__grow(&tally->classes, id + 1, sizeof(struct tally_class));

	if (err)
		return err;
	if (tally->classes.n <= id)
		tally->classes.n = id + 1;
	AT(tally->classes, struct tally_class, id).cpu += weight(tally, row);
	return 0;
}

static int add_samples(struct tally *tally, const struct event_samples *event)
{
	uint32_t i;
	int err;

	for (i = 0; i < event->n; i++) {
		const struct sample_row *row = &event->rows[i];

		tally->result.cpu += row->cpu;
		tally->result.wall += row->wall;
		tally->result.stood += row->others;
		tally->result.seen += !row->cause; /* a tick */
		tally->result.waits += row->cause && tally->waits;
		tally->result.span = row->time > tally->begin ? row->time - tally->begin : 0;
		if (tally->thread_sums && thread_sums__is_quiet(tally->thread_sums, thread_ids__thread(&tally->ids, row->thread))) {
			tally->result.quiet += row->wall;
			continue;
		}
		if (row->stack)
			AT(tally->nodes, struct node, AT(tally->nodes, struct node, row->stack).place).self += weight(tally, row);
		err = add_to_class(tally, row);
		if (err)
			return err;
	}
	return 0;
}

static void set_stops(struct tally *tally, const struct event_ledger *event)
{
	struct tally_result *result = &tally->result;
	uint32_t i;

	result->native = event->native;
	result->native_whole = event->native_whole;
	result->n_stops = event->n_stops < TALLY_STOPS ? event->n_stops : TALLY_STOPS;
	for (i = 0; i < result->n_stops; i++) {
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
	uint32_t i;

	tally->result.samples = event->samples;
	tally->result.whole = event->whole;
	set_stops(tally, event);
	if (vector__grow(&tally->losses, event->n, sizeof(struct tally_loss)))
		return -ENOMEM;
	for (i = 0; i < event->n; i++) {
		struct tally_loss *loss = &AT(tally->losses, struct tally_loss, i);

		/* Totals run on: mostly the same names in the same places. */
		if (i >= tally->losses.n || strcmp(loss->name, event->lines[i].name))
			loss->name = keep(tally, event->lines[i].name);
		if (!loss->name)
			return -ENOMEM;
		loss->count = event->lines[i].count;
	}
	tally->losses.n = event->n;
	return 0;
}

/* Both are told again in each epoch. */
static int add_known(struct vector *all, int32_t id, uint64_t start)
{
	const struct known new = {id, start / START_TICK_NS};
	uint32_t i;

	for (i = 0; i < all->n; i++) {
		const struct known *known = &AT(*all, struct known, i);

		if (known->id == new.id && known->start == new.start)
			return 0;
	}
	if (vector__grow(all, all->n + 1, sizeof(new)))
		return -ENOMEM;
	AT(*all, struct known, all->n++) = new;
	return 0;
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

int tally__new(bool lines, const struct thread_sums *thread_sums, struct tally **ret)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return -ENOMEM;
	tally->sink.event = on_event;
	tally->result.lines = lines;
	tally->thread_sums = thread_sums;
	tally->result.quiet_threads = thread_sums ? thread_sums__quiet(thread_sums) : 0;
	/* Node 0 is the empty stack. */
	if (hash_seed__draw(&tally->seed) || vector__grow(&tally->nodes, 1, sizeof(struct node))) {
		free(tally);
		return -ENOMEM;
	}
	tally->nodes.n = 1;
	*ret = tally;
	return 0;
}

struct tally *tally__free(struct tally *tally)
{
	if (!tally)
		return NULL;
	thread_ids__free(&tally->ids);
	free(tally->names.data);
	free(tally->frames.data);
	free(tally->nodes.data);
	free(tally->functions.data);
	free(tally->marks.data);
	free(tally->slots.data);
	free(tally->losses.data);
	free(tally->threads.data);
	free(tally->processes.data);
	class_names__free(&tally->class_names);
	free(tally->classes.data);
	arena__free(&tally->strings);
	free(tally);
	return NULL;
}

struct event_sink *tally__sink(struct tally *tally)
{
	return &tally->sink;
}

static int heavier(const void *a, const void *b)
{
	const struct tally_function *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return x->total < y->total ? 1 : x->total > y->total ? -1 : strcmp(x->name, y->name);
}

static int longer(const void *a, const void *b)
{
	const struct tally_class *x = a, *y = b;

	return x->cpu < y->cpu ? 1 : x->cpu > y->cpu ? -1 : strcmp(x->name, y->name);
}

int tally__finish(struct tally *tally, struct tally_result *ret)
{
	struct tally_class *classes = tally->classes.data;
	uint32_t i;

	for (i = 0; i < tally->classes.n; i++)
		classes[i].name = class_names__name(&tally->class_names, i);
	if (tally->classes.n)
		qsort(classes, tally->classes.n, sizeof(*classes), longer);
	tally->result.classes = classes;
	tally->result.n_classes = tally->classes.n;
	fold_epoch(tally);
	if (tally->functions.n)
		qsort(tally->functions.data, tally->functions.n, sizeof(struct tally_function),
		      heavier);
	tally->result.functions = tally->functions.data;
	tally->result.n_functions = tally->functions.n;
	tally->result.losses = tally->losses.data;
	tally->result.n_losses = tally->losses.n;
	tally->result.threads = tally->threads.n;
	tally->result.processes = tally->processes.n;
	*ret = tally->result;
	return 0;
}
