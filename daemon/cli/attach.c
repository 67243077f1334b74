/* SPDX-License-Identifier: MIT */
/* `cprofd attach PID...`: one process is recorded directly, several by one child each, whose files are merged. */
#include "cli/cli.h"
#include "cli/recorder.h"
#include "cli/several.h"

int attach__run(const struct cli_options *options)
{
	pid_t pids[CLI_PIDS_MAX];
	uint32_t n;
	int status = options__pids(options, pids, &n);

	if (status != CLI_DONE)
		return status;
	return n == 1 ? recorder__run(options, pids[0], NULL) : several__run(options, pids, n);
}
