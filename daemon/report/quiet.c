/* Which threads hardly ran (export/quiet.h). That is known when all of a recording is read, and rows of stacks are made
 * before: so a recording of wall-clock mode is read once more before it is read. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "export/quiet.h"
#include "report/internal.h"

static int no_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t ns)
{
	return 0;
}

static int no_epoch(struct model *model)
{
	return 0;
}

/* The first sample ends the reading of another mode. */
static int stop_early(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown)
{
	return model->wall_mode ? 0 : -ECANCELED;
}

static int note(struct report *report, const struct model *model)
{
	uint64_t cpu = 0, wall = 0;
	uint32_t i;
	int err = 0;

	for (i = 0; i < model__threads(model); i++) {
		cpu += model__thread(model, i)->shown ? model__thread(model, i)->cpu : 0;
		wall += model__thread(model, i)->shown ? model__thread(model, i)->wall : 0;
	}
	for (i = 0; i < model__threads(model) && !err; i++) {
		const struct model_thread *thread = model__thread(model, i);
		const char quiet = thread->shown && thread__is_quiet(thread->cpu, thread->wall, cpu, wall);

		err = buf__append(&report->quiet, &quiet, 1);
	}
	return err;
}

int quiet__find(struct report *report, int recording_fd, const struct export_options *how)
{
	struct export_missing missing = {};
	struct model model;
	int err;

	buf__clear(&report->quiet);
	if (!report->options->without_quiet)
		return 0;
	if (lseek(recording_fd, 0, SEEK_CUR) < 0) {
		report->quiet_unknown = true;
		return 0;
	}
	err = model__init(&model, how);
	model.slice = no_slice;
	model.epoch = no_epoch;
	model.sampled = stop_early;
	err = err ?: model__read(&model, recording_fd, &missing);
	if (!err && model.wall_mode)
		err = note(report, &model);
	model__free(&model);
	/* What is wrong with it is told when it is read the second time. */
	if (err == -ENOMEM)
		return err;
	return lseek(recording_fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

bool quiet__is(const struct report *report, uint32_t thread)
{
	return thread < report->quiet.len && report->quiet.data[thread];
}
