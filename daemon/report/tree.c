/* SPDX-License-Identifier: MIT */
/* The table "tree": the lines that caused compiles, below them the compiles, in these the compiles that they
 * needed, and with --phases their phases and passes. A row has all calls of one path.
 *
 *     caused by <module>  svd.py:12                     trigger
 *       svd(array(float64, 2d, C))  svd.py:4            compile
 *         lowering                                      phase, with --phases
 *           add(int64, int64)  util.py:7                compile that it needed
 *
 * A row's parent is part of its key (table.h), so the same compile below two lines is two rows. */
#include <errno.h>

#include "report/internal.h"

static struct table *tree_of(struct report *report)
{
	return &report->tables[REPORT_TREE];
}

/* The row of a node. A phase that is not shown has the row of its compile. Recursion goes to the outermost
 * unit once; then the row is cached by node, in the cache that other tables use for frames. */
static int row_of(struct report *report, uint32_t id, uint32_t *ret)
{
	struct table *table = tree_of(report);
	struct unit_node node = unit_tree__node(&report->model->units, id);
	struct row_key key;
	uint32_t parent = ROW_NONE;
	const uint32_t *known = rows__of_frame(&table->rows, id); /* this table's "frames" are nodes of the unit tree */
	int err = 0;

	if (!known)
		return -ENOMEM;
	*ret = *known - 1;
	if (*known)
		return 0;
	if (node.parent)
		err = row_of(report, node.parent, &parent);
	else
		err = units__trigger_row(report, table, node.trigger, ROW_NONE, &parent);
	if (err)
		return err;
	if (node.kind == UNIT_COMPILE || report->options->phases) {
		/* Read again: what row_of() did for the parent may have moved the strings. */
		node = unit_tree__node(&report->model->units, id);
		key = units__key(&node);
		key.detail = node.signature;
		key.parent = parent;
		key.kind = node.kind == UNIT_COMPILE ? KIND_GROUP
			   : node.kind == UNIT_PHASE ? KIND_PHASE
						     : KIND_PASS;
		err = table__row(table, &key, &parent);
	}
	*rows__of_frame(&table->rows, id) = err ? 0 : parent + 1;
	*ret = parent;
	return err;
}

int tree__calls(struct report *report, uint32_t id, uint64_t calls, uint64_t begun)
{
	struct unit_node node = unit_tree__node(&report->model->units, id);
	struct table *table = tree_of(report);
	uint32_t row;
	int err;

	/* A phase without a row of its own would count its calls in its compile's row. */
	if (!id || (node.kind != UNIT_COMPILE && !report->options->phases))
		return 0;
	err = row_of(report, id, &row);
	if (err)
		return err;
	times__count(table__times(table, row, report->read), calls, begun);
	if (!node.parent) /* an outermost compile also counts for the line that caused it */
		times__count(table__times(table, table__key(table, row).parent, report->read), calls, begun);
	return 0;
}

/* Each row on the path to the root gets the time once: a path has no row twice, as its parents are part of
 * the key. */
int tree__times(struct report *report, uint32_t id, const struct times *times)
{
	const struct row_key outside = row_key__named(ROW_OUTSIDE, KIND_GROUP);
	struct table *table = tree_of(report);
	struct row_key key;
	bool compiled = false;
	uint32_t row, leaf;
	int err = id ? row_of(report, id, &row) : table__row(table, &outside, &row);

	for (leaf = row; !err && row != ROW_NONE; row = key.parent) {
		key = table__key(table, row);
		times__add(&table__times(table, row, report->read)->inclusive, times);
		/* A phase's time is exclusive time of the phase, and of its compile, too. */
		if (key.kind == KIND_GROUP ? !compiled : row == leaf && key.kind >= KIND_PASS)
			table__exclusive(table, row, times);
		compiled |= key.kind == KIND_GROUP;
	}
	return err;
}

const char *tree__kind(const struct row_key *key)
{
	return key->kind == KIND_PHASE			 ? "phase"
	       : key->kind == KIND_PASS			 ? "pass"
	       : key->kind != KIND_GROUP		 ? "trigger"
	       : *key->module || key->parent != ROW_NONE ? "unit"
							 : "outside";
}

/* --- parents and children --- */

static uint32_t depth_of(const struct table *table, uint32_t row)
{
	uint32_t depth = 0;

	for (; row != ROW_NONE; row = table__key(table, row).parent)
		depth++;
	return depth;
}

/* Links the ranked rows into a tree. Ranks are in order, so each row is appended to its parent's list. Links hold
 * index + 1, so that zeroed memory means "none". A row whose parent was cut off is never reached, so it needs no
 * check. */
int tree__link(struct report *report)
{
	struct table *table = tree_of(report);
	const struct report_options *options = report->options;
	struct buf
		last = {},
		count = {}; /* by row + 1: rank + 1 of its last child; its number of children */
	size_t size = (rows__n(&table->rows) + 2) * sizeof(uint32_t);
	uint32_t i, row, parent;
	int err = buf__lengthen(&last, size) ?: buf__lengthen(&count, size) ?: buf__lengthen(&report->first, size) ?: buf__lengthen(&report->next, size);

	report->top = 0;
	for (i = 0; i < table->n_ranks && !err; i++) {
		row = table->ranks[i].row;
		parent = table__key(table, row).parent + 1; /* ROW_NONE: 0 */
		if (table->ranks[i].inclusive < options->min_share * table->total ||
		    (options->top && ITEM(count, uint32_t, parent) == options->top) ||
		    (options->depth && depth_of(table, row) > options->depth))
			continue;
		ITEM(count, uint32_t, parent)++;
		if (ITEM(last, uint32_t, parent))
			ITEM(report->next, uint32_t, ITEM(last, uint32_t, parent) - 1) = i + 1;
		else if (parent)
			ITEM(report->first, uint32_t, parent - 1) = i + 1;
		else
			report->top = i + 1;
		ITEM(last, uint32_t, parent) = i + 1;
	}
	buf__free(&last);
	buf__free(&count);
	return err;
}
