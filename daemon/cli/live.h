/* SPDX-License-Identifier: MIT */
/* State of a running session as its client sees it: the answer, the latest ledger, and where its lines are
 * written. The caller sets connection, writer and stream_fd, calls live__attach(), then live__lines() after
 * each receive until `ended`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/connection.h"
#include "events/events.h"

/* ids of requests on the connection of a session: its answer repeats it */
enum { LIVE_ATTACH_ID = 1, LIVE_STOP_ID, LIVE_ROTATE_ID, LIVE_STATUS_ID };

/* Samples arrive in uneven batches, so the rate is computed over the last few ledgers, not two. */
#define LIVE_LEDGERS 4u

struct live {
	/* borrowed; open for as long as lines are handled */
	struct connection *connection;
	struct recording_writer *writer; /* NULL: none */
	/* A part of the session is complete, up to `time`: what follows is a recording of its own. NULL: none was asked for */
	void (*part)(void *of, uint64_t time);
	void (*status)(void *of, const json_t *status); /* the answer to a request `status` with LIVE_STATUS_ID; NULL: none is sent */
	void (*asked)(void *of);         /* somebody sent a request `trigger`; NULL: such requests are refused */
	void (*lines)(void *of, const char *lines, size_t len); /* sees all that is kept; NULL: nobody does */
	void *of;
	uint64_t part_asked;             /* ms, CLOCK_MONOTONIC, when the engine was asked for one; 0: it has come since */
	struct buf hello;                /* its line, for those parts */
	uint64_t dropped_bytes;          /* of events that came while there was no writer, of a session in parts */
	int stream_fd;                   /* -1: none */
	/* from events and answers */
	bool answered, refused;          /* the request `attach` was answered; with an error */
	bool ended;                      /* `end` came, or the connection closed */
	bool cut;                        /* without an `end` */
	pid_t pid;                       /* the process to attach to */
	/* the engine's id of it, for the request `stop`; 0 until the answer */
	uint32_t session;
	char error[512], hint[512];      /* refused */
	char reason[32], detail[512];    /* of `end` */
	int write_error;                 /* -errno of the recording: it is whole up to there */
	int stream_error;                /* -errno of stdout */
	/* For the progress line. samples and lost: by the latest ledger, so somewhat behind the recording;
	 * threads: running at the moment */
	uint64_t samples, lost, threads;
	bool met;                        /* a thread was told of, ever */
	/* Ring of the last ledgers: time in ns (CLOCK_MONOTONIC, as all times of events), and samples until
	 * then */
	uint64_t times[LIVE_LEDGERS], counts[LIVE_LEDGERS];
	uint32_t ledgers;                /* how many came so far */
	uint64_t rate;                   /* samples a second, over these ledgers */
};

/* Was a part asked for, which may still come? It may be among the events that did not reach a client that read too slowly: after
 * 10 s it is asked for again. */
static inline bool live__awaits_part(const struct live *live, uint64_t now_ms)
{
	return live->part_asked && now_ms - live->part_asked < 10000;
}

/* Who gets the samples. */
struct live_for {
	uint32_t latency_ms; /* the longest time until a sample is emitted */
	bool native_lines;   /* samples wait for them, some for 2 s: nobody who watches wants that */
};
#define LIVE_SCREEN ((struct live_for){200, false})
#define LIVE_PAGE ((struct live_for){100, false})
#define LIVE_STREAM ((struct live_for){200, true})
#define LIVE_FILE ((struct live_for){1000, true})

/* Sends the user's rules and the request `attach`; the events that follow belong to it. `starting`: the process will
 * call exec soon. -errno. */
int live__attach(struct live *live, const struct cli_options *options, pid_t pid, bool starting, struct live_for use);
/* Sends the request `stop`; the answer to `attach` has come. */
int live__stop(struct live *live);
/* Waits for the answer to that; `take` reads what has arrived. CLI_*; a refusal was already printed. */
int live__await_answer(struct live *live, int (*take)(void *), void *of);
/* Handles one complete line. */
void live__line(struct live *live, const char *line, size_t len);
/* Handles all complete lines that the connection has received. */
void live__lines(struct live *live);
