/* SPDX-License-Identifier: MIT */
/* A helper: a process that does for the broker what may never come back. To open /proc/PID/mem waits for an exec that is under way,
 * and to read a byte there for whoever backs that page: a FUSE server can keep both for ever, where no signal reaches. The helper holds
 * nothing of the broker's but its socket and what it is given; one that is late is killed and left alone.
 *
 * A late one is a process of root's that stays: there are HELPER_LATE_MAX of them at most, HELPER_LATE_USER_MAX for one user, who
 * is refused further ones until some end. In a coroutine (coroutine.h) only the request waits for a helper, not the broker. Errors: -errno. */
#ifndef CPROFD_BROKER_HELPER_H
#define CPROFD_BROKER_HELPER_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/broker.h"

#define HELPER_MS 2000u /* the kernel answers within some microseconds, and on a loaded machine within some milliseconds */
#define HELPER_LATE_MAX 32u
#define HELPER_LATE_USER_MAX 4u
#define HELPER_FDS_MAX 4u

/* In the helper: answers are sent to `socket`, by broker__send(). */
typedef void helper_work(void *context, int socket);

struct helper {
	pid_t pid;
	int socket;
	uid_t payer;
	uint64_t until; /* CLOCK_MONOTONIC ns */
};
#define HELPER_NONE ((struct helper){.socket = -1})

/* `keep`: descriptors that the helper has, too, under the numbers that it finds there (n of them, HELPER_FDS_MAX at most). `payer`: whose
 * request it is for. -EBUSY: too many are late. */
int helper__begin(struct helper *helper, uid_t payer, helper_work *work, void *context, int *keep, unsigned n);
/* The next answer; its fds are the caller's. -ETIMEDOUT: it is late; -EPIPE: there are no more; -ECANCELED. */
int helper__take(struct helper *helper, struct broker_message *ret, int fds[BROKER_FDS_MAX], unsigned *ret_n);
/* Does not wait for one that is late. HELPER_NONE is fine. */
void helper__end(struct helper *helper);

#endif
