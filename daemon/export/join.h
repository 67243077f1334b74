/* SPDX-License-Identifier: MIT */
/* Joins recordings that were made at the same time, each of another process, or the parts of a session, into one: their
 * epochs follow each other, times stay as they are, and one ledger has the sums. Private to readers of recordings. Errors: -errno. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct event_trigger;

/* Reads `in` from the start and writes to `out`. *ret_cut: one of them is incomplete, so the result has no
 * `end`. `triggers`: events that follow the session. All descriptors are the caller's; `in` must be seekable, and is left at its end. */
int recordings__join(const int *in, uint32_t n, const struct event_trigger *triggers, uint32_t n_triggers, int out, bool compress, bool *ret_cut);
