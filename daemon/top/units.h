/* SPDX-License-Identifier: MIT */
/* The compile units of the current epoch, for the live view: names for rows, and what is running now. Errors:
 * -ENOMEM. Zero-initialised is empty. */
#pragma once

#include "base/buf.h"
#include "events/events.h"
#include "base/intern.h"
#include "export/model.h"

struct top_units {
	struct intern texts; /* names of rows: kind (a byte), name with signature (NUL-terminated) */
	struct buf units;    /* struct top_unit of the epoch, by id - 1 */
	uint32_t now;        /* unit of the last sample; 0: outside of all */
	uint32_t unnamed;    /* how many had no name at first */
	/* Set by the last event: rows of the text `was` now belong to the text `is`; equal: none. */
	uint32_t was, is;
};

/* Call it with each event, before the model gets it. */
int top_units__event(struct top_units *units, const struct event *event, const struct model *model);
void top_units__free(struct top_units *units);

/* Walks from a sample's unit outwards. *ret_own: does the sample's time count as exclusive for this text? For
 * a phase or pass, if it is the innermost unit; for a compile, if it is the innermost compile. Plain data:
 * copy it freely. Valid until the next event. */
struct top_units_walk {
	uint32_t at, first;
	bool compiled;
};
struct top_units_walk top_units__walk(const struct top_units *units, uint32_t unit);
bool top_units__next(const struct top_units *units, struct top_units_walk *walk, uint32_t *ret_text, bool *ret_own);
/* *ret_kind: "compile", "phase", "pass". */
void top_units__name(const struct top_units *units, uint32_t text, const char **ret_name, const char **ret_kind);
/* "foo(int64) > typing" */
void top_units__now(const struct top_units *units, char *ret, size_t size);
