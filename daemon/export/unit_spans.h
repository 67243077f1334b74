/* SPDX-License-Identifier: MIT */
/* Compiles, phases and passes over time: each call is a span of its thread, inside its caller's span and after the
 * span before it. Inconsistent times of a recording are clipped. Private to this directory and those after it.
 *
 * Zero-initialised is empty. One thread. Errors: -ENOMEM. Times are ns since the begin of the window. */
#pragma once

#include "export/model.h"

struct unit_span {
	uint32_t index, parent, node; /* index: in `threads`; parent: a span, or UINT32_MAX; node: of the unit tree */
	uint32_t call;		      /* of the unit tree */
	uint32_t next;		      /* the next span of the thread; 0: it is the last */
	uint64_t begin, end;	      /* begin < end */
};

struct unit_spans {
	struct buf items; /* struct unit_span: in the order of opening: parents before children */
	struct buf first; /* uint32_t by thread index: its first span + 1; 0: none */
	uint64_t below;	  /* ns: shorter ones are left out; 0: all are shown */
};

/* Spans of the `n` threads, up to `to`. If there are more than `max`, `below` leaves out the shortest. The model
 * must have been read with units.keep. With a filter there are no spans: how long compiles took is then unknown. */
int unit_spans__make(struct model *model, struct model_thread *const *threads, uint32_t n, uint64_t to, uint64_t max,
		struct unit_spans *ret);
void unit_spans__free(struct unit_spans *spans);

static inline uint32_t unit_spans__n(const struct unit_spans *spans)
{
	return (uint32_t)(spans->items.len / sizeof(struct unit_span));
}

static inline const struct unit_span *unit_spans__item(const struct unit_spans *spans, uint32_t i)
{
	return (const struct unit_span *)spans->items.data + i;
}

/* The first span of a thread, and the one after it; NULL: there is none. */
static inline const struct unit_span *unit_spans__first(const struct unit_spans *spans, uint32_t index)
{
	uint32_t first = index < spans->first.len / sizeof(uint32_t) ? ITEM(spans->first, const uint32_t, index) : 0;

	return first ? unit_spans__item(spans, first - 1) : NULL;
}

static inline const struct unit_span *unit_spans__next(const struct unit_spans *spans, const struct unit_span *span)
{
	return span->next ? unit_spans__item(spans, span->next) : NULL;
}

static inline uint32_t unit_spans__number(const struct unit_spans *spans, const struct unit_span *span)
{
	return (uint32_t)(span - (const struct unit_span *)spans->items.data);
}

/* Spans inside a dropped span are dropped, too. */
static inline bool unit_spans__shown(const struct unit_spans *spans, const struct unit_span *span)
{
	return span->end - span->begin >= spans->below;
}
