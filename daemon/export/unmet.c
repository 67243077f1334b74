/* SPDX-License-Identifier: MIT */
/* A queue of CPU time without samples, oldest first. A sample that represents such time (`others`) takes it from the
 * front. */
#include "export/unmet.h"

#include <errno.h>
#include <stdlib.h>

#include "export/model.h"

/* Passes at most *ns of the oldest time to the slice callback. */
static int give(struct model *model, uint32_t stack, uint64_t *ns)
{
	struct unmet *unmet = &model->unmet;
	/* first & (UNMET_MAX - 1): the ring's place; `first` itself only counts up, and may wrap around. */
	struct unmet_time *time = &unmet->times[unmet->first & (UNMET_MAX - 1)];
	uint64_t taken = time->ns < *ns ? time->ns : *ns;

	*ns -= taken;
	time->ns -= taken;
	if (!time->ns) {
		unmet->first++;
		unmet->n--;
	}
	return timeline__emit(model, time->thread, stack, taken);
}

/* No sample represents it: "(not sampled)". */
static int give_up_oldest(struct model *model)
{
	uint64_t all = UINT64_MAX;

	return give(model, model->not_sampled, &all);
}

int unmet__keep(struct model *model, struct model_thread *thread, uint64_t ns)
{
	struct unmet *unmet = &model->unmet;
	int err = 0;

	if (!ns)
		return 0;
	if (!unmet->times)
		unmet->times = calloc(UNMET_MAX, sizeof(*unmet->times));
	if (!unmet->times)
		return -ENOMEM;
	/* More thread ends than that without a sample in between: the oldest is reported as it is. */
	if (unmet->n == UNMET_MAX)
		err = give_up_oldest(model);
	unmet->times[(unmet->first + unmet->n++) & (UNMET_MAX - 1)] = (struct unmet_time){thread, ns};
	return err;
}

int unmet__stand(struct model *model, uint32_t stack, uint64_t ns)
{
	int err = 0;

	/* What the sample represents beyond the queue is dropped: the engine counts the same time on both
	 * sides, but a recording may have lost a part of it. */
	while (!err && ns && model->unmet.n)
		err = give(model, stack, &ns);
	return err;
}

int unmet__finish(struct model *model)
{
	int err = 0;

	while (!err && model->unmet.n)
		err = give_up_oldest(model);
	return err;
}

void unmet__free(struct unmet *unmet)
{
	free(unmet->times);
	*unmet = (struct unmet){};
}
