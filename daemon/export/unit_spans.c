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
#include "base/order.h"

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

/* State of a thread while spans are added: its innermost open span, and the end of the last closed one. */
struct position {
	uint32_t number, top; /* number: index among the shown threads + 1; 0: not shown */
	uint32_t last;	      /* span + 1; 0: none yet */
	uint64_t closed;
};

/* Closes open spans of the thread up to `parent` (UINT32_MAX: all). False: `parent` was closed before. */
static bool close_up_to(const struct unit_spans *spans, struct position *at, uint32_t parent)
{
	while (at->top != parent && at->top != UINT32_MAX) {
		const struct unit_span *span = unit_spans__item(spans, at->top);

		at->closed = span->end > at->closed ? span->end : at->closed;
		at->top = span->parent;
	}
	return at->top == parent;
}

/* Adds the span of a call, clipped to its parent and to the end of the span before it. `span_of`: call -> span, or
 * UINT32_MAX. */
static int add_span(struct unit_spans *spans, const struct model *model, uint64_t to, uint32_t id, struct position *at,
		    uint32_t *span_of)
{
	const struct unit_tree *tree = &model->units;
	const struct unit_call *call = unit_tree__call(tree, id);
	uint64_t from = model__from(model), last = to;
	struct unit_span span = {.index = at->number - 1,
			    .parent = UINT32_MAX,
			    .call = id,
			    .begin = call->begin > from ? call->begin - from : 0,
			    .end = call->end > from ? call->end - from : 0};

	/* A worker's unit may have a parent in its caller's thread: it is an outermost span of its own
	 * thread. */
	if (call->parent != CALL_NONE && unit_tree__call(tree, call->parent)->thread == call->thread) {
		span.parent = span_of[call->parent];
		if (span.parent == UINT32_MAX)
			return 0; /* the parent was left out */
		last = unit_spans__item(spans, span.parent)->end;
	}
	/* The call of a parent that has ended by now: only in a damaged recording. */
	if (!close_up_to(spans, at, span.parent))
		return 0;
	if (span.parent != UINT32_MAX && span.begin < unit_spans__item(spans, span.parent)->begin)
		span.begin = unit_spans__item(spans, span.parent)->begin;
	span.begin = span.begin < at->closed ? at->closed : span.begin;
	span.end = span.end > last ? last : span.end;
	if (span.end <= span.begin)
		return 0;
	span.node = unit_tree__final(tree, call->node);
	/* The span becomes the innermost open one of its thread. */
	at->top = span_of[id] = unit_spans__n(spans);
	if (buf__append(&spans->items, &span, sizeof(span)))
		return -ENOMEM;
	if (at->last)
		ITEM(spans->items, struct unit_span, at->last - 1).next = span_of[id];
	else
		ITEM(spans->first, uint32_t, span.index) = span_of[id] + 1;
	at->last = span_of[id] + 1;
	return 0;
}

/* If there are too many, drops the shortest. Spans inside of a dropped one are as short, so they go, too. */
static int drop_short(struct unit_spans *spans, uint64_t max)
{
	uint32_t n = unit_spans__n(spans), i;
	_cleanup_free_ uint64_t *lengths = NULL;

	if (n <= max)
		return 0;
	lengths = calloc(n, sizeof(*lengths));
	if (!lengths)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		lengths[i] = unit_spans__item(spans, i)->end - unit_spans__item(spans, i)->begin;
	qsort(lengths, n, sizeof(*lengths), order__u64);
	/* `max` are longer than this, or as long. */
	spans->below = lengths[n - 1 - max] + 1;
	return 0;
}

int unit_spans__make(struct model *model, struct model_thread *const *threads, uint32_t n, uint64_t to, uint64_t max,
		struct unit_spans *ret)
{
	uint32_t calls = unit_tree__calls(&model->units), i;
	_cleanup_free_ struct position *positions = calloc(model__threads(model) + 1, sizeof(*positions));
	_cleanup_free_ uint32_t *span_of = calloc(calls + 1, sizeof(*span_of));
	int err = positions && span_of ? 0 : -ENOMEM;

	if (model->filter || !calls || err)
		return err;
	if (buf__lengthen(&ret->first, n * sizeof(uint32_t)))
		return -ENOMEM;
	for (i = 0; i < model__threads(model); i++)
		positions[i].top = UINT32_MAX;
	for (i = 0; i < n; i++)
		positions[threads[i]->id].number = i + 1;
	set_ends(model);
	for (i = 0; i < calls && !err; i++) {
		uint32_t thread = unit_tree__call(&model->units, i)->thread;

		span_of[i] = UINT32_MAX;
		if (positions[thread].number)
			err = add_span(ret, model, to, i, &positions[thread], span_of);
	}
	return err ?: drop_short(ret, max);
}

void unit_spans__free(struct unit_spans *spans)
{
	buf__free(&spans->items);
	buf__free(&spans->first);
}
