/* SPDX-License-Identifier: MIT */
/* attach to several processes: one recording of all. Prints its own errors; CLI_*. */
#pragma once

#include "cli/cli.h"

/* `n` is 2 to CLI_PIDS_MAX. Blocks until all have ended or a signal arrives. */
int several__run(const struct cli_options *options, const pid_t *pids, uint32_t n);
