/* SPDX-License-Identifier: MIT */
#include "export/unit_spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* When a call ends: what has no end goes on to the end of its thread, and a caller as long
 * as what it called. */
static void set_ends(struct model *model)
{
	uint32_t i;

	for (i = unit_tree__calls(&model->units); i--;) {
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

/* Where a thread is: its innermost span that is open, and the end of what was closed last. */
struct place {
	uint32_t number, top; /* number: among the threads shown, + 1; 0: it is not */
	uint32_t last;	      /* span + 1; 0: none yet */
	uint64_t closed;
};

/* Closes what is open in the thread up to `parent` (UINT32_MAX: all). False: that one was closed
 * before. */
static bool close_up_to(const struct unit_spans *spans, struct place *place, uint32_t parent)
{
	while (place->top != parent && place->top != UINT32_MAX) {
		const struct unit_span *span = unit_spans__item(spans, place->top);

		place->closed = span->end > place->closed ? span->end : place->closed;
		place->top = span->parent;
	}
	return place->top == parent;
}

/* `span_of`: by call, its span or UINT32_MAX. */
static int add_span(struct unit_spans *spans, const struct model *model, uint64_t to, uint32_t id, struct place *place,
		    uint32_t *span_of)
{
	const struct unit_tree *tree = &model->units;
	const struct unit_call *call = unit_tree__call(tree, id);
	uint64_t from = model__from(model), last = to;
	struct unit_span span = {.place = place->number - 1,
			    .parent = UINT32_MAX,
			    .begin = call->begin > from ? call->begin - from : 0,
			    .end = call->end > from ? call->end - from : 0};

	if (call->parent != CALL_NONE && unit_tree__call(tree, call->parent)->thread == call->thread) {
		span.parent = span_of[call->parent];
		if (span.parent == UINT32_MAX)
			return 0; /* it was left out itself */
		last = unit_spans__item(spans, span.parent)->end;
	}
	if (!close_up_to(spans, place, span.parent))
		return 0;
	if (span.parent != UINT32_MAX && span.begin < unit_spans__item(spans, span.parent)->begin)
		span.begin = unit_spans__item(spans, span.parent)->begin;
	span.begin = span.begin < place->closed ? place->closed : span.begin;
	span.end = span.end > last ? last : span.end;
	if (span.end <= span.begin)
		return 0;
	span.node = unit_tree__final(tree, call->node);
	place->top = span_of[id] = unit_spans__n(spans);
	if (buf__append(&spans->items, &span, sizeof(span)))
		return -ENOMEM;
	if (place->last)
		ITEM(spans->items, struct unit_span, place->last - 1).next = span_of[id];
	else
		ITEM(spans->first, uint32_t, span.place) = span_of[id] + 1;
	place->last = span_of[id] + 1;
	return 0;
}

static int compare_length(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a > *b ? -1 : *a < *b;
}

/* The shortest ones go, when there are too many; what is in them is as short. */
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
	qsort(lengths, n, sizeof(*lengths), compare_length);
	spans->below = lengths[max] + 1;
	return 0;
}

int unit_spans__make(struct model *model, struct model_thread *const *threads, uint32_t n, uint64_t to, uint64_t max,
		struct unit_spans *ret)
{
	uint32_t calls = unit_tree__calls(&model->units), i;
	_cleanup_free_ struct place *places = calloc(model__threads(model) + 1, sizeof(*places));
	_cleanup_free_ uint32_t *span_of = calloc(calls + 1, sizeof(*span_of));
	int err = places && span_of ? 0 : -ENOMEM;

	if (model->filter || !calls || err)
		return err;
	if (buf__lengthen(&ret->first, n * sizeof(uint32_t)))
		return -ENOMEM;
	for (i = 0; i < model__threads(model); i++)
		places[i].top = UINT32_MAX;
	for (i = 0; i < n; i++)
		places[threads[i]->id].number = i + 1;
	set_ends(model);
	for (i = 0; i < calls && !err; i++) {
		uint32_t thread = unit_tree__call(&model->units, i)->thread;

		span_of[i] = UINT32_MAX;
		if (places[thread].number)
			err = add_span(ret, model, to, i, &places[thread], span_of);
	}
	return err ?: drop_short(ret, max);
}

void unit_spans__free(struct unit_spans *spans)
{
	buf__free(&spans->items);
	buf__free(&spans->first);
}
