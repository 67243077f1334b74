/* SPDX-License-Identifier: MIT */
/* The compile units of the epoch, for a live table: names of rows, and what goes on now. Errors: -ENOMEM.
 * Zero-initialised is empty. */
#ifndef CPROFD_TOP_UNITS_H
#define CPROFD_TOP_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "events/events.h"
#include "base/intern.h"
#include "export/model.h"

struct top_units {
	struct intern texts; /* kind (a byte), name with signature (NUL-terminated): what a row is called */
	struct buf units;    /* of the epoch: struct top_unit, by id - 1 */
	uint32_t now;        /* unit of the last sample; 0: outside of all */
	uint32_t unnamed;    /* how many had no name when they were met */
	/* Of the last event: rows of the one text are rows of the other from now on; equal: none. */
	uint32_t was, is;
};

/* The model has had all events before this one. */
int top_units__event(struct top_units *units, const struct event *event, const struct model *model);
void top_units__free(struct top_units *units);

/* From a sample's unit outwards, each text once: does the sample's time count as its own? Of a phase or pass that is
 * the innermost; of a compile, the innermost compile. */
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

#endif
