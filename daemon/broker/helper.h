/* What may wait for ever in the kernel is done by a disposable process: to open a process's memory, or an event on it, waits for
 * an exec that is held by a file system; to read an argument waits for a page of one. The broker waits for its helper so long
 * and no longer: one that is late is killed and left alone, with no descriptor but those of its own work. */
#ifndef CPROFD_BROKER_HELPER_H
#define CPROFD_BROKER_HELPER_H

#include "broker/authorise.h"
#include "broker/perf.h"
#include "broker/process.h"

/* A loaded machine takes its time; so does a process of thousands of threads for its events. */
#define HELPER_MS 2000
#define HELPER_EVENTS_MS 5000
/* Of helpers that were left alone and have not ended: beyond it nothing is opened any more. */
#define HELPER_LATE_MAX 32u

/* process__open(); with `client` only what that client may read, and still the same image then. -ETIMEDOUT: no answer. */
int helper__open(pid_t pid, const struct identity *client, struct process_fds *ret, struct process_stat *ret_stat);
/* process__unchanged() */
int helper__unchanged(pid_t pid, const struct process_fds *fds, const struct process_stat *stat);
/* perf_events__open() */
int helper__open_events(struct perf_events *events, pid_t pid, const struct perf_options *options);
/* Takes leave of those that ended. */
void helper__reap(void);

#endif
