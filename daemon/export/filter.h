/* SPDX-License-Identifier: MIT */
/* The filters of samples, the same for all exporters.
 *
 * A sample passes if it is of the given class, its stack has a frame of the given function and one of the given
 * module, and it is in no skipped compile (skip.h: for that the recording is read once more when the filter is
 * made). Threads and windows are cut by the model (exactly, also inside a sample). Owner: the options are borrowed.
 * Threading: none kept. Errors: -errno. */
#pragma once

#include <stdbool.h>

#include "events/events.h"
#include "export/export.h"

#define FILTER_LEFT_OUT "(left out)"

struct filter;

/* Does any option select samples? */
bool filter__wanted(const struct export_options *options);
/* recording_fd is used only for --skip-first, whose first pass restores its position. */
int filter__new(const struct export_options *options, int recording_fd, struct filter **ret);
/* Give it each event, in order. */
int filter__event(struct filter *filter, const struct event *event);
/* Does a sample of the last event pass? */
int filter__passes(struct filter *filter, const struct sample_row *row, bool *ret);
/* Are frames missing in this stack? */
bool filter__has_hole(const struct filter *filter, uint32_t stack);
/* After the recording was read. -ENOENT: a filter matched nothing. */
int filter__missing(const struct filter *filter, struct export_missing *ret);
struct filter *filter__free(struct filter *filter); /* NULL */
