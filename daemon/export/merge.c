/* SPDX-License-Identifier: MIT */
/* A k-way merge of the threads' slices by time (a heap of cursors). Neighbouring slices of the same stack
 * become one.
 *
 *     thread 1:  AAAA BB AAAA        in one bin:  A 9, B 4, C 2     three slices in place of seven
 *     thread 2:  C BB C A
 *
 * Memory: two arrays by node of the tree of stacks, not by slice. */
#include "export/speedscope.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/order.h"

struct cursor {
	struct slices_cursor slices;
	struct slice slice; /* the next one */
	bool left;	    /* there is one */
	uint64_t time;	    /* when it begins */
};

struct merge {
	const struct model *model;
	/* by node: the node that is shown for it (merge__fold); borrowed */
	const uint32_t *fold;
	uint64_t *sums;	 /* of the stacks in this bin, by node */
	uint32_t *order; /* stacks in this bin, in order of arrival */
	uint32_t n;
	struct merge_visitor *visitor;
	uint32_t last;	 /* held back until another stack follows, to join equal neighbours */
	uint64_t last_ns;
};

int merge__new(const struct model *model, const uint32_t *fold, struct merge **ret)
{
	struct merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return -ENOMEM;
	merge->model = model;
	merge->fold = fold;
	merge->sums = calloc(model->nodes.n, sizeof(*merge->sums));
	merge->order = calloc(model->nodes.n, sizeof(*merge->order));
	if (!merge->sums || !merge->order) {
		merge__free(merge);
		return -ENOMEM;
	}
	*ret = merge;
	return 0;
}

struct merge *merge__free(struct merge *merge)
{
	if (merge) {
		free(merge->sums);
		free(merge->order);
	}
	free(merge);
	return NULL;
}

/* `order` has each stack once: its sum was 0 before. A slice is never empty. */
static void add(struct merge *merge, uint32_t stack, uint64_t ns)
{
	if (!merge->sums[stack])
		merge->order[merge->n++] = stack;
	merge->sums[stack] += ns;
}

/* The visitor gets each run of equal stacks as one slice. */
static void give_last(struct merge *merge)
{
	if (merge->last_ns)
		merge->visitor->slice(merge->visitor, merge->last, merge->last_ns);
	merge->last_ns = 0;
}

static void give(struct merge *merge, uint32_t stack, uint64_t ns)
{
	if (stack != merge->last)
		give_last(merge);
	merge->last = stack;
	merge->last_ns += ns;
}

/* Only stacks of this bin are touched, so a bin costs as much as it has slices. */
static void end_bin(struct merge *merge)
{
	for (uint32_t i = 0; i < merge->n; i++) {
		uint32_t stack = merge->order[i];

		give(merge, stack, merge->sums[stack]);
		merge->sums[stack] = 0;
	}
	merge->n = 0;
}

/* --- several threads: a heap of cursors; the one whose next slice begins first is on top --- */

struct heap {
	const struct cursor *cursors;
	uint32_t *items; /* indices of cursors that have slices left */
	uint32_t n;
};

static bool is_before(const struct heap *heap, uint32_t a, uint32_t b)
{
	return heap->cursors[a].time < heap->cursors[b].time;
}

static void heap__push(struct heap *heap, uint32_t item)
{
	uint32_t at = heap->n++, up;

	for (; at; at = up) {
		up = (at - 1) / 2;
		if (!is_before(heap, item, heap->items[up]))
			break;
		heap->items[at] = heap->items[up];
	}
	heap->items[at] = item;
}

/* Moves the last item to the free place at the top, and down from there. */
static uint32_t heap__pop(struct heap *heap)
{
	uint32_t top = heap->items[0], item = heap->items[--heap->n], at = 0, down;

	for (; (down = 2 * at + 1) < heap->n; at = down) {
		down += down + 1 < heap->n && is_before(heap, heap->items[down + 1], heap->items[down]);
		if (!is_before(heap, heap->items[down], item))
			break;
		heap->items[at] = heap->items[down];
	}
	heap->items[at] = item;
	return top;
}

/* Takes the slices that begin before `until`. */
static void take(struct merge *merge, struct cursor *cursor, uint64_t until)
{
	for (; cursor->left && cursor->time < until; cursor->left = slices__next(&cursor->slices, &cursor->slice)) {
		add(merge, merge->fold[cursor->slice.stack], cursor->slice.ns);
		cursor->time += cursor->slice.ns;
	}
}

/* Within each bin, threads are taken in their own order, so that the output does not depend on the heap. Threads
 * without slices in a bin cost nothing. */
static int run_bins(struct merge *merge, struct cursor *cursors, uint32_t n, uint64_t bin)
{
	_cleanup_free_ uint32_t *items = calloc(n + 1, sizeof(*items)), *due = calloc(n + 1, sizeof(*due));
	struct heap heap = {cursors, items, 0};
	uint32_t i, n_due;

	if (!items || !due)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		if (cursors[i].left)
			heap__push(&heap, i);
	while (heap.n) {
		/* Bins are multiples of `bin` since the begin of the window. Empty ones are skipped. */
		uint64_t until = (cursors[heap.items[0]].time / bin + 1) * bin;

		for (n_due = 0; heap.n && cursors[heap.items[0]].time < until;)
			due[n_due++] = heap__pop(&heap);
		qsort(due, n_due, sizeof(*due), order__u32);
		for (i = 0; i < n_due; i++) {
			take(merge, &cursors[due[i]], until);
			if (cursors[due[i]].left)
				heap__push(&heap, due[i]);
		}
		end_bin(merge);
	}
	return 0;
}

static struct cursor cursor_of(const struct model *model, const struct model_thread *thread)
{
	struct cursor cursor = {.slices = SLICES(&thread->slices), .time = model__begin(model, thread)};

	cursor.left = slices__next(&cursor.slices, &cursor.slice);
	return cursor;
}

int merge__run(struct merge *merge, struct model_thread *const *threads, uint32_t n, uint64_t bin,
	       struct merge_visitor *visitor)
{
	_cleanup_free_ struct cursor *cursors = calloc(n + 1, sizeof(*cursors));
	int err = 0;

	if (!cursors)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		cursors[i] = cursor_of(merge->model, threads[i]);
	merge->visitor = visitor;
	if (bin)
		err = run_bins(merge, cursors, n, bin);
	else
		for (; cursors->left; cursors->left = slices__next(&cursors->slices, &cursors->slice))
			give(merge, merge->fold[cursors->slice.stack], cursors->slice.ns);
	give_last(merge);
	return err;
}

void merge__add_up(const struct model *model, uint64_t *ns)
{
	/* Children have higher ids than their parents: from the last to the first, each sum is complete
	 * before it is added. */
	for (uint32_t node = model->nodes.n - 1; node > MODEL_ROOT; node--)
		ns[model__node(model, node).parent] += ns[node];
}

int merge__subtree_ns(const struct model *model, struct model_thread *const *threads, uint32_t n,
		      uint64_t **ret)
{
	uint64_t *ns = calloc(model->nodes.n, sizeof(*ns));
	uint32_t i;

	if (!ns)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct slices_cursor cursor = SLICES(&threads[i]->slices);
		struct slice slice;

		while (slices__next(&cursor, &slice))
			ns[slice.stack] += slice.ns;
	}
	merge__add_up(model, ns);
	*ret = ns;
	return 0;
}

/* Nodes are in the order of creation, parents first: one pass resolves chains of folded nodes. */
void merge__fold(const struct model *model, const uint64_t *subtree_ns, uint64_t below,
		 uint32_t *ret_fold)
{
	ret_fold[MODEL_ROOT] = MODEL_ROOT;
	for (uint32_t node = 1; node < model->nodes.n; node++) {
		uint32_t parent = model__node(model, node).parent;

		if (subtree_ns[node] >= below || node == model->folded)
			ret_fold[node] = node;
		else
			ret_fold[node] = parent == MODEL_ROOT ? model->folded : ret_fold[parent];
	}
}
