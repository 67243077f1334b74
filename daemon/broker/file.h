/* SPDX-License-Identifier: MIT */
/* Opens files that may be on any file system. A FUSE server, or an overlay above one, may let open() wait for ever,
 * where no signal reaches it; this cannot be known beforehand. The same holds for close(), which asks it to flush.
 * So a helper opens the file, sends it directly to the engine when the broker says so, and closes it. The broker
 * never holds such a file, and waits at most FILE_OPEN_MS. */
#pragma once

#include "broker/authorise.h"

#define FILE_OPEN_MS 500

/* A helper that opens one file after the other for one engine; HELPER_NONE: not started. One that did not open a file in
 * time is killed, and while it hangs nevertheless there is no other, as each would leave a process behind. If it ends, the
 * machine was busy, or the file system slow: after a pause there is another one. */
struct opener_slot {
	struct helper helper;
	pid_t late;     /* the last one that was late */
	uint64_t again; /* CLOCK_MONOTONIC ns: not before */
	uint64_t pause; /* ns: after the next time that one is late */
};
#define OPENER_NONE ((struct opener_slot){.helper = HELPER_NONE})

struct openers {
	struct opener_slot mapped, debug, perf_map;
	pid_t root; /* the process whose root `debug` uses, and its start time */
	uint64_t root_started;
};
#define OPENERS_NONE ((struct openers){.mapped = OPENER_NONE, .debug = OPENER_NONE, .perf_map = OPENER_NONE})
void openers__leave(struct openers *openers);

/* Each of these lets an opener open a file and keep it: *ret is that opener. -ETIMEDOUT: not within FILE_OPEN_MS, or one before was not (struct opener_slot).
 * -EBUSY: too many openers of this user hang (helper.h). */

/* A file that a process has mapped: process__open_file(). */
int file__open_mapped(struct openers *openers, uid_t payer, pid_t pid, uint64_t start, uint64_t end, struct helper **ret);

/* A regular file below /usr/lib/debug in the root of the process `pid` that was started at `started` (by any clock).
 * It is opened with no more rights than the client has (for uid 0 those of nobody), because the owner of that root
 * could have put anything there. Links must not lead out of that directory. -ENODEV: the directory does not exist,
 * or does not have the first component of `path`. */
int file__open_debug(struct openers *openers, pid_t pid, uint64_t started, const struct identity *client, const char *path, struct helper **ret);

/* /tmp/perf-PID.map in the root of a process, by its own number, with no more rights than its own: a regular file
 * that belongs to its user, is no link, and was written to since the process began. *ret_own: that number. */
int file__open_perf_map(struct openers *openers, uid_t payer, pid_t pid, uint64_t start_ticks, struct helper **ret, uint32_t *ret_own);

/* Lets the opener send `message` and the file that it keeps to the engine. (If the file is not to be sent:
 * helper__end().) */
int file__hand_over(struct helper *opener, int channel, const struct broker_message *message);
