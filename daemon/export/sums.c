/* SPDX-License-Identifier: MIT */
#include "export/sums.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "export/unit_frames.h"

int sums__add(struct sums *sums, const struct sum_key *key, uint64_t cpu, uint64_t wall)
{
	struct sum *item = intern__item(&sums->keys, key, sizeof(*key), &sums->items, sizeof(*item));

	if (!item)
		return -ENOMEM;
	item->cpu += cpu;
	item->wall += wall;
	return 0;
}

uint32_t sums__unit(const struct model *model)
{
	return model->call_now == CALL_NONE ? 0 : unit_tree__call(&model->units, model->call_now)->node;
}

int sums__slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall)
{
	struct sum_key key = {.thread = thread->id, .stack = stack};

	if (stack == MODEL_ROOT || (!model->options->idle && sums__apart(model, stack)))
		return 0;
	if (model->options->units && !sums__apart(model, stack))
		key.unit = sums__unit(model);
	return sums__add(model->ctx, &key, cpu, wall);
}

uint32_t sums__n(const struct sums *sums)
{
	return sums->keys.n;
}

struct sum_key sums__key(const struct sums *sums, uint32_t i)
{
	return ITEM(sums->keys.keys, const struct sum_key, i); /* all keys have this size */
}

struct sum sums__item(const struct sums *sums, uint32_t i)
{
	return ITEM(sums->items, const struct sum, i);
}

int sums__join(const struct sums *sums, struct model *model, struct sums *ret)
{
	struct unit_frames frames = {};
	_cleanup_free_ uint32_t *first = NULL; /* thread of each process that stands for it */
	uint32_t i;
	int err = 0;

	first = calloc(model->process_keys.n + 1, sizeof(*first));
	if (!first)
		return -ENOMEM;
	for (i = model__threads(model); i--;)
		first[model__thread(model, i)->process] = i;
	for (i = 0; i < sums__n(sums) && !err; i++) {
		struct sum_key key = sums__key(sums, i);
		struct sum item = sums__item(sums, i);
		const struct model_thread *thread = model__thread(model, key.thread);

		if (!model->options->thread_names)
			key.thread = first[thread->process];
		if (key.unit)
			err = unit_frames__stack(&frames, model, key.unit, key.stack, &key.stack);
		key.unit = 0;
		if (thread->shown && (!thread->quiet || model->options->thread_names))
			err = err ?: sums__add(ret, &key, item.cpu, item.wall);
	}
	unit_frames__free(&frames);
	return err;
}

void sums__free(struct sums *sums)
{
	intern__free(&sums->keys);
	buf__free(&sums->items);
}
