/* SPDX-License-Identifier: MIT */
/* The lines of the program's source that compilers were at. An example, of a sample of 1 ms:
 *
 *     f, lowering, at f.py:10            f.py:10 of f          inclusive 1 ms
 *       g, LLVM, at no line              g, no line            inclusive 1 ms, exclusive 1 ms
 *
 * So the exclusive times of a function's rows add up to its own in the table `source`. */
#include "report/internal.h"

/* A compile around a sample, and its innermost phase; 0: none. */
struct level {
	uint32_t compile, phase;
};

/* Innermost first. */
static uint32_t find_levels(const struct unit_tree *tree, uint32_t node, struct level ret[static UNIT_DEPTH_MAX])
{
	uint32_t phase = 0, n = 0;

	while (node && n < UNIT_DEPTH_MAX) {
		struct unit_node info = unit_tree__node(tree, node);
		bool compile = info.kind == UNIT_COMPILE;

		if (compile)
			ret[n++] = (struct level){node, phase};
		if (compile || (!phase && info.kind == UNIT_PHASE))
			phase = compile ? 0 : node;
		node = info.parent;
	}
	return n;
}

/* `line` NULL: no line of that compile. */
static int add_row(struct report *report, const struct level *level, const struct source_line *line, bool own, const struct times *times)
{
	const struct unit_tree *tree = &report->model->units;
	struct unit_node compile = unit_tree__node(tree, level->compile), phase = unit_tree__node(tree, level->phase);
	struct table *table = &report->tables[REPORT_SOURCE_LINE], *phases = &report->below[REPORT_SOURCE_LINE];
	struct row_key key = units__key(&compile), below;
	uint32_t row;
	bool fresh;
	int err;

	/* Functions of one name may be at several places of a file: the methods of closures, an `impl` of each overload. */
	key.defined = key.line;
	key.detail = line ? "" : REPORT_NO_LINE;
	key.line = line ? line->line : 0;
	if (line)
		key.file = line->file;
	err = table__row(table, &key, &row);
	if (err)
		return err;
	fresh = table__inclusive(table, row, times);
	if (own)
		table__exclusive(table, row, times);
	if (!level->phase || !(fresh || own))
		return 0;
	below = units__key(&phase);
	below.parent = row;
	err = table__row(phases, &below, &row);
	if (!err)
		units__below(report, phases, row, times, own, fresh);
	return err;
}

int source_lines__add(struct report *report, uint32_t node, uint32_t line, const struct times *times)
{
	const struct line_tree *lines = &report->model->lines;
	struct level levels[UNIT_DEPTH_MAX];
	struct source_line at = {};
	uint32_t n = find_levels(&report->model->units, node, levels), i;
	int err = 0;

	table__stack(&report->tables[REPORT_SOURCE_LINE]);
	for (i = 0; i < n && !err; i++) {
		bool own = !i, found = false;

		/* A compile inside of these, whose time began later, has the lines that are deeper. */
		for (; line && !err; line = at.parent) {
			at = line_tree__line(lines, line);
			if (at.depth < n - i)
				break;
			if (at.depth > n - i)
				continue;
			err = add_row(report, &levels[i], &at, own && !found, times);
			found = true;
		}
		if (!found)
			err = err ?: add_row(report, &levels[i], NULL, own, times);
	}
	return err;
}
