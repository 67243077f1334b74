/* SPDX-License-Identifier: MIT */
/* The filters of samples, between the recording and whoever reads it: a sink of
 * events that hands events on to another one, for all exporters the same.
 *
 * A sample passes when it is of the class, its stack has a frame of the function
 * and one of the module, that are asked for, and it is in no compile that is to be
 * skipped (skip.h: the recording is read once more for that, when the filter is made). Another one keeps its
 * place and its times, so that a thread's time still adds up, but its stack is
 * one note, FILTER_LEFT_OUT. Threads and windows are cut by the model (exactly,
 * also inside a sample). The note takes the first row of each table; all other
 * ids move up by one.
 *
 * Where a recording is made (`whole`), samples that do not pass are not in it, a
 * window ends it (its times are cut as the model does it), and ids stay: to a reader
 * a thread's time between two samples of it is time that was not recorded.
 * Owner: the options and `next` are borrowed. Threading: none kept. Errors: -errno. */
#ifndef CPROFD_EXPORT_FILTER_H
#define CPROFD_EXPORT_FILTER_H

#include <stdbool.h>

#include "events/events.h"
#include "export/export.h"

#define FILTER_LEFT_OUT "(left out)"

struct filter;
/* Does anything in the options choose samples? */
bool filter__wanted(const struct export_options *options);
int filter__new(const struct export_options *options, bool whole, int recording_fd,
		struct event_sink *next, struct filter **ret);
struct event_sink *filter__sink(struct filter *filter);
/* After the reading of a recording: samples that are in it, and how long all of it was, ns. */
uint64_t filter__kept(const struct filter *filter);
uint64_t filter__span(const struct filter *filter);
/* After the reading. -ENOENT: a name that nothing answers to. */
int filter__missing(const struct filter *filter, struct export_missing *ret);
struct filter *filter__free(struct filter *filter); /* NULL */

#endif
