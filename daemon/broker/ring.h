/* SPDX-License-Identifier: MIT */
/* The rings and maps of a sampler, through fds that the broker handed over: what an engine does with them, without
 * any capability. Only this directory uses libbpf. Errors: -errno. Threads: one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cprofd/record.h"

struct ring;
/* ring__drain() calls `record` with bytes that are valid during the call; a result other than 0 stops the drain.
 * `ring_fd`: the ring buffer of code objects and events; `samples_fd`: the per-CPU rings of samples (record.h). Both
 * are borrowed for the call. */
int ring__new(int ring_fd, int samples_fd, int (*record)(void *ctx, const void *data, size_t len), void *ctx,
	      struct ring **ret);
struct ring *ring__free(struct ring *ring); /* NULL */
/* Reads everything written so far. 0, or the callback's error. */
int ring__drain(struct ring *ring);
/* Samples are being polled: the sampler need not wake the reader for them until 4 ms after `now`. CLOCK_MONOTONIC
 * ns. */
void ring__polled(struct ring *ring, uint64_t now);
/* The sampler's counters, summed over CPUs. */
void ring__counts(const struct ring *ring, struct sampler_counts *ret);

/* Requests locals of a code object (struct locals_captures). */
void ring__capture_locals(struct ring *ring, const struct locals_capture *capture);
/* Tells it how to follow attributes from objects of one class. */
void ring__put_path(struct ring *ring, const struct py_path *path);
/* Has the sampler send each code object that it samples once more: the reader is about to forget those that it has. */
void ring__resend_codes(struct ring *ring);

/* Change a map of the sampler, and its generation number in `ring` (NULL: of a dump, which caches nothing). 0 or
 * -errno. */
int images__put(int map_fd, struct ring *ring, const struct image_key *key, const struct image *image);
int images__drop(int map_fd, struct ring *ring, const struct image_key *key);
struct unwind_process;
int processes__put(int map_fd, struct ring *ring, const struct native_key *key, const struct unwind_process *process);
int processes__drop(int map_fd, struct ring *ring, const struct native_key *key);
