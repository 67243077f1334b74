/* SPDX-License-Identifier: MIT */
/* `push --follow DIR`: the recordings that --continuous or the agent completes in a directory, one after another, each in a process of its
 * own. DIR is the spool: what was not delivered when this ended is delivered when it begins again.
 *
 *     DIR/cprofd-20260131T120000.000Z-4242.cprof     names tell the order
 *     DIR/.pushed-3f2a...                            names of those that were delivered to that address */
#pragma once

#include "cli/cli.h"

/* Until a signal comes, or no attempt can succeed. `push` delivers options->operands[0]; FOLLOW_AGAIN: it could not. CLI_*. */
#define FOLLOW_AGAIN 75
int follow__run(const struct cli_options *options, const char *url, int (*push)(const struct cli_options *options));
