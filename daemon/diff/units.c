/* SPDX-License-Identifier: MIT */
/* Compiles, phases and passes: moves the time of nodes of the unit tree to rows, once all names are known.
 *
 * While reading, time is kept by node (SERIES_NODE ...), as a name may arrive after the samples; here
 * unit_tree__final() says which node it became, and the path from there to the outermost compile says which
 * rows it belongs to. */
#include <errno.h>

#include "base/stamps.h"
#include "diff/internal.h"

static int add_series(struct measure *measure, uint32_t row, const struct series *from)
{
	struct series *to = series__at(&measure->series[SERIES_ROW], row);

	return to ? series__join(to, from) : -ENOMEM;
}

/* Adds a node's own time to the rows of its path, by the same rules as the report (report/units.c). `tables`: bits
 * of the tables to add to. */
static int add_path(struct diff *diff, struct measure *measure, uint32_t id,
		    const struct series *series, uint32_t tables)
{
	static const enum report_by by[UNIT_KINDS] = {REPORT_UNIT, REPORT_PHASE, REPORT_PASS};
	struct unit_tree *tree = &diff->model->units;
	bool in_compile = false;
	uint32_t at, row;
	int err = 0;

	/* Each row of the path counts once, also if the path has it several times (recursion). */
	stamps__next(&diff->stamps, &diff->stamp);
	for (at = id; at && !err;) {
		struct unit_node node = unit_tree__node(tree, at);
		bool own = node.kind == UNIT_COMPILE ? !in_compile : at == id;
		struct diff_key key = {.name = *node.name ? node.name : UNIT_NO_NAME,
				       .module = node.compiler,
				       .detail = node.kind == UNIT_COMPILE ? node.signature : ""};
		uint32_t *stamp;

		at = node.parent;
		/* A kind that a newer version may have. */
		if (node.kind >= UNIT_KINDS)
			continue;
		in_compile |= node.kind == UNIT_COMPILE;
		key.by = by[node.kind];
		if (!(diff->options->tables & tables & 1u << key.by) || !(diff->options->inclusive || own))
			continue;
		err = diff__row(diff, &key, &row);
		stamp = err ? NULL : diff__cached(&diff->stamps, row);
		if (!stamp)
			return err ? err : -ENOMEM;
		if (*stamp != diff->stamp)
			err = add_series(measure, row, series);
		*stamp = diff->stamp;
	}
	return err;
}

/* Rows for time that belongs to no unit, as in the report: so exclusive times of compiles add up to the total, and
 * the passes are not taken for all of a compiler's native code. */
static int add_rest(struct diff *diff, struct measure *measure, enum report_by by, const char *name, const struct series *series)
{
	const struct diff_key key = {.by = by, .name = name, .module = "", .detail = ""};
	uint32_t row;

	if (!diff__wants(diff, by) || !series->total)
		return 0;
	return diff__row(diff, &key, &row) ?: add_series(measure, row, series);
}

/* The kind of the innermost unit around it that is a compile or a pass; UNIT_KINDS: outside of all compiles. */
static uint8_t kind_around(const struct unit_tree *tree, uint32_t id, bool passes)
{
	struct unit_node node;

	for (; id; id = node.parent) {
		node = unit_tree__node(tree, id);
		if (node.kind == UNIT_COMPILE || (passes && node.kind == UNIT_PASS))
			return node.kind;
	}
	return UNIT_KINDS;
}

/* The i-th; NULL: it has no time. */
static const struct series *series_of(const struct measure *measure, enum series_kind kind, uint32_t i)
{
	const struct buf *all = &measure->series[kind];
	const struct series *series = i < all->len / sizeof(*series) ? &ITEM(*all, struct series, i) : NULL;

	return series && series->total ? series : NULL;
}

static int add_node(struct diff *diff, struct measure *measure, uint32_t i, enum series_kind kind, uint32_t tables)
{
	const struct series *series = series_of(measure, kind, i);
	uint32_t id = unit_tree__final(&diff->model->units, i);

	if (!series)
		return 0;
	return id ? add_path(diff, measure, id, series, tables) : add_rest(diff, measure, REPORT_UNIT, REPORT_OUTSIDE, series);
}

static int add_nodes(struct diff *diff, struct measure *measure)
{
	const struct unit_tree *tree = &diff->model->units;
	uint32_t i, n = tree->nodes.n;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		const struct series *native = series_of(measure, SERIES_NATIVE, i);

		err = add_node(diff, measure, i, SERIES_NODE, DIFF_TABLES);
		/* Only compiles contain the collector's time; phases and passes do not. */
		err = err ?: add_node(diff, measure, i, SERIES_COLLECTOR, 1u << REPORT_UNIT);
		if (!err && native && kind_around(tree, unit_tree__final(tree, i), true) == UNIT_COMPILE)
			err = add_rest(diff, measure, REPORT_PASS, REPORT_NO_PASS, native);
	}
	return err;
}

/* By name and signature, for the comparison of what both sides compile (compare.c, compiles_alike()). */
static int count_compile(struct diff *diff, uint32_t node, bool after, uint64_t count)
{
	const uint64_t none[2] = {};
	struct unit_node unit = unit_tree__node(&diff->model->units, node);
	_cleanup_(buf__free) struct buf key = {};
	uint32_t id;
	int err = buf__puts(&key, unit.name) ?: buf__append(&key, "", 1) ?: buf__puts(&key, unit.signature);

	err = err ?: intern__id(&diff->compiles, key.data, key.len, &id);
	if (!err && id * sizeof(none) == diff->counts.len)
		err = buf__append(&diff->counts, none, sizeof(none));
	if (!err)
		ITEM(diff->counts, uint64_t, 2 * id + after) += count;
	return err;
}

int diff__add_units(struct diff *diff, struct diff_recording *recording)
{
	const struct unit_tree *tree = &diff->model->units;
	int err = 0;

	/* Node 0 is the time outside of all units. */
	for (uint32_t i = 1; i < diff->spent.len / sizeof(uint64_t); i++)
		if (kind_around(tree, unit_tree__final(tree, i), false) == UNIT_COMPILE)
			recording->compiling += ITEM(diff->spent, uint64_t, i);
	for (uint32_t per = 0; per < DIFF_PER_COUNT && !err; per++)
		err = add_nodes(diff, &recording->measures[per]);
	for (uint32_t i = 0; i < diff->begun.len / sizeof(uint32_t) && !err; i++)
		if (ITEM(diff->begun, uint32_t, i))
			err = count_compile(diff, unit_tree__final(tree, i), recording->after,
					    ITEM(diff->begun, uint32_t, i));
	return err;
}
