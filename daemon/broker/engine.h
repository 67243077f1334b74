/* SPDX-License-Identifier: MIT */
/* An engine: the unprivileged process of one client identity (uid, gid, groups), and everything the broker holds for
 * it. */
#pragma once

#include "broker/coroutine.h"
#include "broker/peer.h"
#include "broker/session.h"

struct engine {
	struct engine *next;
	struct identity client; /* the user that it serves */
	struct known clients;   /* processes that connected */
	struct known named;     /* root's engine only: processes that clients named, which it may ask for */
	pid_t pid;
	int pidfd;
	int channel;
	/* It does not read its answers: its channel is full. No further requests are read until it does. */
	bool stalled;
	struct coroutine *request; /* the request in progress, or NULL */
	struct openers openers;
	uint64_t until;        /* after engine__leave(): deadline, CLOCK_MONOTONIC ns */
	bool killed;
	struct charge charge;  /* for the engine itself */
	uint32_t last_session;
	struct session *sessions[BROKER_SESSIONS_MAX];
	struct spent spent;    /* the sampler of its last session, until the engine has exited */
};

/* What engines run: the program that program__open() found (program.h), or a test's function. */
struct engine_program {
	int fd;
	int (*main)(int channel);
};

/* Starts an engine. It has stdin, stdout, stderr, its channel and its directory for unwind tables, nothing else, and
 * runs as the client (for uid 0 as a user of its own, privileges.h) without capabilities. `client` is moved into
 * *ret. -EDQUOT: *ret_reached says which limit. */
int engine__start(struct identity *client, const struct engine_program *program, struct engine **ret, struct limit_reached *ret_reached);

/* Passes a client's socket to the engine; the caller keeps its own descriptor. */
int engine__give_client(struct engine *engine, int client, const struct peer *peer, const struct identity *identity);

/* Can it be written to? 0; -EAGAIN: it has to read first; -EPIPE. */
int engine__writable(const struct engine *engine);

/* Cancels its request, ends its sessions and closes its channel, upon which a healthy engine exits. `now`: kill it
 * without delay. */
void engine__leave(struct engine *engine, bool now);
/* After engine__leave(): has it exited? Waits at most `wait_ms`. It is killed after two seconds (with `now` at
 * once); if it cannot be killed, it is given up a second later. True: it was freed, *ret_status is its exit status,
 * and `spare` (may be NULL) may have taken over its sampler. */
bool engine__gone(struct engine *engine, unsigned wait_ms, struct spare *spare, int *ret_status);
