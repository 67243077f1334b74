/* SPDX-License-Identifier: MIT */
/* The first lines of a summary: counts, classes of time, losses. Pure: turns sums into text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/tally.h"

/* True: the first line is a warning. */
bool summary__head(FILE *out, const struct tally_result *result, bool verbose);
/* The time that is 100 % in all shares. */
uint64_t summary__whole(const struct tally_result *result);
/* CPU time of threads that did not hold the GIL (they have no stacks with --gil). */
uint64_t summary__without_gil(const struct tally_result *result);
