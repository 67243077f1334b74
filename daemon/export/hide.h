/* SPDX-License-Identifier: MIT */
/* Hides frames: an event sink between the recording and its reader, behind the filters of samples (filter.h).
 *
 * A hidden frame is in no stack: its time goes to its caller, and what it called appears to be called by that
 * caller. No sample is left out and no time changes; a stack of hidden frames only becomes the single frame
 * HIDE_NOTE. That frame takes the first row of each table, and stacks that became equal are one, so all ids differ
 * from those of the recording. Owner: the options and `next` are borrowed. Threading: none kept. Errors: -errno. */
#pragma once

#include <stdbool.h>

#include "events/events.h"
#include "export/export.h"

#define HIDE_NOTE "(hidden)"

struct hide;
/* Does any option hide frames? */
bool hide__wanted(const struct export_options *options);
int hide__new(const struct export_options *options, struct event_sink *next, struct hide **ret);
struct event_sink *hide__sink(struct hide *hide);
/* After the recording was read. -ENOENT: a pattern matched nothing. */
int hide__missing(const struct hide *hide, struct export_missing *ret);
struct hide *hide__free(struct hide *hide); /* NULL */
