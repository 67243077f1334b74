/* Compiles, phases and passes over time: each call as a span of its thread, inside of its caller's span and behind the
 * one before it, whatever the recording says. Private to this folder and those after it.
 *
 * Zero-initialised is empty. One thread. Errors: -ENOMEM. Times are ns since the begin of what is shown. */
#ifndef CPROFD_EXPORT_UNIT_SPANS_H
#define CPROFD_EXPORT_UNIT_SPANS_H

#include "export/model.h"

struct unit_span {
	uint32_t place, parent, node; /* place: of its thread, in `threads`; parent: a span, or UINT32_MAX; node: of the unit tree */
	uint64_t begin, end;	      /* begin < end */
};

struct unit_spans {
	struct buf items; /* struct unit_span: each is parent of the next, or what is open is closed up to its parent */
	uint64_t below;	  /* ns: shorter ones are left out; 0: all are shown */
};

/* Of the `n` threads, up to `to`; when there are more than `max`, `below` leaves the shortest out. Of a model that was
 * read with all its calls (units.keep). With a filter of samples nobody knows how long compiles are: there are none. */
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

/* What is in a span that is left out is left out, too. */
static inline bool unit_spans__shown(const struct unit_spans *spans, const struct unit_span *span)
{
	return span->end - span->begin >= spans->below;
}

#endif
