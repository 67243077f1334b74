/* SPDX-License-Identifier: MIT */
/* --skip-first reads the recording once more before the real pass: which compiles are the first N of their unit is
 * known only when all compiles are sorted by begin. */

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "export/model.h"

static struct unit_node node_of(const struct model *model, uint32_t call)
{
	const struct unit_tree *tree = &model->units;

	return unit_tree__node(tree, unit_tree__final(tree, unit_tree__call(tree, call)->node));
}

/* Orders compiles by begin; with equal times, as in the recording. */
static int earlier(const void *left, const void *right, void *arg)
{
	const struct unit_tree *tree = arg;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint64_t x = unit_tree__call(tree, a)->begin, y = unit_tree__call(tree, b)->begin;

	return ORDER(x, y) ?: ORDER(a, b);
}

/* What identifies a unit. A compile without a name is a unit of its own (call + 1). */
static int key_of(struct buf *key, const struct model *model, uint32_t call)
{
	const struct unit_node node = node_of(model, call);
	const char *const texts[] = {node.compiler, node.name, node.signature, node.file};
	const uint32_t numbers[] = {model__thread(model, unit_tree__call(&model->units, call)->thread)->process, node.line,
				    *node.name ? 0 : call + 1};
	int err;

	buf__clear(key);
	err = buf__append(key, numbers, sizeof(numbers));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !err; i++)
		err = buf__append(key, texts[i], strlen(texts[i]) + 1);
	return err;
}

/* `order`: compiles sorted by begin. Sets skipped[call] for the first ones of each unit. */
static int count(const struct model *model, const uint32_t *order, uint32_t n, uint32_t first, bool *skipped)
{
	_cleanup_(intern__free) struct intern units = {};
	struct buf counts = {}, key = {}; /* uint32_t by unit */
	uint32_t i, *count = NULL;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		err = key_of(&key, model, order[i]);
		if (!err && !(count = intern__item(&units, key.data, key.len, &counts, sizeof(*count))))
			err = -ENOMEM;
		if (!err)
			skipped[order[i]] = (*count)++ < first;
	}
	buf__free(&counts);
	buf__free(&key);
	return err;
}

/* Fills skip->rows: a skipped compile takes along everything inside of it. */
static int set_skipped(struct skip *skip, const struct model *model, uint32_t first)
{
	const struct unit_tree *tree = &model->units;
	const uint32_t *rows = (const uint32_t *)tree->rows.data;
	uint32_t i, n = unit_tree__calls(tree), n_rows = (uint32_t)(tree->rows.len / sizeof(*rows));
	_cleanup_free_ uint32_t *order = calloc(n + 1, sizeof(*order));
	_cleanup_free_ bool *skipped = calloc(n + 1, sizeof(*skipped));
	int err = 0;

	if (!order || !skipped)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		if (node_of(model, i).kind == UNIT_COMPILE)
			order[skip->compiles++] = i;
	qsort_r(order, skip->compiles, sizeof(*order), earlier, (void *)tree);
	err = count(model, order, skip->compiles, first, skipped);
	for (i = 0; i < n; i++) { /* a parent has a lower number than its children */
		uint32_t parent = unit_tree__call(tree, i)->parent;

		skipped[i] |= parent != CALL_NONE && skipped[parent];
	}
	/* From calls to rows: a compile that goes on in a new epoch has a row in each. */
	for (i = 0; i < n_rows && !err; i++) {
		bool skips = rows[i] != CALL_NONE && skipped[rows[i]];

		err = buf__append(&skip->rows, &skips, sizeof(skips));
	}
	return err;
}

int skip__find(struct skip *skip, int recording_fd, uint32_t first)
{
	const struct export_options all = {};
	struct export_missing missing = {};
	off_t from = lseek(recording_fd, 0, SEEK_CUR);
	struct model model;
	int err;

	if (from < 0)
		return -errno;
	err = model__init(&model, &all);
	/* Only the tree of units is of interest. */
	model.slice = model__no_slice;
	model.epoch = model__no_epoch;
	model.with_units = model.units.keep = model.units.keep_rows = true;
	err = err ?: model__read(&model, recording_fd, &missing) ?: set_skipped(skip, &model, first);
	model__free(&model);
	if (!err && lseek(recording_fd, from, SEEK_SET) < 0)
		err = -errno;
	return err;
}

void skip__free(struct skip *skip)
{
	buf__free(&skip->rows);
}
