/* SPDX-License-Identifier: MIT */
/* CPU and wall time by thread, stack, class and unit: for formats that do not show the order of time. Private to
 * this directory. Errors: -errno. */
#pragma once

#include "aggregate/sums.h"
#include "export/model.h"

/* No padding: its bytes are the key. Parts that a format does not show are 0 for all. */
struct stack_key {
	uint32_t thread, stack, class_id, unit; /* unit: node of the tree of units, if units are shown */
};

struct stack_key stack_sums__key(const struct sums *sums, uint32_t i);
/* A `slice` callback of the model for formats that have stacks only; its ctx is the sums. Does not separate classes;
 * idle time counts only with options.idle. */
int stack_sums__slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall);
uint32_t stack_sums__unit(const struct model *model); /* node of the current sample's compile, phase or pass; 0: none */
/* Joins the sums of the shown threads. Without option -t, equal stacks of a process become one, under its first
 * thread, and quiet threads are left out. With --units, the compiles become frames of the stack. */
int stack_sums__join(const struct sums *sums, struct model *model, struct sums *ret);

/* Time that belongs to no stack: idle or not recorded. */
static inline bool stack_sums__apart(const struct model *model, uint32_t stack)
{
	return stack == MODEL_ROOT || stack == model->idle || stack == model->not_recorded;
}
