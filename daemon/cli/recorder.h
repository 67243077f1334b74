/* SPDX-License-Identifier: MIT */
/* attach and record: from the request to the finished file and the summary. */
#pragma once

#include <signal.h>

#include "cli/cli.h"

/* A forked command that waits before exec, for record and top. record.c has the picture of the two pipes. The
 * pid stays a zombie until launch__reap(), so it cannot become another process's. */
struct launch {
	pid_t pid;
	/* Write end. A byte: call exec now; end of file: exit. -1: launch__go() was called */
	int go;
	/* Read end. The errno if exec failed; end of file: it succeeded */
	int failed;
	int status;      /* of wait(), once reaped */
	uint64_t cpu;    /* ns, with all children that it waited for; once reaped */
	bool reaped, exec_failed;
	const char *name;
};

/* Forks the command as the calling user; it waits before exec. `silent`: without the terminal. -errno. */
int launch__start(char **argv, bool silent, struct launch *ret);
/* Lets it call exec, after its perf events are attached. -errno of exec. */
int launch__go(struct launch *launch);
/* Why exec failed, and what helps. */
void launch__print_failure(const struct launch *launch, int err);
/* Reaps the command, with the `options` of waitpid(). True: it has ended. */
bool launch__reap(struct launch *launch, int options);

/* One of several processes that are recorded at once, each by a child of cprofd. */
struct recorder_counts {
	/* attached: the session runs */
	bool began;
	uint64_t samples, rate, lost, threads;
};
struct recorder_part {
	int fd;          /* of its recording */
	int leash;       /* it stops recording when the other end closes */
	struct recorder_counts *counts; /* in shared memory; updated while it records */
};
/* Records one of several. CLI_*; errors were already printed. */
int recorder__part(const struct cli_options *options, pid_t pid, const struct recorder_part *part);
/* Blocks the signals that end a recording or a view and returns a signalfd for them. `more`: others, too, up to a 0. */
int recorder__signals(const int *more, sigset_t *ret_before);

/* Records one process and writes the file. launch: NULL for a process that runs already. Prints its own errors;
 * CLI_*. */
int recorder__run(const struct cli_options *options, pid_t pid, struct launch *launch);
