/* SPDX-License-Identifier: MIT */
/* The part of a speedscope file before the profiles: a key "cprofd", which speedscope ignores, and the frames. */
#include <stdio.h>

#include "events/json.h"
#include "export/speedscope.h"

/* speedscope counts lines and columns from 1. */
static int put_frame(struct buf *out, const struct model_frame *frame)
{
	int err = buf__puts(out, "{") ?: json__member(out, "name", frame->name);

	if (frame->file[0])
		err = err ?: json__member(out, "file", frame->file);
	if (frame->line)
		err = err ?: json__number(out, "line", frame->line);
	if (frame->column)
		err = err ?: json__number(out, "col", frame->column);
	return err ?: buf__puts(out, "}");
}

static int put_merged(struct buf *out, const struct speedscope *file)
{
	int err = buf__puts(out, ",\"merged\":{\"neighbours\":true");

	if (file->bin)
		err = err ?: json__number(out, "bin_ns", file->bin);
	if (file->n > 1)
		err = err ?: json__number(out, "all_threads_bin_ns",
					speedscope_bin_all(file->bin));
	if (file->below)
		err = err ?: json__number(out, "folded_below_ns", file->below);
	if (file->spans.below)
		err = err ?: json__number(out, "units_below_ns", file->spans.below);
	return err ?: buf__puts(out, "}");
}

/* The key "cprofd": what was recorded, lost and merged. */
static int put_about(struct buf *out, const struct speedscope *file)
{
	return buf__puts(out, "\"cprofd\":{") ?: about__members(out, file->model) ?: put_merged(out, file) ?: buf__puts(out, "},\n");
}

/* The profile that speedscope shows first: compiles, if there are any; else the main thread of the attached process,
 * else the first one. */
static uint32_t active_profile(const struct speedscope *file)
{
	struct unit_span span;
	uint32_t i;

	if (unit_spans__from(&file->spans, 0, &span))
		return file->n + (file->n > 1); /* the first one after the threads */
	for (i = 0; i < file->n; i++)
		if (file->threads[i]->tid == file->model->pid)
			break;
	/* "all threads" is in front if there are several. */
	return (i == file->n ? 0 : i) + (file->n > 1);
}

int speedscope__head(struct speedscope *file)
{
	struct buf *out = &file->head;
	char pid[16];
	int err;

	buf__clear(out);
	snprintf(pid, sizeof(pid), " (%d)", file->model->pid);
	err = buf__puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\""
			     ",\"exporter\":\"cprofd@" CPROFD_VERSION "\",\"name\":");
	err = err ?: json__string(out, file->model->command);
	/* Appending to the command before it is quoted would cut the pid off a long one: json__string()
	 * truncates. */
	if (!err && out->data[out->len - 1] == '"') { /* the pid goes inside the quotes */
		out->len--;
		err = buf__puts(out, pid) ?: buf__puts(out, "\"");
	}
	err = err ?: buf__printf(out, ",\"activeProfileIndex\":%u,\n", active_profile(file));
	err = err ?: put_about(out, file) ?: buf__puts(out, "\"shared\":{\"frames\":[\n");
	for (uint32_t i = 0; i < file->frames_n; i++) {
		struct model_frame frame = model__frame(file->model, file->frames[i]);

		err = err ?: put_frame(out, &frame);
		err = err ?: buf__puts(out, i + 1 < file->frames_n ? ",\n" : "\n");
	}
	return err ?: buf__puts(out, "]},\n\"profiles\":[\n");
}
