/* SPDX-License-Identifier: MIT */
/* Several recordings of one time, each of another process, as one: their epochs one after another, times as they are, and one
 * ledger that adds up. Private to readers of recordings. Errors: -errno. */
#ifndef CPROFD_EXPORT_JOIN_H
#define CPROFD_EXPORT_JOIN_H

#include <stdbool.h>
#include <stdint.h>

/* Reads `in`, from their begins, and writes to `out`. *ret_cut: one of them ends in the middle, so the whole has no `end`. */
int recordings__join(const int *in, uint32_t n, int out, bool compress, bool *ret_cut);

#endif
