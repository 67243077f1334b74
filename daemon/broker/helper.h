/* SPDX-License-Identifier: MIT */
/* A helper: a process that makes a call for the broker which may never return. Opening /proc/PID/mem waits for an
 * exec in progress, and reading from it waits for whoever provides that page: a FUSE server can block both for ever,
 * where no signal reaches. The helper has nothing of the broker's except its socket and the descriptors that it is
 * given. If it is late, it is killed and left alone.
 *
 * A late helper is a process of root that stays. There are at most HELPER_LATE_USER_MAX per user, and a user who has one
 * gets no other once there are HELPER_LATE_MAX in all: whoever has none is served, however many others hang. In a coroutine (coroutine.h), only the
 * request waits for a helper, not the broker. Errors: -errno. */
#pragma once

#include "broker/broker.h"

#define HELPER_MS 2000u /* normally the answer takes microseconds, on a loaded machine milliseconds */
#define HELPER_LATE_MAX 32u
#define HELPER_LATE_USER_MAX 4u
#define HELPER_FDS_MAX 4u

/* Runs in the helper; sends its answers to `socket` with broker__send(). */
typedef void helper_work(void *context, int socket);

struct helper {
	pid_t pid;
	int socket;
	uid_t payer;
	uint64_t until; /* CLOCK_MONOTONIC ns */
};
#define HELPER_NONE ((struct helper){.socket = -1})

/* Starts a helper. `keep`: n descriptors (at most HELPER_FDS_MAX) that it inherits; in the helper, the array has
 * their new numbers. `payer`: the user that it counts for. -EBUSY: too many of the user's helpers hang. */
int helper__begin(struct helper *helper, uid_t payer, helper_work *work, void *context, int *keep, unsigned n);
/* The next answer; the caller closes its descriptors. -ETIMEDOUT: the helper is late; -EPIPE: there are no more
 * answers; -ECANCELED. */
int helper__take(struct helper *helper, struct broker_message *ret, int fds[BROKER_FDS_MAX], unsigned *ret_n);
/* Kills it; does not wait for one that hangs. HELPER_NONE is accepted. */
void helper__end(struct helper *helper);
/* Was this one late when it was ended, and is it still there? */
bool helper__hangs(pid_t pid);
