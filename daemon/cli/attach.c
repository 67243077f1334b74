/* SPDX-License-Identifier: MIT */
/* `cprofd attach PID...`: one process is recorded directly, several by one child each, whose files are merged. */
#include "cli/continuous.h"
#include "cli/flight.h"
#include "cli/recorder.h"

/* One process takes the short way, in this process. Of several, each has a recorder in a child of its own
 * (several.c), because a recorder gives up root when its first answer arrives and could not request the next
 * session. */
int attach__run(const struct cli_options *options)
{
	pid_t pids[CLI_PIDS_MAX];
	uint32_t n;
	int status = options__pids(options, pids, &n);

	status = status ?: continuous__judge(options) ?: flight__judge(options);
	if (status != CLI_DONE)
		return status;
	if (options->continuous && n > 1) {
		say__failure("one `cprofd attach` each, into the same directory", "--continuous records one process (-s: and its children)");
		return CLI_USAGE;
	}
	if (flight__wanted(options) && n > 1) {
		say__failure("one `cprofd attach` each, into the same directory", "--trigger and --last record one process (-s: and its children)");
		return CLI_USAGE;
	}
	return n == 1 ? recorder__run(options, pids[0], NULL) : several__run(options, pids, n);
}
