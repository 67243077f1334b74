/* SPDX-License-Identifier: MIT */
/* The summary that attach and record print on stderr. */
#pragma once

#include "cli/tally.h"

/* Reads the recording from its start (the fd must be seekable). `lines`: rows are lines, not functions;
 * `wall`: it was recorded in wall mode; `rules`: of --rules, or NULL. *ret_cpu: ns of CPU time in it. -errno.
 * *ret_cpu is set also with --quiet, when nothing is printed: recorder.c compares it with the children's CPU
 * time. */
int summary__print(int recording_fd, bool lines, bool wall, const char *rules, bool verbose, uint64_t *ret_cpu);
