/* SPDX-License-Identifier: MIT */
/* An engine: the unprivileged process of one client identity (uid, gid, groups),
 * and what the broker holds for it. */
#ifndef CPROFD_BROKER_ENGINE_H
#define CPROFD_BROKER_ENGINE_H

#include <stdbool.h>

#include "broker/authorise.h"
#include "broker/coroutine.h"
#include "broker/peer.h"
#include "broker/quota.h"
#include "broker/session.h"

struct engine {
	struct engine *next;
	struct identity client; /* on whose behalf */
	struct known clients;   /* the processes that connected */
	struct known named;     /* of root's: what these named, which it may ask for */
	pid_t pid;
	int pidfd;
	int channel;
	bool stalled;          /* it does not read: it is not read from */
	struct coroutine *request; /* one that is not answered yet, or NULL */
	struct openers openers;
	bool files_stall;      /* it asked for a file that did not open in time: it gets no more of them,
				* as each leaves a process behind */
	bool maps_stall;       /* likewise a perf map */
	uint64_t until;        /* after engine__leave(): when its time is up, CLOCK_MONOTONIC ns */
	bool killed;
	struct charge charge;  /* for the engine itself */
	uint32_t last_session;
	struct session *sessions[BROKER_SESSIONS_MAX];
	struct spent spent;    /* of the last of them, until the engine has ended */
};

/* What an engine runs: what program__open() found (program.h), or a function of a test. */
struct engine_program {
	int fd;
	int (*main)(int channel);
};

/* The engine has stdin to stderr, its channel and its folder for unwind tables, nothing else, and is the
 * client (root's own user for uid 0, privileges.h) without capabilities. `client` is moved into *ret. -EDQUOT: *ret_met says why. */
int engine__start(struct identity *client, const struct engine_program *program, struct engine **ret, struct limit_met *ret_met);

/* Hands a client's socket over; borrowed. */
int engine__give_client(struct engine *engine, int client, const struct peer *peer, const struct identity *identity);

/* May it be written to? 0, -EAGAIN: it has to read first, -EPIPE. */
int engine__writable(const struct engine *engine);

/* Ends its request and all of its sessions, and closes its channel: a healthy engine ends then. */
void engine__leave(struct engine *engine, bool now);
/* After engine__leave(): has it ended? Waits `wait_ms` at most. It is killed two seconds after that (with `now`: at once), and one that cannot be
 * killed is left alone a second later. True: it was freed, *ret_status is its exit status, and `spare` (NULL: nobody) may have its sampler. */
bool engine__gone(struct engine *engine, unsigned wait_ms, struct spare *spare, int *ret_status);

#endif
