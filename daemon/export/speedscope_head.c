/* SPDX-License-Identifier: MIT */
/* The part of a speedscope file before the profiles: a key "cprofd", which speedscope ignores, and the frames. */
#include <stdio.h>
#include <time.h>

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

static int put_losses(struct buf *out, const struct model *model)
{
	const uint64_t *counts = (const uint64_t *)model->loss_counts.data;
	int err = buf__puts(out, ",\"losses\":{");
	uint32_t i;

	for (i = 0; i < model->loss_names.n; i++) {
		size_t len;

		err = err ?: buf__puts(out, i ? "," : "");
		err = err ?: json__string(out, intern__key(&model->loss_names, i, &len));
		err = err ?: buf__puts(out, ":") ?: json__u64(out, counts[i]);
	}
	return err ?: buf__puts(out, "}");
}

/* How many native stacks are complete, and where the others end. */
static int put_native(struct buf *out, const struct model *model)
{
	int err;

	if (!model->native)
		return 0;
	err = buf__printf(out, ",\"native\":{\"samples\":%llu", (unsigned long long)model->native);
	err = err ?: json__number(out, "whole", model->native_whole);
	err = err ?: buf__puts(out, ",\"stops\":[");
	if (model->stops.len)
		err = err ?: buf__append(out, model->stops.data, model->stops.len);
	err = err ?: buf__puts(out, "]");
	err = err ?: json__number(out, "stops_more", model->stops_more);
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
	const struct model *model = file->model;
	time_t seconds = (time_t)(model->realtime / S);
	struct tm tm;
	char started[32] = "";
	int err = buf__printf(out, "\"cprofd\":{\"pid\":%d", model->pid);

	if (model->realtime && gmtime_r(&seconds, &tm))
		strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	err = err ?: json__member(out, "command", model->command);
	err = err ?: json__member(out, "started", started);
	err = err ?: json__number(out, "rate", model->rate);
	err = err ?: json__member(out, "mode", model->mode);
	err = err ?: json__member(out, "frames", file->options->lines ? "lines" : "functions");
	if (file->options->from || file->options->to)
		err = err ?: buf__printf(out, ",\"window_ns\":[%llu,%llu]",
					 (unsigned long long)model__from(model),
					 (unsigned long long)model__to(model));
	err = err ?: json__number(out, "samples", model->samples);
	err = err ?: json__number(out, "whole", model->whole);
	err = err ?: put_losses(out, model) ?: put_native(out, model);
	if (model->gap_events)
		err = err ?: json__number(out, "gap_events", model->gap_events);
	err = err ?: buf__printf(out, ",\"cut\":%s", model->cut ? "true" : "false");
	err = err ?: json__member(out, "reason", model->reason);
	err = err ?: json__member(out, "detail", model->detail);
	return err ?: put_merged(out, file) ?: buf__puts(out, "},\n");
}

/* The profile that speedscope shows first: compiles, if there are any; else the main thread of the attached process,
 * else the first one. */
static uint32_t active_profile(const struct speedscope *file)
{
	uint32_t i;

	for (i = 0; i < unit_spans__n(&file->spans); i++)
		if (unit_spans__shown(&file->spans, unit_spans__item(&file->spans, i)))
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
	uint32_t i;

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
	for (i = 0; i < file->frames_n; i++) {
		struct model_frame frame = model__frame(file->model, file->frames[i]);

		err = err ?: put_frame(out, &frame);
		err = err ?: buf__puts(out, i + 1 < file->frames_n ? ",\n" : "\n");
	}
	return err ?: buf__puts(out, "]},\n\"profiles\":[\n");
}
