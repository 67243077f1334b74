/* SPDX-License-Identifier: MIT */
/* Failed compiles: those that ended before the last stage of their rules, usually by an exception. A
 * recording shows it like this: the compile has time in phases, none in those of the last stage, and its
 * thread has a sample after it.
 *
 *     compile f(int64):  parsing | typing | X             its thread's next sample is somewhere else
 *                        stages of the rules: typing, machine code -> none of the last one: failed
 *
 * This is a guess from samples, so it errs on the side of silence: short compiles, compiles with unknown
 * phases, and compilers without stages are never called failed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/quiet.h"
#include "report/internal.h"


/* Of a compile that ran for fewer periods, the last stage may just have been too short to be sampled. */
#define PERIODS 10u
#define NO_PHASE "(in no phase)"

/* Called for each sample of a thread, in whatever compile, and before filters: only then is it known that the
 * thread went on after a compile. */
int failed__sampled(struct report *report, uint32_t thread)
{
	uint64_t *last = buf__at(&report->last_samples, sizeof(*last), thread);

	if (!last)
		return -ENOMEM;
	*last = report->model->time_now;
	return 0;
}

static bool is_failed(const struct report *report, const struct compile *compile, const struct unit_node *node)
{
	const struct compiler *compiler = repeats__compiler(report, node->compiler);

	/* A phase without a name may have been the last stage. */
	if (!compiler || !compiler->n_stages || compile->unnamed || compile->self.cpu < PERIODS * report->model->period)
		return false;
	return !compile->stages[compiler->n_stages - 1].wall && !compile->stages[compiler->n_stages - 1].cpu &&
	       compile->thread < LENGTH(report->last_samples, uint64_t) &&
	       /* Without a later sample the compile may still have been running when the recording ended. */
	       ITEM(report->last_samples, uint64_t, compile->thread) > compile->end;
}

/* The outermost phase of this compile that its last sample was in. */
static const char *phase_of(const struct unit_tree *tree, const struct compile *compile)
{
	struct unit_node node = unit_tree__node(tree, unit_tree__final(tree, compile->last)), parent;

	if (!compile->last || node.kind == UNIT_COMPILE)
		return NO_PHASE;
	for (; node.parent; node = parent) {
		parent = unit_tree__node(tree, node.parent);
		if (parent.kind == UNIT_COMPILE)
			break;
	}
	return *node.name ? node.name : UNIT_NO_NAME;
}

/* A row for the function and signature, and below it a row for the phase that it was left in. */
static int add_row(struct report *report, uint32_t number, const struct unit_node *node, uint32_t *rows, const struct times *inclusive)
{
	const struct compile *compile = &ITEM(report->each, struct compile, number - 1);
	struct table *table = &report->tables[REPORT_FAILED], *below = &report->below[REPORT_FAILED];
	struct row_key key = units__key(node),
		       phase = {phase_of(&report->model->units, compile), "", node->compiler, NULL, 0, ROW_NONE, KIND_GROUP, 0, 0};
	struct row_times *times;
	uint32_t row;
	int err = table__row(table, &key, &phase.parent) ?: table__row(below, &phase, &row);

	if (err)
		return err;
	/* Set before compiles__in_its_row() below, which compares it with the rows of the compiles around
	 * this one. */
	rows[number - 1] = phase.parent;
	times = table__times(table, phase.parent, report->read);
	times__count(times, 1, compile->begin);
	times__add(&times->exclusive, &compile->self);
	if (!compiles__in_its_row(report, number, rows))
		times__add(&times->inclusive, inclusive);
	times = table__times(below, row, report->read);
	times__count(times, 1, compile->begin);
	times__add(&times->exclusive, &compile->self);
	times__add(&times->inclusive, &compile->self);
	return 0;
}

int failed__find(struct report *report, const struct times *inclusive)
{
	uint32_t i, n = LENGTH(report->each, struct compile);
	/* A filter may have removed samples of the last stage; with --gil the phase is unknown without the
	 * GIL. */
	bool known = !report->model->filter && !report->gil;
	_cleanup_free_ uint32_t *rows = malloc((n + 1) * sizeof(*rows));
	int err = rows ? 0 : -ENOMEM;

	if (rows)
		memset(rows, 0xff, (n + 1) * sizeof(*rows)); /* ROW_NONE */
	for (i = 0; known && i < n && !err; i++) {
		struct compile *compile = &ITEM(report->each, struct compile, i);
		struct unit_tree *tree = &report->model->units;
		struct unit_node node = unit_tree__node(tree, unit_tree__final(tree, compile->node));

		compile->failed = is_failed(report, compile, &node);
		if (compile->failed && model__thread(report->model, compile->thread)->shown && !quiet__is(&report->quiet, compile->thread))
			err = add_row(report, i + 1, &node, rows, &inclusive[i]);
	}
	return err;
}
