/* SPDX-License-Identifier: MIT */
/* Each single compile: its own time, and how much of it was in stages whose result a cache could hold. After
 * a recording was read, this makes the chains (outermost compiles in the order of time) and the repeats.
 *
 * Words used here (export/units.h has the structures): a call is one run of a compile, phase or pass; a node
 * is the set of calls with the same path. A compile gets a number (index in report->each, + 1) when its first
 * sample comes, so a compile without samples does not exist here.
 *
 *     call:    svd(float64) > lowering > add(int64) > typing
 *     number:  1              1          2            2          each phase has that of the compile around it */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "report/internal.h"

/* Values of report->stages: 0 is "not computed yet". A rule file names stages by patterns of phases and
 * passes: stage "typing" *type_inference typing. STAGE_FIRST + i: stage i of the compiler. */
#define STAGE_NONE 1u
#define STAGE_FIRST 2u

bool compiles__wanted(const struct report *report)
{
	return report__wants(report, REPORT_UNIT) || report__wants(report, REPORT_CHAIN) ||
	       report__wants(report, REPORT_REPEAT) || report__wants(report, REPORT_FAILED);
}

static struct compile *compile_at(const struct report *report, uint32_t number)
{
	return &ITEM(report->each, struct compile, number - 1);
}

/* Numbers a call and those around it, outermost first. The number is that of the innermost compile. Each call
 * is numbered once, so for most samples this is one comparison. The recursion is as deep as units are nested. */
static int number_calls(struct report *report, uint32_t thread, uint32_t id)
{
	struct unit_tree *tree = &report->model->units;
	struct unit_call *call = unit_tree__call(tree, id), *outer;
	int err = 0;

	if (call->number)
		return 0;
	if (call->parent != CALL_NONE)
		err = number_calls(report, thread, call->parent);
	outer = call->parent == CALL_NONE ? NULL : unit_tree__call(tree, call->parent);
	/* Taken before the compile itself gets its own, so `parent` below is the compile around it. */
	call->number = outer ? outer->number : 0;
	if (!err && unit_tree__node(tree, call->node).kind == UNIT_COMPILE) {
		const struct compile compile = {.thread = call->thread,
						.node = call->node,
						.parent = call->number,
						.call = id,
						.begin = call->begin,
						.end = call->begin};

		err = buf__append(&report->each, &compile, sizeof(compile));
		call->number = LENGTH(report->each, struct compile);
	}
	return err;
}

/* --- stages --- */

/* The first stage with a matching pattern; their order in the rule file is that of the compiler's work. */
static uint8_t stage_of_name(const struct compiler *compiler, const char *name)
{
	for (uint8_t i = 0; compiler && i < compiler->n_stages; i++)
		if (patterns__any(&compiler->stages[i].patterns, name))
			return STAGE_FIRST + i;
	return STAGE_NONE;
}

/* The stage of the innermost enclosing phase or pass that belongs to one. */
static int stage_of(struct report *report, uint32_t id, uint8_t *ret)
{
	struct unit_node node = unit_tree__node(&report->model->units, id);
	const uint8_t *known = buf__at(&report->stages, sizeof(*known), id);
	int err = 0;

	*ret = STAGE_NONE;
	if (!known)
		return -ENOMEM;
	/* A stage does not extend into a compile inside of it: that one has stages of its own. */
	if (!id || node.kind == UNIT_COMPILE)
		return 0;
	*ret = *known;
	if (*ret)
		return 0;
	*ret = stage_of_name(repeats__compiler(report, node.compiler), node.name);
	if (*ret == STAGE_NONE)
		err = stage_of(report, node.parent, ret);
	if (!err)
		ITEM(report->stages, uint8_t, id) = *ret;
	return err;
}

static int add_stage(struct report *report, uint32_t number, uint32_t node,
		     const struct times *times)
{
	uint8_t stage;
	int err = stage_of(report, node, &stage);

	if (!err && stage >= STAGE_FIRST)
		times__add(&compile_at(report, number)->stages[stage - STAGE_FIRST], times);
	return err;
}

/* False: its name, or that of a call around it in the same compile, may arrive later. */
static bool is_named(const struct unit_tree *tree, uint32_t id)
{
	struct unit_node node = unit_tree__node(tree, id);

	for (; id && node.kind != UNIT_COMPILE; node = unit_tree__node(tree, id = node.parent))
		if (!*node.name)
			return false;
	return true;
}

/* Remembers the time until all names are known: name_stages(). */
static int add_unnamed(struct report *report, uint32_t number, uint32_t node,
		       const struct times *times)
{
	const struct {
		uint32_t number, node;
	} key = {number, node};

	return sums__add(&report->unnamed, &key, sizeof(key), times);
}

/* A node is the one from the begin of the call: a name that arrives late makes it another node (export/units.h). So
 * the stage is looked up at once if the name is known, and otherwise after the recording was read. */
int compiles__sampled(struct report *report, uint32_t thread, uint32_t call,
		      const struct times *times)
{
	struct unit_tree *tree = &report->model->units;
	uint32_t node = unit_tree__call(tree, call)->node, number, at, in = node;
	int err = number_calls(report, thread, call);

	number = unit_tree__call(tree, call)->number;
	if (err || !number) /* a phase outside of compiles */
		return err;
	times__add(&compile_at(report, number)->self, times);
	/* The compile and those around it all last until now. `in` is the node that this compile is at:
	 * within an outer compile, what contains the inner one. */
	for (at = number; at; at = compile_at(report, at)->parent) {
		struct compile *compile = compile_at(report, at);

		compile->end = report->model->time_now;
		/* A sample in the compile's own code, in no phase, leaves `last` at the phase before. */
		if (in != compile->node)
			compile->last = in;
		in = unit_tree__node(tree, compile->node).parent;
	}
	return is_named(tree, node) ? add_stage(report, number, node, times)
				    : add_unnamed(report, number, node, times);
}

/* --- after the recording was read --- */

static int name_stages(struct report *report)
{
	const struct {
		uint32_t number, node;
	} * key;
	uint32_t i, node;
	int err = 0;

	buf__clear(&report->stages); /* they were computed without the late names */
	for (i = 0; i < sums__n(&report->unnamed) && !err; i++) {
		key = sums__key(&report->unnamed, i);
		node = unit_tree__final(&report->model->units, key->node);
		compile_at(report, key->number)->unnamed |= !is_named(&report->model->units, node);
		err = add_stage(report, key->number, node, sums__times(&report->unnamed, i));
	}
	return err;
}

/* A chain points to rows of the tables UNIT and TRIGGER, which must therefore be filled before: units__add()
 * calls this last. */
static int make_chain(struct report *report, const struct compile *compile, struct chain *ret)
{
	const struct model_thread *thread = model__thread(report->model, compile->thread);
	struct unit_tree *tree = &report->model->units;
	struct unit_node node = unit_tree__node(tree, unit_tree__final(tree, compile->node));
	struct row_key key = units__key(&node);
	char name[300];
	int err;

	snprintf(name, sizeof(name), "%s (%d)", thread->name, thread->tid);
	*ret = (struct chain){.file = report->read,
			      .begin = compile->begin,
			      .end = compile->end,
			      .after = UINT64_MAX};
	err = table__row(&report->tables[REPORT_UNIT], &key, &ret->compile);
	err = err
		      ?: units__trigger_row(report, &report->tables[REPORT_TRIGGER], node.trigger,
					    ROW_NONE, &ret->trigger);
	return err ?: intern__id(&report->thread_names, name, strlen(name) + 1, &ret->thread);
}

bool compiles__in_its_row(const struct report *report, uint32_t number, const uint32_t *rows)
{
	for (uint32_t at = compile_at(report, number)->parent; at; at = compile_at(report, at)->parent)
		if (rows[at - 1] == rows[number - 1])
			return true;
	return false;
}

/* One chain for each outermost compile. `inclusive`, `inside` (number of compiles in it): by number - 1. */
static int add_chains(struct report *report, const struct times *inclusive, const uint32_t *inside)
{
	const uint64_t never = UINT64_MAX;
	uint32_t i, n = LENGTH(report->each, struct compile);
	struct buf ends = {}; /* uint64_t by thread: end of its previous chain */
	struct chain chain;
	int err = 0;

	/* No thread has had a chain yet. */
	for (i = 0; i < model__threads(report->model) && !err; i++)
		err = buf__append(&ends, &never, sizeof(never));
	for (i = 0; i < n && !err; i++) {
		const struct compile *compile = compile_at(report, i + 1);
		uint64_t *last = &ITEM(ends, uint64_t, compile->thread);

		/* Numbers are in the order of first samples, so chains of one thread come in the order of
		 * time. */
		if (compile->parent || !model__thread(report->model, compile->thread)->shown)
			continue;
		err = make_chain(report, compile, &chain);
		chain.times = inclusive[i];
		/* The compile itself included. */
		chain.compiles = inside[i];
		if (*last != never)
			chain.after = compile->begin > *last ? compile->begin - *last : 0;
		*last = compile->end;
		err = err ?: buf__append(&report->chains, &chain, sizeof(chain));
	}
	buf__free(&ends);
	return err;
}

int compiles__add(struct report *report)
{
	uint32_t i, n = LENGTH(report->each, struct compile);
	_cleanup_free_ struct times *inclusive = calloc(n + 1, sizeof(*inclusive));
	_cleanup_free_ uint32_t *inside = calloc(n + 1, sizeof(*inside));
	int err = inclusive && inside ? name_stages(report) : -ENOMEM;

	/* Outer compiles have lower numbers (number_calls() goes inwards). So from the last to the first, each one
	 * is complete when it is added to the one around it. */
	for (i = n; i-- && !err;) {
		const struct compile *compile = compile_at(report, i + 1);

		times__add(&inclusive[i], &compile->self);
		inside[i]++;
		if (!compile->parent)
			continue;
		times__add(&inclusive[compile->parent - 1], &inclusive[i]);
		inside[compile->parent - 1] += inside[i];
	}
	err = err ?: failed__find(report, inclusive) ?: add_chains(report, inclusive, inside);
	if (!err && report__wants(report, REPORT_REPEAT))
		err = repeats__add(report, inclusive);
	return err;
}

/* Longest first; equal ones in the order of files, of time and of threads, so that the output is the same in each run. */
static int longer(const void *left, const void *right, void *arg)
{
	const bool *wall = arg;
	const struct chain *a = left, *b = right;
	uint64_t x = times__weight(&a->times, *wall), y = times__weight(&b->times, *wall);

	return ORDER(y, x) ?: ORDER(a->file, b->file) ?: ORDER(a->begin, b->begin)
		?: ORDER(a->thread, b->thread);
}

void compiles__sort(struct report *report)
{
	if (report->chains.len)
		qsort_r(report->chains.data, LENGTH(report->chains, struct chain),
			sizeof(struct chain), longer, &report->wall);
}
