/* SPDX-License-Identifier: MIT */
/* The first lines of a summary: counts, classes of time, what was lost. Pure: from the sums to text. */
#ifndef CPROFD_CLI_SUMMARY_HEAD_H
#define CPROFD_CLI_SUMMARY_HEAD_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/tally.h"

/* Does it begin with a warning? */
bool summary__head(FILE *out, const struct tally_result *result, bool verbose);
/* What 100 % are. */
uint64_t summary__whole(const struct tally_result *result);
/* CPU time of threads that did not hold the GIL, where only its holders were asked for. */
uint64_t summary__without_gil(const struct tally_result *result);

#endif
