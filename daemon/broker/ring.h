/* SPDX-License-Identifier: MIT */
/* Rings and maps through fds that were handed over: what an engine does with
 * them, without any capability. libbpf is seen in this folder only.
 * Errors: -errno. Threading: one thread. */
#ifndef CPROFD_BROKER_RING_H
#define CPROFD_BROKER_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "cprofd/record.h"

struct ring;
/* `record` is called by ring__drain() with bytes that are valid during the call;
 * what it returns other than 0 stops the drain. `ring_fd` is the ring buffer of code objects and
 * events, `samples_fd` the per-CPU rings of samples (record.h); both are borrowed for the call. */
int ring__new(int ring_fd, int samples_fd, int (*record)(void *ctx, const void *data, size_t len), void *ctx,
	      struct ring **ret);
struct ring *ring__free(struct ring *ring); /* NULL */
/* All that is there: 0, or the callback's error. */
int ring__drain(struct ring *ring);
/* All samples of 4 ms before were looked at: the sampler wakes nobody for them. CLOCK_MONOTONIC ns. */
void ring__polled(struct ring *ring, uint64_t now);
/* The sampler's counters, summed over CPUs. */
void ring__counts(const struct ring *ring, struct sampler_counts *ret);

/* Asks the sampler for locals of a code object (struct locals_captures). */
void ring__capture_locals(struct ring *ring, const struct locals_capture *capture);
/* Whether threads that have values may wait for others: then ticks of these, and forks, wake the reader. */
void ring__await(struct ring *ring, bool awaited);

/* `map_fd` is a map of the sampler's, `ring` is told that it changed (NULL: a dump's, which keeps nothing of it): 0 or -errno. */
int images__put(int map_fd, struct ring *ring, const struct image_key *key, const struct image *image);
int images__drop(int map_fd, struct ring *ring, const struct image_key *key);
struct unwind_process;
int processes__put(int map_fd, struct ring *ring, const struct native_key *key, const struct unwind_process *process);
int processes__drop(int map_fd, struct ring *ring, const struct native_key *key);

#endif
