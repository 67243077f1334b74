/* SPDX-License-Identifier: MIT */
/* A queue of CPU time without samples, oldest first. A sample that represents such time (`others`) takes it from the
 * front. */
#include "export/unsampled.h"

#include <errno.h>
#include <stdlib.h>

#include "export/model.h"

/* Passes at most *ns of the oldest time to the slice callback. */
static int give(struct model *model, uint32_t stack, uint64_t *ns)
{
	struct unsampled *unsampled = &model->unsampled;
	/* first & (UNSAMPLED_MAX - 1): the ring's place; `first` itself only counts up, and may wrap around. */
	struct unsampled_time *time = &unsampled->times[unsampled->first & (UNSAMPLED_MAX - 1)];
	uint64_t taken = time->ns < *ns ? time->ns : *ns;

	*ns -= taken;
	time->ns -= taken;
	if (!time->ns) {
		unsampled->first++;
		unsampled->n--;
	}
	return timeline__emit(model, time->thread, stack, taken);
}

/* No sample represents it: "(not sampled)". */
static int give_up_oldest(struct model *model)
{
	uint64_t all = UINT64_MAX;

	return give(model, model->not_sampled, &all);
}

int unsampled__keep(struct model *model, struct model_thread *thread, uint64_t ns)
{
	struct unsampled *unsampled = &model->unsampled;
	int err = 0;

	if (!ns)
		return 0;
	if (!unsampled->times)
		unsampled->times = calloc(UNSAMPLED_MAX, sizeof(*unsampled->times));
	if (!unsampled->times)
		return -ENOMEM;
	/* More thread ends than that without a sample in between: the oldest is reported as it is. */
	if (unsampled->n == UNSAMPLED_MAX)
		err = give_up_oldest(model);
	unsampled->times[(unsampled->first + unsampled->n++) & (UNSAMPLED_MAX - 1)] = (struct unsampled_time){thread, ns};
	return err;
}

int unsampled__stand(struct model *model, uint32_t stack, uint64_t ns)
{
	int err = 0;

	/* What the sample represents beyond the queue is dropped: the engine counts the same time on both
	 * sides, but a recording may have lost a part of it. */
	while (!err && ns && model->unsampled.n)
		err = give(model, stack, &ns);
	return err;
}

int unsampled__finish(struct model *model)
{
	int err = 0;

	while (!err && model->unsampled.n)
		err = give_up_oldest(model);
	return err;
}

void unsampled__free(struct unsampled *unsampled)
{
	free(unsampled->times);
	*unsampled = (struct unsampled){};
}
