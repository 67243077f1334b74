/* SPDX-License-Identifier: MIT */
/* Files that lie on anybody's file system. A FUSE server, or an overlay on one, may
 * let an open() wait for ever, where no signal reaches it, which cannot be known beforehand. So may
 * a close(), which asks it to flush. So a helper opens the file, sends it to the engine
 * itself once the broker says so, and closes it: the broker never holds one, and the asker waits FILE_OPEN_MS at most. */
#ifndef CPROFD_BROKER_FILE_H
#define CPROFD_BROKER_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/authorise.h"
#include "broker/helper.h"
#include "broker/process.h"

#define FILE_OPEN_MS 500

/* Helpers that open file after file for one engine, HELPER_NONE: none yet. */
struct openers {
	struct helper mapped, debug, perf_map;
	pid_t root; /* the process in whose root `debug` looks, and when that was started */
	uint64_t root_started;
};
#define OPENERS_NONE ((struct openers){.mapped = HELPER_NONE, .debug = HELPER_NONE, .perf_map = HELPER_NONE})
void openers__leave(struct openers *openers);

/* Each makes an opener open a file within FILE_OPEN_MS, or -ETIMEDOUT, and keep it: *ret is that opener. -EBUSY: too many of this user's
 * do not answer (helper.h). */

/* process__open_file(). */
int file__open_mapped(struct openers *openers, uid_t payer, pid_t pid, uint64_t start, uint64_t end, struct helper **ret);

/* A regular file below /usr/lib/debug in the root of a process that was started then (any clock's time of it), with no more rights than `client`'s (nobody's, for
 * uid 0): who made that root may have put anything there. Links may not lead out of that folder.
 * -ENODEV: there is no such folder, or it lacks what `path` begins with. */
int file__open_debug(struct openers *openers, pid_t pid, uint64_t started, const struct identity *client, const char *path, struct helper **ret);

/* /tmp/perf-PID.map in the root of a process, by its own number, with no more rights than its own: a regular file
 * that belongs to its user, is no link, and was written to since the process began. *ret_own: that number. */
int file__open_perf_map(struct openers *openers, uid_t payer, pid_t pid, uint64_t start_ticks, struct helper **ret, uint32_t *ret_own);

/* The message, with the file that the opener keeps, is sent to an engine. (If nobody is to get the file: helper__end().) */
int file__hand_over(struct helper *opener, int channel, const struct broker_message *message);

#endif
