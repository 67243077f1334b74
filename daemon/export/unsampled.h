/* SPDX-License-Identifier: MIT */
/* CPU time without a sample of its own thread (profile/stands.c), for sums over threads: samples of other threads
 * represent it. Example: a pool starts 1,000 threads that run 0.2 ms each. Most end before their first tick; the few
 * samples that hit some of them represent the others.
 *
 * The time is queued in the order of the thread ends that reported it. Samples with `others` move it to their
 * stacks, still as time of the thread that ran it, so sums by thread and sums by stack are both right. What remains
 * at the end is (not sampled). Time lines do not use this: they keep the time where it was. */
#pragma once

#include <stdint.h>

struct model;
struct model_thread;

#define UNSAMPLED_MAX 4096u /* thread ends; a power of two */

struct unsampled {
	struct unsampled_time {
		struct model_thread *thread;
		uint64_t ns;
	} *times; /* a ring; NULL: none yet */
	uint32_t first, n;
};

/* `ns` of the thread's CPU time have no sample of their own; the thread is borrowed until the end. O(1). */
int unsampled__keep(struct model *model, struct model_thread *thread, uint64_t ns);
/* A sample of that stack represents `ns` of the queue. class_now is the sample's class. */
int unsampled__stand(struct model *model, uint32_t stack, uint64_t ns);
/* At the end of the recording. */
int unsampled__finish(struct model *model);
void unsampled__free(struct unsampled *unsampled);
