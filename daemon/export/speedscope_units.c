/* Evented profiles: the compiles of a thread over time, and in them their phases and passes.
 * speedscope throws on events that are not in order or not balanced, so each call is cut to the
 * inside of its caller, behind the one before it, whatever the recording says. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "events/json.h"
#include "export/speedscope.h"

#define ITEM(buf, type, i) (((type *)(buf).data)[i])
/* The two events of a call, about. */
#define SPAN_BYTES 110u
/* Of the file's bound this part at most goes to calls; the shortest are left out. */
#define SPANS_SHARE 4u

/* The frames in which nodes of the tree are shown; UINT32_MAX: not yet. */
static int frame_of(struct model *model, struct buf *frames, uint32_t id, uint32_t *ret)
{
	const uint32_t none = UINT32_MAX;
	struct unit_node node = unit_tree__node(&model->units, id);
	struct buf name = {};
	int err = 0;

	while (frames->len / sizeof(none) <= id)
		if (buf__append(frames, &none, sizeof(none)))
			return -ENOMEM;
	*ret = ITEM(*frames, uint32_t, id);
	if (*ret != none)
		return 0;
	err = buf__puts(&name, *node.name ? node.name : "(name unknown)");
	if (node.kind == UNIT_COMPILE && *node.name)
		err = err ?: buf__printf(&name, "(%s)", node.signature);
	err = err ?: buf__append(&name, "", 1);
	err = err ?: projection__label(model, name.data, node.file, node.line, ret);
	if (!err)
		ITEM(*frames, uint32_t, id) = *ret;
	buf__free(&name);
	return err;
}

/* When a call ends: what was not told to end goes on to the end of its thread, and a caller as long
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
	uint64_t closed;
};

/* Closes what is open in the thread up to `parent` (UINT32_MAX: all). False: that one was closed
 * before. */
static bool close_up_to(const struct speedscope *file, struct place *place, uint32_t parent)
{
	while (place->top != parent && place->top != UINT32_MAX) {
		const struct speedscope_span *span =
			&ITEM(file->spans, struct speedscope_span, place->top);

		place->closed = span->end > place->closed ? span->end : place->closed;
		place->top = span->parent;
	}
	return place->top == parent;
}

/* `span_of`: by call, its span or UINT32_MAX. */
static int add_span(struct speedscope *file, struct buf *frames, uint32_t id, struct place *place,
		    uint32_t *span_of)
{
	struct unit_tree *tree = &file->model->units;
	const struct unit_call *call = unit_tree__call(tree, id);
	uint64_t from = model__from(file->model), last = file->to;
	struct speedscope_span span = {.place = place->number - 1,
				       .parent = UINT32_MAX,
				       .begin = call->begin > from ? call->begin - from : 0,
				       .end = call->end > from ? call->end - from : 0};
	int err;

	if (call->parent != CALL_NONE &&
	    unit_tree__call(tree, call->parent)->thread == call->thread) {
		span.parent = span_of[call->parent];
		if (span.parent == UINT32_MAX)
			return 0; /* it was left out itself */
		last = ITEM(file->spans, struct speedscope_span, span.parent).end;
	}
	if (!close_up_to(file, place, span.parent))
		return 0;
	if (span.parent != UINT32_MAX &&
	    span.begin < ITEM(file->spans, struct speedscope_span, span.parent).begin)
		span.begin = ITEM(file->spans, struct speedscope_span, span.parent).begin;
	span.begin = span.begin < place->closed ? place->closed : span.begin;
	span.end = span.end > last ? last : span.end;
	if (span.end <= span.begin)
		return 0;
	err = frame_of(file->model, frames, unit_tree__final(tree, call->node), &span.frame);
	place->top = span_of[id] = (uint32_t)(file->spans.len / sizeof(span));
	return err ?: buf__append(&file->spans, &span, sizeof(span));
}

static int compare_length(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a > *b ? -1 : *a < *b;
}

/* The shortest ones go, when there are too many; what is in them is as short. */
static int drop_short(struct speedscope *file)
{
	uint64_t max = file->options->max_bytes ? file->options->max_bytes : EXPORT_BYTES_MAX;
	uint64_t n = file->spans.len / sizeof(struct speedscope_span), i,
		 kept = max / SPANS_SHARE / SPAN_BYTES;
	_cleanup_free_ uint64_t *lengths = NULL;

	if (n <= kept)
		return 0;
	lengths = calloc(n, sizeof(*lengths));
	if (!lengths)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		lengths[i] = ITEM(file->spans, struct speedscope_span, i).end -
			     ITEM(file->spans, struct speedscope_span, i).begin;
	qsort(lengths, n, sizeof(*lengths), compare_length);
	file->spans_below = lengths[kept] + 1;
	return 0;
}

int speedscope__units(struct speedscope *file)
{
	struct model *model = file->model;
	uint32_t n = unit_tree__calls(&model->units), i;
	_cleanup_free_ struct place *places = calloc(model__threads(model) + 1, sizeof(*places));
	_cleanup_free_ uint32_t *span_of = calloc(n + 1, sizeof(*span_of));
	struct buf frames = {};
	int err = places && span_of ? 0 : -ENOMEM;

	/* With a filter of samples nobody knows how long the compiles are that are shown. */
	if (model->filter || !n || err)
		return err;
	for (i = 0; i < model__threads(model); i++)
		places[i].top = UINT32_MAX;
	for (i = 0; i < file->n; i++)
		places[file->threads[i]->id].number = i + 1;
	set_ends(model);
	for (i = 0; i < n && !err; i++) {
		uint32_t thread = unit_tree__call(&model->units, i)->thread;

		span_of[i] = UINT32_MAX;
		if (places[thread].number)
			err = add_span(file, &frames, i, &places[thread], span_of);
	}
	buf__free(&frames);
	return err ?: drop_short(file);
}

bool speedscope__span_shown(const struct speedscope *file, const struct speedscope_span *span)
{
	return span->end - span->begin >= file->spans_below;
}

/* --- the events of one thread --- */

static int put_event(struct buf *out, const struct speedscope *file, char type,
		     const struct speedscope_span *span, uint64_t at, bool *first)
{
	int err =
		buf__printf(out, "%s{\"type\":\"%c\",\"frame\":%u,\"at\":%llu}", *first ? "" : ",",
			    type, file->number[span->frame], (unsigned long long)at);

	*first = false;
	return err;
}

int speedscope__put_spans(const struct speedscope *file, uint32_t place, struct buf *out)
{
	uint32_t n = (uint32_t)(file->spans.len / sizeof(struct speedscope_span)), i,
		 top = UINT32_MAX;
	bool first = true;
	int err = 0;

	/* Each is parent of the next, or what is open is closed up to its parent. */
	for (i = 0; i <= n && !err; i++) {
		const struct speedscope_span *span = i < n ? &ITEM(file->spans,
								   struct speedscope_span, i)
							   : NULL,
					     *open;

		if (span && (span->place != place || !speedscope__span_shown(file, span)))
			continue;
		while (top != UINT32_MAX && (!span || top != span->parent) && !err) {
			open = &ITEM(file->spans, struct speedscope_span, top);
			err = put_event(out, file, 'C', open, open->end, &first);
			top = open->parent;
		}
		if (!span || err)
			continue;
		err = put_event(out, file, 'O', span, span->begin, &first);
		top = i;
	}
	return err;
}
