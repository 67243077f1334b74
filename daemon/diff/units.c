/* Compiles, phases and passes: from nodes of the tree of units to rows, when all names are known.
 */
#include <errno.h>
#include <string.h>

#include "diff/internal.h"

#define ITEM(buf, type, i) (((type *)(buf).data)[i])

static int add_series(struct measure *measure, uint32_t row, const struct series *from)
{
	struct series *to = series__at(&measure->rows, row);
	float cells[DIFF_CELLS] = {};
	uint64_t total, samples;
	uint32_t i;
	int err = 0;

	if (!to)
		return -ENOMEM;
	total = to->total + from->total;
	samples = to->samples + from->samples;
	series__spread(to, cells);
	series__spread(from, cells);
	buf__clear(&to->points);
	for (i = 0; i < DIFF_CELLS && !err; i++) {
		const struct series_point point = {i, cells[i]};

		if (cells[i] > 0)
			err = buf__append(&to->points, &point, sizeof(point));
	}
	to->total = total;
	to->samples = samples;
	return err;
}

/* A node's own time, to the rows of its path: the report's rules (report/units.c). */
static int add_path(struct diff *diff, struct measure *measure, uint32_t id,
		    const struct series *series)
{
	static const enum report_by by[UNIT_KINDS] = {REPORT_UNIT, REPORT_PHASE, REPORT_PASS};
	struct unit_tree *tree = &diff->model->units;
	bool compile_met = false;
	uint32_t at, row;
	int err = 0;

	diff->stamp++;
	for (at = id; at && !err;) {
		struct unit_node node = unit_tree__node(tree, at);
		bool own = node.kind == UNIT_COMPILE ? !compile_met : at == id;
		struct diff_key key = {.name = *node.name ? node.name : "(name unknown)",
				       .place = node.compiler,
				       .detail = node.kind == UNIT_COMPILE ? node.signature : ""};
		uint32_t *mark;

		at = node.parent;
		if (node.kind >= UNIT_KINDS)
			continue;
		compile_met |= node.kind == UNIT_COMPILE;
		key.by = by[node.kind];
		if (!diff__wants(diff, key.by) || !(diff->options->inclusive || own))
			continue;
		err = diff__row(diff, &key, &row);
		mark = err ? NULL : diff__cached(&diff->marks, row);
		if (!mark)
			return err ? err : -ENOMEM;
		if (*mark != diff->stamp)
			err = add_series(measure, row, series);
		*mark = diff->stamp;
	}
	return err;
}

static int count_compile(struct diff *diff, uint32_t node, bool after, uint64_t count)
{
	const uint64_t none[2] = {};
	struct unit_node unit = unit_tree__node(&diff->model->units, node);
	struct buf key = {};
	uint32_t id;
	int err = buf__puts(&key, unit.name) ?: buf__append(&key, "", 1) ?: buf__puts(&key, unit.signature);

	err = err ?: intern__id(&diff->compiles, key.data, key.len, &id);
	if (!err && id * sizeof(none) == diff->counts.len)
		err = buf__append(&diff->counts, none, sizeof(none));
	if (!err)
		ITEM(diff->counts, uint64_t, 2 * id + after) += count;
	buf__free(&key);
	return err;
}

int diff__add_units(struct diff *diff, struct diff_recording *recording)
{
	const struct unit_tree *tree = &diff->model->units;
	uint32_t per, i;
	int err = 0;

	for (per = 0; per < DIFF_PER_COUNT; per++) {
		struct measure *measure = &recording->measures[per];

		for (i = 0; i < measure->nodes.len / sizeof(struct series) && !err; i++) {
			const struct series *series = &ITEM(measure->nodes, struct series, i);

			if (series->total)
				err = add_path(diff, measure, unit_tree__final(tree, i), series);
		}
	}
	for (i = 0; i < diff->begun.len / sizeof(uint32_t) && !err; i++)
		if (ITEM(diff->begun, uint32_t, i))
			err = count_compile(diff, unit_tree__final(tree, i), recording->after,
					    ITEM(diff->begun, uint32_t, i));
	return err;
}
