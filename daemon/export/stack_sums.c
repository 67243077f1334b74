/* SPDX-License-Identifier: MIT */
/* Sums by thread, stack and unit; and joining the sums of threads, for formats that have no threads. */
#include "export/stack_sums.h"

#include <errno.h>

#include "base/cleanup.h"
#include "export/unit_frames.h"

uint32_t stack_sums__unit(const struct model *model)
{
	return model->call_now == CALL_NONE ? 0 : unit_tree__call(&model->units, model->call_now)->node;
}

int stack_sums__slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall)
{
	const struct times times = {cpu, wall};
	struct stack_key key = {.thread = thread->id, .stack = stack};

	/* MODEL_ROOT: a filter left it out. */
	if (stack == MODEL_ROOT || (!model->options->idle && stack_sums__apart(model, stack)))
		return 0;
	if (model->options->units && !stack_sums__apart(model, stack))
		key.unit = stack_sums__unit(model);
	return sums__add(model->ctx, &key, sizeof(key), &times);
}

struct stack_key stack_sums__key(const struct sums *sums, uint32_t i)
{
	return *(const struct stack_key *)sums__key(sums, i);
}

int stack_sums__join(const struct sums *sums, struct model *model, struct sums *ret)
{
	_cleanup_(unit_frames__free) struct unit_frames frames = {};
	_cleanup_free_ uint32_t *first = NULL; /* the thread that represents each process */
	int err = 0;

	/* Goes from the last thread to the first, so that the first one represents the process: nearly always its
	 * main thread. */
	first = calloc(model->process_keys.n + 1, sizeof(*first));
	if (!first)
		return -ENOMEM;
	for (uint32_t i = model__threads(model); i--;)
		first[model__thread(model, i)->process] = i;
	for (uint32_t i = 0; i < sums__n(sums) && !err; i++) {
		struct stack_key key = stack_sums__key(sums, i);
		const struct model_thread *thread = model__thread(model, key.thread);

		/* The thread in the key only stands for its process then. */
		if (!model->options->thread_names)
			key.thread = first[thread->process];
		if (key.unit)
			err = unit_frames__stack(&frames, model, key.unit, key.stack, &key.stack);
		/* It is in the stack now; as part of the key it would keep equal stacks apart. */
		key.unit = 0;
		/* With -t, a quiet thread has a frame of its own. */
		if (thread->shown && (!thread->quiet || model->options->thread_names))
			err = err ?: sums__add(ret, &key, sizeof(key), sums__times(sums, i));
	}
	return err;
}
