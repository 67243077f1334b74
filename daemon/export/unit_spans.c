/* SPDX-License-Identifier: MIT */
/* Turns calls of the unit tree (compiles, phases, passes) into spans that are properly nested and ordered,
 * whatever the recording says: readers such as speedscope rely on it.
 *
 *     calls:   [svd 0 .. 90]  [lowering 10 .. 95]  [typing 40 .. 60]      lowering is inside svd, typing beside it
 *     spans:   [svd 0 .. 95]  [lowering 10 .. 95]                         typing would overlap: left out
 *
 * Samples give begins and ends only to within a period, so small overlaps are normal, not a sign of damage. */
#include "export/unit_spans.h"

#include <errno.h>

#include "base/cleanup.h"

/* A call without an end lasts until its thread ends, and a caller at least as long as what it called. */
static void set_ends(struct model *model)
{
	/* From the last: inner calls have higher numbers, so their ends are final when they reach their
	 * parent. */
	for (uint32_t i = unit_tree__calls(&model->units); i--;) {
		struct unit_call *call = unit_tree__call(&model->units, i), *parent;

		if (!call->ended)
			call->end = model__thread(model, call->thread)->finish;
		if (call->parent == CALL_NONE)
			continue;
		parent = unit_tree__call(&model->units, call->parent);
		if (parent->end < call->end)
			parent->end = call->end;
	}
}

/* State of a thread while spans are made: its innermost open span, and the end of the last closed one. Spans are
 * calls; CALL_NONE: none. */
struct position {
	uint32_t number, top; /* number: index among the shown threads + 1; 0: not shown */
	uint32_t last;
	uint64_t closed;
};

/* Calls without a span begin when they end. */
static bool is_span(const struct unit_call *call)
{
	return call->begin < call->end;
}

/* A worker's unit may have a parent in its caller's thread: it is an outermost span of its own thread. */
static uint32_t parent_of(const struct unit_tree *tree, const struct unit_call *call)
{
	return call->parent != CALL_NONE && unit_tree__call(tree, call->parent)->thread == call->thread ? call->parent : CALL_NONE;
}

/* Closes open spans of the thread up to `parent` (CALL_NONE: all). False: `parent` was closed before. */
static bool close_up_to(const struct unit_tree *tree, struct position *at, uint32_t parent)
{
	while (at->top != parent && at->top != CALL_NONE) {
		const struct unit_call *call = unit_tree__call(tree, at->top);

		at->closed = call->end > at->closed ? call->end : at->closed;
		at->top = parent_of(tree, call);
	}
	return at->top == parent;
}

/* Clips a call to its parent and to the end of the span before it. False: nothing is left of it. */
static bool clip(const struct unit_tree *tree, struct unit_call *call, uint64_t from, uint64_t to, struct position *at)
{
	uint32_t parent = parent_of(tree, call);
	const struct unit_call *outer = parent == CALL_NONE ? NULL : unit_tree__call(tree, parent);
	uint64_t first = from, last = to;

	if (outer) {
		if (!is_span(outer)) /* it was left out */
			return false;
		first = outer->begin;
		last = outer->end;
	}
	/* The call of a parent that has ended by now: only in a damaged recording. */
	if (!close_up_to(tree, at, parent))
		return false;
	first = first < at->closed ? at->closed : first;
	call->begin = call->begin < first ? first : call->begin;
	call->end = call->end > last ? last : call->end;
	return is_span(call);
}

static uint32_t count(const struct unit_tree *tree, uint64_t shortest)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < unit_tree__calls(tree); i++)
		n += unit_tree__call(tree, i)->end - unit_tree__call(tree, i)->begin >= shortest;
	return n;
}

/* If there are too many, drops the shortest: by the least length that few enough have. Spans inside of a dropped one
 * are as short, so they go, too. A few walks, as a sorted copy of all lengths takes memory when there is least. */
static void drop_short(struct unit_spans *spans, uint64_t max, uint64_t longest)
{
	uint64_t too_short = 0, enough = longest + 1;

	if (spans->n <= max)
		return;
	while (enough - too_short > 1) {
		uint64_t middle = too_short + (enough - too_short) / 2;

		if (count(spans->tree, middle) > max)
			too_short = middle;
		else
			enough = middle;
	}
	spans->below = enough;
}

int unit_spans__make(struct model *model, struct model_thread *const *threads, uint32_t n, uint64_t to, uint64_t max,
		struct unit_spans *ret)
{
	const struct unit_tree *tree = &model->units;
	uint64_t from = model__from(model);
	uint32_t calls = unit_tree__calls(tree), i;
	_cleanup_free_ struct position *positions = calloc(model__threads(model) + 1, sizeof(*positions));

	if (!positions)
		return -ENOMEM;
	if (model->filter || !calls)
		return 0;
	ret->tree = tree;
	ret->from = from;
	if (buf__lengthen(&ret->first, n * sizeof(uint32_t)))
		return -ENOMEM;
	for (i = 0; i < model__threads(model); i++)
		positions[i].top = positions[i].last = CALL_NONE;
	for (i = 0; i < n; i++)
		positions[threads[i]->id].number = i + 1;
	set_ends(model);
	for (i = 0; i < calls; i++) {
		struct unit_call *call = unit_tree__call(tree, i);
		struct position *at = &positions[call->thread];

		call->next = CALL_NONE;
		if (!at->number || !clip(tree, call, from, from + to, at)) {
			call->end = call->begin;
			continue;
		}
		/* The span becomes the innermost open one of its thread. */
		if (at->last == CALL_NONE)
			ITEM(ret->first, uint32_t, at->number - 1) = i + 1;
		else
			unit_tree__call(tree, at->last)->next = i;
		at->top = at->last = i;
		ret->n++;
	}
	drop_short(ret, max, to);
	return 0;
}

struct unit_span unit_spans__item(const struct unit_spans *spans, uint32_t id)
{
	const struct unit_call *call = unit_tree__call(spans->tree, id);

	return (struct unit_span){.call = id,
				  .parent = parent_of(spans->tree, call),
				  .node = unit_tree__final(spans->tree, call->node),
				  .begin = call->begin - spans->from,
				  .end = call->end - spans->from};
}

static bool is_shown(const struct unit_spans *spans, const struct unit_call *call)
{
	return is_span(call) && call->end - call->begin >= spans->below;
}

/* `call`, or the next one of its thread that is shown. */
static bool find(const struct unit_spans *spans, uint32_t call, struct unit_span *ret)
{
	while (call != CALL_NONE && !is_shown(spans, unit_tree__call(spans->tree, call)))
		call = unit_tree__call(spans->tree, call)->next;
	if (call != CALL_NONE)
		*ret = unit_spans__item(spans, call);
	return call != CALL_NONE;
}

bool unit_spans__first(const struct unit_spans *spans, uint32_t index, struct unit_span *ret)
{
	uint32_t first = index < LENGTH(spans->first, uint32_t) ? ITEM(spans->first, const uint32_t, index) : 0;

	return first && find(spans, first - 1, ret);
}

bool unit_spans__next(const struct unit_spans *spans, struct unit_span *span)
{
	return find(spans, unit_tree__call(spans->tree, span->call)->next, span);
}

bool unit_spans__from(const struct unit_spans *spans, uint32_t call, struct unit_span *ret)
{
	uint32_t n = spans->n ? unit_tree__calls(spans->tree) : 0;

	while (call < n && !is_shown(spans, unit_tree__call(spans->tree, call)))
		call++;
	if (call < n)
		*ret = unit_spans__item(spans, call);
	return call < n;
}

void unit_spans__free(struct unit_spans *spans)
{
	buf__free(&spans->first);
}
