/* SPDX-License-Identifier: MIT */
/* The flight recorder, --trigger and --last: a session of which only the last seconds are kept, in memory. When a condition
 * holds, at SIGUSR2 or at a request `trigger` (docs/protocol.md), they become a recording.
 *
 *     part   part   part   part      memfd each, a recording by itself: the engine cuts the session (docs/protocol.md, `part`)
 *                |     fired  |      from --last before it fired to --after behind it: recordings__join() of these parts
 *
 * Parts that are older than --last are dropped, and the oldest ones when all have more than --memory. */
#pragma once

#include "cli/live.h"
#include "cli/output.h"
#include "trigger/trigger.h"

#define FLIGHT_REASONS_MAX 16u

struct flight {
	const struct cli_options *options;
	struct live *live;               /* its writer is of the part that is open */
	pid_t pid;
	int directory;                   /* -1: not open */
	struct watch *watch;
	struct event_decoder *decoder;
	int decode_error;
	struct buf parts;                /* struct part, the oldest first */
	uint64_t bytes;                  /* of these */
	int fd;                          /* the part that is open; -1: none */
	uint64_t begun;                  /* when it began; 0: with the session */
	uint64_t opened, flushed;        /* ms, CLOCK_MONOTONIC */
	uint64_t dropped;                /* end of the last part that --memory dropped */
	/* What fired and is to become a recording. */
	struct fired reasons[FLIGHT_REASONS_MAX];
	uint32_t n_reasons;
	uint64_t due;                    /* the part that ends then is the last one of it; 0: not known yet */
	uint64_t quiet_until;            /* --cool-down */
	bool wanted, requested;          /* SIGUSR2; `trigger` of the engine */
	uint64_t named;                  /* folder__name() */
	uint32_t written, failed, held;  /* recordings; what fired during --cool-down */
};
#define FLIGHT_NONE ((struct flight){.directory = -1, .fd = -1})

/* --trigger or --last was given. */
bool flight__wanted(const struct cli_options *options);
/* Do the options fit together? CLI_DONE or CLI_USAGE, and the reason was printed. */
int flight__judge(const struct cli_options *options);
/* CLI_*; errors were printed. */
int flight__open(struct flight *flight, const struct cli_options *options, pid_t pid, struct live *live);
/* To be called after each live__lines(), and at least each second. True: ask the engine to rotate now, which is said once. */
bool flight__tick(struct flight *flight, uint64_t now_ms);
/* --count recordings were written. */
bool flight__is_done(const struct flight *flight);
/* After the last event: what fired is written. CLI_*. */
int flight__finish(struct flight *flight);
void flight__close(struct flight *flight);
