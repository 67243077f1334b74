/* SPDX-License-Identifier: MIT */
/* Frames that are not to be seen, between the recording and whoever reads it: a sink of events in front of another one, behind
 * the filters of samples (filter.h).
 *
 * A hidden frame is in no stack: its time is that of the frame that called it, and what it called was called by that one. No
 * sample is left out and no time changes; of a stack without any other frame a note is left, HIDE_NOTE. The note takes the first row
 * of each table, and stacks that became the same are one: all ids are this sink's own.
 * Owner: the options and `next` are borrowed. Threading: none kept. Errors: -errno. */
#ifndef CPROFD_EXPORT_HIDE_H
#define CPROFD_EXPORT_HIDE_H

#include <stdbool.h>

#include "events/events.h"
#include "export/export.h"

#define HIDE_NOTE "(hidden)"

struct hide;
/* Does anything in the options hide frames? */
bool hide__wanted(const struct export_options *options);
int hide__new(const struct export_options *options, struct event_sink *next, struct hide **ret);
struct event_sink *hide__sink(struct hide *hide);
/* After the reading. -ENOENT: a pattern that nothing answers to. */
int hide__missing(const struct hide *hide, struct export_missing *ret);
struct hide *hide__free(struct hide *hide); /* NULL */

#endif
