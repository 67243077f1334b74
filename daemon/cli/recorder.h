/* SPDX-License-Identifier: MIT */
/* attach and record: from the request to the file and the summary. */
#ifndef CPROFD_CLI_RECORDER_H
#define CPROFD_CLI_RECORDER_H

#include <signal.h>

#include "cli/cli.h"

/* A command that waits to be executed; attach has none. */
struct launch {
	pid_t pid;
	int go;          /* one byte: execute now; closed without: do not */
	int failed;      /* an errno comes when exec failed; end of file: it went well */
	int status;      /* of wait(), when reaped */
	uint64_t cpu;    /* ns, with all children that it waited for; when reaped */
	bool reaped, exec_failed;
	const char *name;
};

/* Forks the command as the calling user; it waits before exec. `silent`: the terminal is not the command's. -errno. */
int launch__start(char **argv, bool silent, struct launch *ret);
/* Lets it go, once its events are attached. -errno of exec. */
int launch__go(struct launch *launch);
/* Waits for its end: `options` as of waitpid(). Whether it has ended. */
bool launch__reap(struct launch *launch, int options);

/* One of several processes, each recorded by a process of cprofd's. */
struct recorder_counts {
	bool began;      /* it was attached to */
	uint64_t samples, rate, lost, threads;
};
struct recorder_part {
	int fd;          /* of its recording */
	int leash;       /* it stops when the other end is closed */
	struct recorder_counts *counts; /* shared: as it goes on */
};
/* CLI_*; failures were said. */
int recorder__part(const struct cli_options *options, pid_t pid, const struct recorder_part *part);
/* Signals that end a recording are read from here on. */
int recorder__signals(sigset_t *ret_before);

/* launch: NULL for a process that runs already. Speaks; CLI_*. */
int recorder__run(const struct cli_options *options, pid_t pid, struct launch *launch);

#endif
