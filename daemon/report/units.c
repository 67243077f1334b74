/* SPDX-License-Identifier: MIT */
/* The time of compiles, phases and passes. While a recording is read, it is summed up by thread and node of
 * the unit tree; afterwards the sums are added to the rows of the tables.
 *
 * Inclusive: a row that contains itself counts once. Exclusive: for a compile, without the compiles inside of
 * it; for a phase or pass, without everything inside of it that has a name.
 *
 * Wall time needs care, as a sample stands for all the time since the thread's sample before. An example: a
 * compile began 3 ms ago, and the thread's last sample was 10 ms ago, of which it ran 1 ms, at the end. Then
 * 3 ms are the compile's, and 7 ms its surroundings' (add_before()). If a worker thread ran for the compile
 * during these 3 ms, its time comes off the waiting (divide()). */
#include <errno.h>
#include <string.h>

#include "classes/classes.h"
#include "export/quiet.h"
#include "report/internal.h"

#define ROW_NO_TRIGGER "(not known)"

/* Key and value of these sums. */
struct compiled_key {
	uint32_t thread, node;
	uint32_t line; /* of lines.h; 0: none, or no table needs it */
};
struct compiled {
	struct times self;   /* samples whose innermost unit this is */
	struct times native; /* those of them in native code of the compiler */
	uint64_t calls, begun;  /* begun: of the first call, ns since the recording's start */
};

bool units__wanted(const struct report *report)
{
	return report__wants(report, REPORT_UNIT) || report__wants(report, REPORT_SOURCE) ||
	       report__wants(report, REPORT_SOURCE_LINE) || report__wants(report, REPORT_PHASE) || report__wants(report, REPORT_PASS) || report__wants(report, REPORT_TRIGGER) ||
	       report__wants(report, REPORT_TREE) || compiles__wanted(report);
}

static int add_to(struct report *report, uint32_t thread, uint32_t node, uint32_t line, const struct times *times,
		  bool native, uint64_t calls, uint64_t begun)
{
	const struct compiled_key key = {thread, node, line};
	struct compiled *sum = intern__item(&report->compiled, &key, sizeof(key), &report->compiled_times, sizeof(*sum));

	if (!sum)
		return -ENOMEM;
	times__add(&sum->self, times);
	if (native)
		times__add(&sum->native, times);
	if (calls && (!sum->calls || begun < sum->begun))
		sum->begun = begun;
	sum->calls += calls;
	return 0;
}

static bool in_native_code(const struct model *model)
{
	return !strcmp(class_names__name(&model->classes, model->class_now),
		       class__name(CLASS_COMPILER));
}

/* CALL_NONE: outside of all compiles, node 0. */
static int add_time(struct report *report, uint32_t thread, uint32_t id, const struct times *times, bool native)
{
	struct unit_tree *tree = &report->model->units;
	struct unit_call *call = id == CALL_NONE ? NULL : unit_tree__call(tree, id);
	uint32_t line = call && report__wants(report, REPORT_SOURCE_LINE) ? report->model->line_now : 0;
	int err = add_to(report, thread, call ? call->node : 0, line, times, call && native, 0, 0);

	return err || !call || !compiles__wanted(report) ? err : compiles__sampled(report, call->thread, id, times);
}

/* A worker's time is assigned to its call, thread and class. shares.h keeps one number per part, so all three are
 * packed into it. Bit 63: the class is "compiler native"; bits 32 to 62: the thread; below: the call. */
#define WORD_NATIVE (1ull << 63)
static uint64_t share__word(uint32_t thread, uint32_t call, bool native)
{
	return (native ? WORD_NATIVE : 0) | (uint64_t)(thread & 0x7fffffff) << 32 | call;
}

/* While a thread waited, its workers may have run: gives them their part of its waiting time. The rest stays in
 * *times. */
static int divide(struct report *report, uint32_t thread, struct times *times)
{
	struct times part = {};
	uint32_t n, i;
	int err = 0;
	const struct share *share = shares__divide(&report->shares, thread, times->wall - times->cpu, &n);

	for (i = 0; i < n && !err; i++) {
		part.wall = share[i].cpu;
		times->wall -= part.wall;
		err = add_time(report, share[i].of >> 32 & 0x7fffffff, (uint32_t)share[i].of, &part, share[i].of & WORD_NATIVE);
	}
	return err;
}

/* A sample covers the time since the sample before: the thread ran at its end, and waited before that. Waiting time
 * before the begin of its call belongs to the call around that one, or to none. What belongs to the call itself
 * stays in *times. */
static int add_before(struct report *report, uint32_t thread, struct times *times)
{
	const struct model *model = report->model;
	uint64_t until = model->time_now > times->cpu ? model->time_now - times->cpu : 0, left = times->wall - times->cpu, own;
	struct unit_call call = {.parent = model->call_now};
	struct times part = {};
	int err = 0;

	times->wall = times->cpu;
	for (; left && call.parent != CALL_NONE && !err; left -= own) {
		uint32_t id = call.parent;

		call = *unit_tree__call(&report->model->units, id);
		own = until > call.begin ? until - call.begin : 0;
		own = own < left ? own : left;
		until = until < call.begin ? until : call.begin;
		part.wall = own;
		if (id == model->call_now)
			times->wall += own;
		else if (own)
			err = add_time(report, thread, id, &part, false);
	}
	part.wall = left;
	return err || !left ? err : add_time(report, thread, CALL_NONE, &part, false);
}

/* Distributes a sample. Its CPU time belongs to its innermost unit. Its waiting time has up to four owners: workers
 * that ran meanwhile (divide()), the calls around it (add_before()), nobody, and the unit itself for the rest. */
int units__sampled(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran,
		   uint64_t shown)
{
	static const struct times none = {};
	/* `shown` is wall time, and never less than what the thread ran: rounding of two clocks. */
	struct times times = {ran, shown > ran ? shown : ran};
	struct unit_call *call = NULL;
	struct report *report = model->ctx;
	bool native = model->call_now != CALL_NONE && in_native_code(model);
	int err = 0;

	if (compiles__wanted(report) && times.wall)
		err = failed__sampled(report, thread->id);
	/* Removed by a filter, or outside of the window. */
	if (err || (model->filter && (stack == model->left_out || stack == model->not_sampled)) ||
	    !times.wall)
		return err;
	/* A worker's wall time is nothing: its caller waits meanwhile, and that wall time is shared out at
	 * the caller's next sample. Its CPU time counts. */
	if (attribution__is_given(model->how_now) && model->call_now != CALL_NONE) {
		times.wall = 0;
		err = shares__add(&report->shares, model->caller_now, share__word(thread->id, model->call_now, native), ran);
	} else {
		err = divide(report, thread->id, &times) ?: add_before(report, thread->id, &times);
	}
	err = err ?: add_time(report, thread->id, model->call_now, &times, native);
	/* Counts each call at its first sample. */
	for (uint32_t at = model->call_now; at != CALL_NONE && !err; at = call->parent) {
		call = unit_tree__call(&model->units, at);
		if (call->counted)
			break; /* then the calls around it were counted, too */
		call->counted = true;
		err = add_to(report, call->thread, call->node, 0, &none, false, 1, call->begin);
	}
	return err;
}

/* --- rows --- */

struct row_key units__key(const struct unit_node *node)
{
	struct row_key key = row_key__named(*node->name ? node->name : UNIT_NO_NAME, KIND_GROUP);

	key.module = node->compiler;
	if (node->kind != UNIT_COMPILE)
		return key;
	key.detail = node->signature;
	key.file = node->file;
	key.line = node->line;
	return key;
}

int units__trigger_row(struct report *report, struct table *table, uint32_t trigger, uint32_t parent, uint32_t *ret)
{
	struct row_key key = row_key__named(ROW_NO_TRIGGER, FUNCTION_NOTE);

	if (trigger) {
		struct model_frame frame = model__frame(report->model, trigger - 1);

		key = table__frame_key(&frame);
	}
	key.parent = parent;
	return table__row(table, &key, ret);
}

/* The row of a compile's function, and the row of its signature below it. */
static int source_rows(struct report *report, struct row_key key, uint32_t *ret, uint32_t *ret_signature)
{
	struct row_key signature = row_key__named(key.detail, KIND_GROUP);
	int err;

	key.detail = NULL;
	err = table__row(&report->tables[REPORT_SOURCE], &key, &signature.parent);
	*ret = signature.parent;
	return err ?: table__row(&report->below[REPORT_SOURCE], &signature, ret_signature);
}

/* The row of what a phase was working on, if its rule says so, below the phase's row. */
static int subject_row(struct report *report, const struct unit_node *node, uint32_t phase, uint32_t *ret)
{
	struct row_key key = row_key__named(node->signature, KIND_GROUP);

	key.parent = phase;
	return table__row(&report->below[REPORT_PHASE], &key, ret);
}

static bool has_subject(const struct unit_node *node) { return node->kind == UNIT_PHASE && *node->signature; }

/* The outermost compile around a node: its trigger is what caused the whole chain. */
static struct unit_node outermost(const struct unit_tree *tree, uint32_t node)
{
	struct unit_node at = unit_tree__node(tree, node);

	while (at.parent)
		at = unit_tree__node(tree, at.parent);
	return at;
}

/* NULL for a kind that this version does not know. */
static struct table *table_of(struct report *report, uint8_t kind)
{
	static const enum report_by by[UNIT_KINDS] = {REPORT_UNIT, REPORT_PHASE, REPORT_PASS};

	return kind < UNIT_KINDS ? &report->tables[by[kind]] : NULL;
}

/* Counts the calls of a node in its rows. */
static int add_calls(struct report *report, uint32_t id, uint64_t calls, uint64_t begun)
{
	struct unit_tree *tree = &report->model->units;
	struct unit_node node = unit_tree__node(tree, id);
	struct table *table = table_of(report, node.kind), *causes = &report->below[REPORT_UNIT],
		     *triggers = &report->tables[REPORT_TRIGGER], *sources = &report->tables[REPORT_SOURCE],
		     *signatures = &report->below[REPORT_SOURCE];
	struct row_key key = units__key(&node);
	uint32_t row, cause, source, signature;
	int err;

	if (!id || !table)
		return 0;
	err = table__row(table, &key, &row);
	if (err)
		return err;
	times__count(table__times(table, row, report->read), calls, begun);
	if (has_subject(&node)) {
		err = subject_row(report, &node, row, &row);
		if (!err)
			times__count(table__times(&report->below[REPORT_PHASE], row, report->read), calls, begun);
	}
	if (err || node.kind != UNIT_COMPILE)
		return err;
	report->compiles = true;
	err = source_rows(report, key, &source, &signature);
	if (err)
		return err;
	times__count(table__times(sources, source, report->read), calls, begun);
	times__count(table__times(signatures, signature, report->read), calls, begun);
	err = units__trigger_row(report, causes, outermost(tree, id).trigger, row, &cause);
	if (err)
		return err;
	times__count(table__times(causes, cause, report->read), calls, begun);
	if (node.parent)
		return 0;
	err = units__trigger_row(report, triggers, node.trigger, ROW_NONE, &row);
	if (!err)
		times__count(table__times(triggers, row, report->read), calls, begun);
	return err;
}

/* Time outside of all units of a table has a row, too, so that the exclusive times add up to the total. */
static int add_rest(struct table *table, const char *name, const struct times *times)
{
	const struct row_key key = row_key__named(name, KIND_GROUP);
	uint32_t row;
	int err = table__row(table, &key, &row);

	if (err)
		return err;
	table__stack(table);
	table__inclusive(table, row, times);
	table__exclusive(table, row, times);
	return 0;
}

/* Native code of the compiler inside a compile, but in no known pass: gets a row, so that the passes are not taken
 * for all of the optimiser's time. */
static int add_no_pass(struct report *report, uint32_t id, const struct times *times)
{
	struct unit_node node = unit_tree__node(&report->model->units, id);

	for (; id && node.kind != UNIT_COMPILE; node = unit_tree__node(&report->model->units, id = node.parent))
		if (node.kind == UNIT_PASS)
			return 0;
	return id && times->wall ? add_rest(&report->tables[REPORT_PASS], ROW_NO_PASS, times) : 0;
}

void units__below(struct report *report, struct table *below, uint32_t row, const struct times *times, bool own, bool fresh)
{
	if (fresh)
		times__add(&table__times(below, row, report->read)->inclusive, times);
	if (own)
		table__exclusive(below, row, times);
}

/* Adds a compile's time to its function and signature. */
static int add_source(struct report *report, const struct row_key *key, const struct times *times, bool own, bool fresh)
{
	struct table *sources = &report->tables[REPORT_SOURCE];
	uint32_t source, signature;
	int err = source_rows(report, *key, &source, &signature);

	if (err)
		return err;
	table__inclusive(sources, source, times);
	if (own)
		table__exclusive(sources, source, times);
	units__below(report, &report->below[REPORT_SOURCE], signature, times, own, fresh);
	return 0;
}

static int add_subject(struct report *report, const struct unit_node *node, uint32_t phase, const struct times *times, bool own, bool fresh)
{
	uint32_t row;
	int err = subject_row(report, node, phase, &row);

	if (!err)
		units__below(report, &report->below[REPORT_PHASE], row, times, own, fresh);
	return err;
}

/* Adds the time of a node to the rows of the node and of all nodes around it, from the innermost outwards.
 * `own`: is it exclusive time of this row? Of a phase or pass only if it is the innermost; of compiles only
 * for the innermost one. `fresh`: the row was not yet counted on this path. */
static int add_path(struct report *report, uint32_t id, const struct times *times)
{
	struct unit_tree *tree = &report->model->units;
	struct table *triggers = &report->tables[REPORT_TRIGGER],
		     *causes = &report->below[REPORT_UNIT];
	bool in_compile = false;
	uint32_t at, row, cause, trigger = outermost(tree, id).trigger;
	int err = 0;

	for (uint8_t kind = 0; kind < UNIT_KINDS; kind++)
		table__stack(table_of(report, kind));
	table__stack(&report->tables[REPORT_SOURCE]);
	for (at = id; at && !err;) {
		struct unit_node node = unit_tree__node(tree, at);
		struct table *table = table_of(report, node.kind);
		struct row_key key = units__key(&node);
		bool compile = node.kind == UNIT_COMPILE, own = compile ? !in_compile : at == id,
		     fresh;

		at = node.parent;
		if (!table)
			continue;
		err = table__row(table, &key, &row);
		if (err)
			break;
		fresh = table__inclusive(table, row, times);
		if (own)
			table__exclusive(table, row, times);
		in_compile |= compile;
		if (has_subject(&node) && (fresh || own))
			err = add_subject(report, &node, row, times, own, fresh);
		if (err || !compile || !(fresh || own))
			continue;
		err = add_source(report, &key, times, own, fresh) ?: units__trigger_row(report, causes, trigger, row, &cause);
		if (!err)
			units__below(report, causes, cause, times, own, fresh);
	}
	err = err ?: units__trigger_row(report, triggers, trigger, ROW_NONE, &row);
	if (err)
		return err;
	table__exclusive(triggers, row, times);
	times__add(&table__times(triggers, row, report->read)->inclusive, times);
	return 0;
}

int units__add(struct report *report)
{
	/* All tables of units have the same total, so shares can be compared between them. */
	static const enum report_by all[] = {REPORT_UNIT, REPORT_SOURCE, REPORT_SOURCE_LINE, REPORT_PHASE, REPORT_PASS, REPORT_TRIGGER,
					     REPORT_TREE, REPORT_CHAIN, REPORT_REPEAT, REPORT_FAILED};
	int err = 0;

	for (uint32_t i = 0; i < report->compiled.n && !err; i++) {
		const struct compiled_key *key =
			(const struct compiled_key *)report->compiled.keys.data + i;
		const struct compiled *sum =
			(const struct compiled *)report->compiled_times.data + i;
		/* With the name that arrived last. */
		uint32_t node = unit_tree__final(&report->model->units, key->node);

		if (!model__thread(report->model, key->thread)->shown || quiet__is(&report->quiet, key->thread))
			continue;
		err = add_calls(report, node, sum->calls, sum->begun);
		if (report__wants(report, REPORT_TREE))
			err = err ?: tree__calls(report, node, sum->calls, sum->begun);
		if (!sum->self.wall && !sum->self.cpu)
			continue;
		if (node)
			err = err ?: add_path(report, node, &sum->self);
		else
			err = err ?: add_rest(&report->tables[REPORT_UNIT], ROW_OUTSIDE, &sum->self)
					     ?: add_rest(&report->tables[REPORT_SOURCE], ROW_OUTSIDE, &sum->self)
					     ?: add_rest(&report->tables[REPORT_SOURCE_LINE], ROW_OUTSIDE, &sum->self);
		if (node && report__wants(report, REPORT_SOURCE_LINE))
			err = err ?: source_lines__add(report, node, key->line, &sum->self);
		err = err ?: add_no_pass(report, node, &sum->native);
		if (report__wants(report, REPORT_TREE))
			err = err ?: tree__times(report, node, &sum->self);
		for (size_t t = 0; t < sizeof(all) / sizeof(all[0]); t++)
			times__add(&report->tables[all[t]].totals[report->read], &sum->self);
	}
	return err || !compiles__wanted(report) ? err : compiles__add(report);
}
