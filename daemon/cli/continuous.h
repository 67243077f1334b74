/* SPDX-License-Identifier: MIT */
/* --continuous: a session without an end goes into a directory, file after file. Each file is a recording by itself.
 *
 *     DIR/cprofd-20260131T120000.000Z-4242.cprof
 *     DIR/cprofd-20260131T121000.004Z-4242.cprof
 *     DIR/cprofd-20260131T122000.001Z-4242.cprof.part     is being written
 *
 * The engine cuts the session at the request `rotate` (docs/protocol.md, `part`). The oldest files, of whichever process,
 * make room when all of them are more than --keep, or when the disk is full. A `.part` is locked (flock) while it is
 * written: one that is not was left by a cprofd that was killed, and is a file like the others. */
#pragma once

#include "cli/live.h"
#include "cli/output.h"
#include "cli/self_limit.h"

struct continuous {
	const struct cli_options *options;
	struct live *live;               /* its writer is of the file that is open */
	pid_t pid;
	int directory;                   /* -1: not open */
	char path[PATH_MAX];             /* of the file that is open */
	struct output output;
	uint64_t opened, flushed;        /* ms, CLOCK_MONOTONIC */
	uint64_t whole;                  /* bytes of the open file that can be read */
	uint64_t others;                 /* bytes of all other files, when they were counted last */
	uint64_t named;                  /* ms since 1970, in the last name: the next one is greater, whatever the clock does */
	struct self_limit limit;
	bool judged;                     /* whether the engine can do that */
	bool wanted;                     /* SIGUSR2 */
	bool full;                       /* the disk: it was said */
	unsigned files;                  /* that were completed */
	uint64_t bytes;                  /* of these */
};
#define CONTINUOUS_NONE ((struct continuous){.directory = -1, .output = OUTPUT_NONE})

/* Do the options fit together? CLI_DONE or CLI_USAGE, and the reason was printed. */
int continuous__judge(const struct cli_options *options);
/* Makes the directory and opens the first file. CLI_*; errors were printed. */
int continuous__open(struct continuous *continuous, const struct cli_options *options, pid_t pid, struct live *live);
/* To be called at least each second. Writes what is buffered, once a second, and makes room. True: ask the engine to
 * rotate now, which is said once. */
bool continuous__tick(struct continuous *continuous, uint64_t now_ms);
/* Completes the last file. CLI_*. */
int continuous__finish(struct continuous *continuous);
void continuous__close(struct continuous *continuous);
