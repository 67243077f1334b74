/* SPDX-License-Identifier: MIT */
/* Compiles, phases and passes over time: each call is a span of its thread, inside its caller's span and after the
 * span before it. Inconsistent times of a recording are clipped, in the calls themselves: an hour has 800,000 of them.
 * Private to this directory and those after it.
 *
 *     struct unit_span span;
 *     for (more = unit_spans__first(spans, index, &span); more; more = unit_spans__next(spans, &span))
 *
 * Zero-initialised is empty. One thread. Errors: -ENOMEM. Times are ns since the begin of the window. */
#pragma once

#include "export/model.h"

struct unit_span {
	uint32_t call, parent, node; /* call: its number in the unit tree; parent: of the same thread, or CALL_NONE; node: of that tree */
	uint64_t begin, end;	     /* begin < end */
};

struct unit_spans {
	const struct unit_tree *tree;
	uint64_t from;
	struct buf first; /* uint32_t by thread index: the call of its first span + 1; 0: none */
	uint32_t n;	  /* those too short to be shown, too */
	uint64_t below;	  /* ns: shorter ones are left out, with what is inside of them; 0: all are shown */
};

/* Spans of the `n` threads, up to `to`. If there are more than `max`, `below` leaves out the shortest. The model
 * must have been read with units.keep, must stay, and the begins and ends of its calls are those of the spans from
 * now on. With a filter there are no spans: how long compiles took is then unknown. */
int unit_spans__make(struct model *model, struct model_thread *const *threads, uint32_t n, uint64_t to, uint64_t max,
		struct unit_spans *ret);
void unit_spans__free(struct unit_spans *spans);

/* The spans that are shown. Parents come before what is inside of them. False: there is none (more). */
bool unit_spans__first(const struct unit_spans *spans, uint32_t index, struct unit_span *ret); /* of a thread */
bool unit_spans__next(const struct unit_spans *spans, struct unit_span *span);		       /* of the same thread */
bool unit_spans__from(const struct unit_spans *spans, uint32_t call, struct unit_span *ret);   /* of all: at this call, or after it */

/* The span of a call that has one. */
struct unit_span unit_spans__item(const struct unit_spans *spans, uint32_t call);
