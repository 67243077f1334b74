/* SPDX-License-Identifier: MIT */
/* A session as it comes in: answers, the live ledger, and the lines on their way
 * into the recording and to stdout. */
#ifndef CPROFD_CLI_LIVE_H
#define CPROFD_CLI_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/connection.h"
#include "events/events.h"

/* Samples come in batches, some later than others: a rate is of more than one pause between ledgers. */
#define LIVE_LEDGERS 4u

struct live {
	struct connection *connection;
	struct recording_writer *writer; /* NULL: none */
	int stream_fd;                   /* -1: none */
	/* what was heard */
	bool answered, refused;          /* of the request `attach` */
	bool ended;                      /* `end` came, or the other side is gone */
	bool cut;                        /* without an `end` */
	pid_t pid;                       /* that it was asked for */
	uint32_t session;
	char error[512], hint[512];      /* refused */
	char reason[32], detail[512];    /* of `end` */
	int write_error;                 /* -errno of the recording: it is whole up to there */
	int stream_error;                /* -errno of stdout */
	/* for the progress line */
	uint64_t samples, lost, threads;
	uint64_t times[LIVE_LEDGERS], counts[LIVE_LEDGERS]; /* of the last ledgers: ns, samples; in turn */
	uint32_t ledgers;                /* all that came */
	uint64_t rate;                   /* samples a second, over these ledgers */
	bool gap;                        /* events are missing: the client was too slow */
};

/* Milliseconds until samples are emitted: for a screen, and for files. */
#define LIVE_SEEN_MS 200u
#define LIVE_KEPT_MS 1000u

/* Sends the user's rules, and the request: what is heard then is of it. `starting`: the process will call exec. -errno. */
int live__attach(struct live *live, const struct cli_options *options, pid_t pid, bool starting, uint32_t latency_ms);
/* Handles one whole line. */
void live__line(struct live *live, const char *line, size_t len);
/* Handles every whole line that came. */
void live__lines(struct live *live);

#endif
