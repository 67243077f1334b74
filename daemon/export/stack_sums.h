/* SPDX-License-Identifier: MIT */
/* CPU and wall time by thread, stack and class: what formats without the order
 * of time are made of. Private to this folder. Errors: -errno. */
#ifndef CPROFD_EXPORT_STACK_SUMS_H
#define CPROFD_EXPORT_STACK_SUMS_H

#include "aggregate/sums.h"
#include "export/model.h"

struct stack_key {
	uint32_t thread, stack, class_id, unit; /* unit: a node of the model's tree of units, where that is asked for */
};

struct stack_key stack_sums__key(const struct sums *sums, uint32_t i);
/* A model's `slice`, for formats of stacks alone; its ctx: the sums. Classes are put together; idle time counts if it is asked for. */
int stack_sums__slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall);
uint32_t stack_sums__unit(const struct model *model); /* node of the sample's compile, phase or pass; 0: outside */
/* Of the threads shown alone, and of those that ran, but where each thread has frames of its own. Without option -t one thread of each process stands
 * for all that have a stack in common. With option --units what was at work becomes frames of the stack. */
int stack_sums__join(const struct sums *sums, struct model *model, struct sums *ret);

/* The time is no stack's: idle, not recorded, left out. */
static inline bool stack_sums__apart(const struct model *model, uint32_t stack)
{
	return stack == MODEL_ROOT || stack == model->idle || stack == model->not_recorded;
}

#endif
