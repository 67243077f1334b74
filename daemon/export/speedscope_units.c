/* SPDX-License-Identifier: MIT */
/* Evented profiles: the compiles of a thread over time, with their phases and passes. speedscope fails on events
 * that are out of order or unbalanced; spans (unit_spans.h) are neither. */

#include "events/json.h"
#include "export/speedscope.h"

/* Size of the two events of a span, about. */
#define SPAN_BYTES 110u
/* Spans may take this fraction of the file's limit; the shortest are left out. */
#define SPANS_SHARE 4u

int speedscope__units(struct speedscope *file)
{
	uint64_t max = file->options->max_bytes ? file->options->max_bytes : EXPORT_BYTES_MAX;
	uint32_t i, frame;
	int err = unit_spans__make(file->model, file->threads, file->n, file->to, max / SPANS_SHARE / SPAN_BYTES, &file->spans);

	for (i = 0; i < unit_spans__n(&file->spans) && !err; i++)
		err = unit_frames__frame(&file->unit_frames, file->model, unit_spans__item(&file->spans, i)->node, &frame);
	return err;
}

uint32_t speedscope__span_frame(const struct speedscope *file, const struct unit_span *span)
{
	return unit_frames__made(&file->unit_frames, span->node);
}

/* --- the events of one thread --- */

static int put_event(struct buf *out, const struct speedscope *file, char type, const struct unit_span *span, uint64_t at,
		     bool *first)
{
	int err = buf__printf(out, "%s{\"type\":\"%c\",\"frame\":%u,\"at\":%llu}", *first ? "" : ",", type,
			      file->number[speedscope__span_frame(file, span)], (unsigned long long)at);

	*first = false;
	return err;
}

bool speedscope__has_spans(const struct speedscope *file, uint32_t index)
{
	const struct unit_span *span = unit_spans__first(&file->spans, index);

	while (span && !unit_spans__shown(&file->spans, span))
		span = unit_spans__next(&file->spans, span);
	return span;
}

/* Spans come in the order of opening, each inside its parent. `top` is the innermost open one: before a span
 * opens, those that do not contain it are closed. At the end, with `span` NULL, all are. */
int speedscope__put_spans(const struct speedscope *file, uint32_t index, struct buf *out)
{
	const struct unit_span *span = unit_spans__first(&file->spans, index), *open;
	uint32_t top = UINT32_MAX;
	bool first = true, more = span;
	int err = 0;

	/* One round more than there are spans, to close what is open. */
	for (; more && !err; span = more ? unit_spans__next(&file->spans, span) : NULL) {
		if (span && !unit_spans__shown(&file->spans, span))
			continue;
		more = span;
		while (top != UINT32_MAX && (!span || top != span->parent) && !err) {
			open = unit_spans__item(&file->spans, top);
			err = put_event(out, file, 'C', open, open->end, &first);
			top = open->parent;
		}
		if (!span || err)
			continue;
		err = put_event(out, file, 'O', span, span->begin, &first);
		top = unit_spans__number(&file->spans, span);
		err = err ?: speedscope__flush(file, out, SPEEDSCOPE_TEXT);
	}
	return err;
}
