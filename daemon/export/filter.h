/* SPDX-License-Identifier: MIT */
/* The filters of samples, the same for all exporters: an event sink between the recording and its reader, which
 * passes events on to another sink.
 *
 * A sample passes if it is of the given class, its stack has a frame of the given function and one of the given
 * module, and it is in no skipped compile (skip.h: for that the recording is read once more when the filter is
 * made). A sample that does not pass keeps its place and its times, so that a thread's time still adds up, but its
 * stack becomes the single frame FILTER_LEFT_OUT. That frame takes the first row of each table; all other ids move
 * up by one. Threads and windows are cut later by the model (exactly, also inside a sample).
 *
 * `whole`: the events become a new recording. Then samples that do not pass are dropped, a window really ends the
 * recording (times are cut as the model does), and ids stay. To a reader, the time between two samples of a thread
 * was then not recorded. Owner: the options and `next` are borrowed. Threading: none kept. Errors: -errno. */
#pragma once

#include <stdbool.h>

#include "events/events.h"
#include "export/export.h"

#define FILTER_LEFT_OUT "(left out)"

struct filter;
/* Does any option select samples? */
bool filter__wanted(const struct export_options *options);
/* `whole` as above. recording_fd is used only for --skip-first, whose first pass restores its position. */
int filter__new(const struct export_options *options, bool whole, int recording_fd,
		struct event_sink *next, struct filter **ret);
struct event_sink *filter__sink(struct filter *filter);
/* After the recording was read: samples that passed (with `whole`), and how long all of it was, ns. */
uint64_t filter__kept(const struct filter *filter);
uint64_t filter__span(const struct filter *filter);
/* After the recording was read. -ENOENT: a filter matched nothing. */
int filter__missing(const struct filter *filter, struct export_missing *ret);
struct filter *filter__free(struct filter *filter); /* NULL */
