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
	struct unit_span span;
	uint32_t i, frame;
	int err = unit_spans__make(file->model, file->threads, file->n, file->to, max / SPANS_SHARE / SPAN_BYTES, &file->spans);

	for (i = 0; !err && unit_spans__from(&file->spans, i, &span); i = span.call + 1)
		err = unit_frames__frame(&file->unit_frames, file->model, span.node, &frame);
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
	struct unit_span span;

	return unit_spans__first(&file->spans, index, &span);
}

/* `top`: the innermost open span. */
static int close_spans(const struct speedscope *file, uint32_t *top, uint32_t parent, struct buf *out, bool *first)
{
	int err = 0;

	while (*top != CALL_NONE && *top != parent && !err) {
		struct unit_span open = unit_spans__item(&file->spans, *top);

		err = put_event(out, file, 'C', &open, open.end, first);
		*top = open.parent;
	}
	return err;
}

/* Spans come in the order of opening, each inside its parent: before one opens, those that do not contain it are
 * closed. */
int speedscope__put_spans(const struct speedscope *file, uint32_t index, struct buf *out)
{
	struct unit_span span;
	uint32_t top = CALL_NONE;
	bool first = true, more = unit_spans__first(&file->spans, index, &span);
	int err = 0;

	for (; more && !err; more = unit_spans__next(&file->spans, &span)) {
		err = close_spans(file, &top, span.parent, out, &first);
		err = err ?: put_event(out, file, 'O', &span, span.begin, &first);
		top = span.call;
		err = err ?: speedscope__flush(file, out, SPEEDSCOPE_TEXT);
	}
	return err ?: close_spans(file, &top, CALL_NONE, out, &first);
}
