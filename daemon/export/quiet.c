/* SPDX-License-Identifier: MIT */
/* Finds threads that hardly ran (quiet.h). That is known only at the end of a recording, but rows of stacks are made
 * earlier, so a recording in wall mode is read twice. */
#include <errno.h>
#include <unistd.h>

#include "export/model.h"
#include "export/quiet.h"

/* A recording of CPU time needs no first pass: stop at the first sample. */
static int stop_early(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown)
{
	return model->wall_mode ? 0 : -ECANCELED;
}

static int note(const struct model *model, struct buf *ret)
{
	int err = 0;

	for (uint32_t i = 0; i < model__threads(model) && !err; i++) {
		const char quiet = model__thread(model, i)->quiet;

		err = buf__append(ret, &quiet, 1);
	}
	return err;
}

int quiet__find(int recording_fd, const struct export_options *how, struct buf *ret, bool *ret_unknown)
{
	struct export_missing missing = {};
	struct model model;
	int err;

	buf__clear(ret);
	*ret_unknown = lseek(recording_fd, 0, SEEK_SET) < 0;
	if (*ret_unknown)
		return errno == ESPIPE ? 0 : -errno;
	err = model__init(&model, how);
	model.slice = model__no_slice;
	model.epoch = model__no_epoch;
	model.sampled = stop_early;
	err = err ?: model__read(&model, recording_fd, &missing);
	err = err ?: note(&model, ret);
	model__free(&model);
	/* Other errors are reported by the second pass. -ECANCELED is the normal end for a recording of CPU
	 * time. */
	if (err == -ENOMEM)
		return err;
	return lseek(recording_fd, 0, SEEK_SET) < 0 ? -errno : 0;
}
