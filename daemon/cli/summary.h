/* SPDX-License-Identifier: MIT */
/* What was recorded, in a few lines on stderr. */
#ifndef CPROFD_CLI_SUMMARY_H
#define CPROFD_CLI_SUMMARY_H

#include "cli/tally.h"

/* Reads the recording from its start (the fd can seek). `lines`: rows are lines, not functions; `wall`: of wall-clock mode; `rules`: of --rules, or NULL. *ret_cpu: ns of CPU time in it.
 * -errno. */
int summary__print(int recording_fd, bool lines, bool wall, const char *rules, bool verbose, uint64_t *ret_cpu);

#endif
