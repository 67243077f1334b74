/* SPDX-License-Identifier: MIT */
/* CPU and wall time by thread, stack and class: what formats without the order
 * of time are made of. Zero-initialised is empty. Private to this folder.
 * Errors: -errno. */
#ifndef CPROFD_EXPORT_SUMS_H
#define CPROFD_EXPORT_SUMS_H

#include "export/model.h"

struct sum_key {
	uint32_t thread, stack, class_id, unit; /* unit: a node of the model's tree of units, where that is asked for */
};

struct sum {
	uint64_t cpu, wall; /* ns */
};

struct sums {
	struct intern keys;
	struct buf items; /* struct sum for each key */
};

int sums__add(struct sums *sums, const struct sum_key *key, uint64_t cpu, uint64_t wall);
/* A model's `slice`, for formats of stacks alone; its ctx: the sums. Classes are put together; idle time counts if it is asked for. */
int sums__slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall);
uint32_t sums__n(const struct sums *sums);
struct sum_key sums__key(const struct sums *sums, uint32_t i);
struct sum sums__item(const struct sums *sums, uint32_t i);
uint32_t sums__unit(const struct model *model); /* node of the sample's compile, phase or pass; 0: outside */
/* Of the threads shown alone, and of those that ran, but where each thread has frames of its own. Without option -t one thread of each process stands
 * for all that have a stack in common. With option --units what was at work becomes frames of the stack. */
int sums__join(const struct sums *sums, struct model *model, struct sums *ret);
void sums__free(struct sums *sums);

/* The time is no stack's: idle, not recorded, left out. */
static inline bool sums__apart(const struct model *model, uint32_t stack)
{
	return stack == MODEL_ROOT || stack == model->idle || stack == model->not_recorded;
}

#endif
