/* SPDX-License-Identifier: MIT */
/* CPU time that no sample of its thread met (profile/stands.c), for sums over threads: samples of others stand for it.
 *
 * It waits in the order of the ends that brought it, and goes to the stacks of samples that stand for it, as time of the thread that
 * ran it: sums by thread and by stack are what ran, both. What nobody stands for in the end is (not sampled). Time lines keep it where it was. */
#ifndef CPROFD_EXPORT_UNMET_H
#define CPROFD_EXPORT_UNMET_H

#include <stdint.h>

struct model;
struct model_thread;

#define UNMET_MAX 4096u /* ends; a power of two */

struct unmet {
	struct unmet_time {
		struct model_thread *thread;
		uint64_t ns;
	} *times; /* a ring; NULL: none yet */
	uint32_t first, n;
};

int unmet__keep(struct model *model, struct model_thread *thread, uint64_t ns);
/* A sample of that stack stands for `ns` of it. class_now is the sample's. */
int unmet__stand(struct model *model, uint32_t stack, uint64_t ns);
/* At the end. */
int unmet__finish(struct model *model);
void unmet__free(struct unmet *unmet);

#endif
