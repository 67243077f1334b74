/* SPDX-License-Identifier: MIT */
/* Stacks of both sides for https://www.speedscope.app: the profiles "before", "after", "more than before" and "less
 * than before". The last two have the change of each stack's own time; branches too narrow to show count for their
 * callers. Weights are percentage points, or ns per compile. */
#include <math.h>

#include "base/cleanup.h"
#include "base/stream.h"
#include "diff/internal.h"
#include "events/json.h"

/* The shown branches as a tree, with own times. All arrays are by branch. */
struct tree {
	const struct diff *diff;
	double *before, *after; /* own times, by branch */
	uint32_t *first, *next; /* first child, next sibling; 0: none */
	uint32_t *frame, n_frames; /* frame: by branch, its row's index in the file */
};

static double shown(const struct diff *diff, double value)
{
	return diff->per == DIFF_SHARE ? 100 * value : value;
}

/* Links children in the order of appearance (that of ids), and subtracts the children's time from their parents. */
static void grow(struct tree *tree)
{
	const struct diff *diff = tree->diff;

	/* From the last to the first, so that prepending to the list of children leaves them in the order of
	 * ids. */
	for (uint32_t i = diff->branches.n; i-- > 0;) {
		uint32_t parent = flame__branch(diff, i).parent;

		if (!diff->shown[i])
			continue;
		tree->before[i] += diff->flame[i].comparison.before;
		tree->after[i] += diff->flame[i].comparison.after;
		if (i == BRANCH_ROOT)
			break;
		tree->before[parent] -= diff->flame[i].comparison.before;
		tree->after[parent] -= diff->flame[i].comparison.after;
		tree->next[i] = tree->first[parent];
		tree->first[parent] = i;
	}
}

/* A frame for each row, not for each branch: a function is in many branches. */
static int put_frames(struct tree *tree, struct buf *out)
{
	const struct diff *diff = tree->diff;
	_cleanup_free_ uint32_t *of_row = calloc(diff->keys.n + 1, sizeof(*of_row));
	int err = of_row ? 0 : -ENOMEM;

	for (uint32_t i = 1; i < diff->branches.n && !err; i++) {
		uint32_t row = flame__branch(diff, i).row;

		if (!diff->shown[i])
			continue;
		if (!of_row[row]) {
			struct diff_key key = diff__key(diff, row);

			err = buf__puts(out, tree->n_frames ? ",\n{" : "\n{") ?: json__member(out, "name", key.name);
			err = err ?: json__member(out, "file", key.module) ?: buf__puts(out, "}");
			of_row[row] = ++tree->n_frames;
		}
		tree->frame[i] = of_row[row] - 1;
	}
	return err;
}

/* The four profiles: before, after, and the two directions of the change. */
static double weight(const struct tree *tree, uint32_t id, int which)
{
	double before = shown(tree->diff, tree->before[id]), after = shown(tree->diff, tree->after[id]);
	const double weights[] = {before, after, after - before, before - after};

	return fmax(weights[which], 0);
}

static int put_stack(const struct tree *tree, uint32_t id, struct buf *path, struct buf *out)
{
	int err = 0;

	buf__clear(path);
	for (; id != BRANCH_ROOT && !err; id = flame__branch(tree->diff, id).parent)
		err = buf__append(path, &tree->frame[id], sizeof(*tree->frame));
	err = err ?: buf__puts(out, "[");
	for (size_t depth = path->len / sizeof(uint32_t); depth-- && !err;)
		err = buf__printf(out, "%u%s", ITEM(*path, uint32_t, depth), depth ? "," : "");
	return err ?: buf__puts(out, "]");
}

/* The next branch in a depth-first walk; the root after the last one. Without recursion: a stack may be
 * 16,000 frames deep. */
static uint32_t follow(const struct tree *tree, uint32_t id)
{
	if (tree->first[id])
		return tree->first[id];
	while (id != BRANCH_ROOT && !tree->next[id])
		id = flame__branch(tree->diff, id).parent;
	return id == BRANCH_ROOT ? 0 : tree->next[id];
}

static int put_profile(const struct tree *tree, int which, struct buf *out)
{
	static const char *const names[] = {"before", "after", "more than before", "less than before"};
	_cleanup_(buf__free) struct buf path = {}, weights = {};
	double sum = 0;
	uint32_t id = BRANCH_ROOT, n = 0;
	int err = buf__printf(out, "%s{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,\"samples\":[", which ? ",\n" : "\n",
			      names[which], tree->diff->per == DIFF_SHARE ? "none" : "nanoseconds");

	do {
		double value = weight(tree, id, which);

		/* Smaller values are rounding errors of the sums. */
		if (value > (tree->diff->per == DIFF_SHARE ? 1e-9 : 1e-3)) {
			err = err ?: buf__puts(out, n ? ",\n" : "\n") ?: put_stack(tree, id, &path, out);
			err = err ?: buf__printf(&weights, "%s%.9g", n++ ? "," : "", value);
			sum += value;
		}
		id = follow(tree, id);
	} while (id != BRANCH_ROOT && !err);
	return err ?: buf__printf(out, "],\n\"weights\":[%s],\"endValue\":%.12g}", n ? weights.data : "", sum);
}

static int put_all(struct tree *tree, struct buf *out)
{
	int err, which;

	grow(tree);
	err = buf__puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"cprofd@" CPROFD_VERSION
			     "\",\"name\":\"difference\",\"activeProfileIndex\":2,\n\"shared\":{\"frames\":[");
	err = err ?: put_frames(tree, out) ?: buf__puts(out, "]},\n\"profiles\":[");
	for (which = 0; which < 4; which++)
		err = err ?: put_profile(tree, which, out);
	return err ?: buf__puts(out, "]}\n");
}

int diff__speedscope(const struct diff *diff, FILE *out)
{
	size_t n = diff->branches.n;
	_cleanup_free_ double *before = calloc(n, sizeof(*before)), *after = calloc(n, sizeof(*after));
	_cleanup_free_ uint32_t *first = calloc(n, sizeof(*first)), *next = calloc(n, sizeof(*next)), *frame = calloc(n, sizeof(*frame));
	struct tree tree = {diff, before, after, first, next, frame, 0};
	_cleanup_(buf__free) struct buf text = {};
	int err = before && after && first && next && frame ? put_all(&tree, &text) : -ENOMEM;

	return err ?: stream__write(out, text.data, text.len) ?: stream__flush(out);
}
