/* SPDX-License-Identifier: MIT */
/* The summary that attach and record print on stderr. */
#pragma once

#include <stdio.h>

#include "cli/cli.h"
#include "cli/tally.h"

/* Reads the recording from its start (the fd must be seekable). *ret_cpu: ns of CPU time in it. -errno, after saying
 * so. *ret_cpu is set also with --quiet, when nothing is printed: recorder.c compares it with the children's CPU
 * time. */
int summary__print(int recording_fd, const struct cli_options *options, uint64_t *ret_cpu);

/* 0 of 0 is 0 %: an empty recording has a summary, too. */
static inline double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* --- summary_head.c --- */
/* The first lines of a summary: counts, classes of time, losses. Pure: turns sums into text. */
/* True: the first line is a warning. */
bool summary__head(FILE *out, const struct tally_result *result, bool verbose);
/* The time that is 100 % in all shares. */
uint64_t summary__whole(const struct tally_result *result);
/* CPU time of threads that did not hold the GIL (they have no stacks with --gil). */
uint64_t summary__without_gil(const struct tally_result *result);
