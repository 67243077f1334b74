/* SPDX-License-Identifier: MIT */
#include "export/about.h"

#include <time.h>

#include "events/json.h"

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

int about__members(struct buf *out, const struct model *model)
{
	time_t seconds = (time_t)(model->realtime / 1000000000);
	struct tm tm;
	char started[32] = "";
	int err = buf__printf(out, "\"pid\":%d", model->pid);

	if (model->realtime && gmtime_r(&seconds, &tm))
		strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	err = err ?: json__member(out, "command", model->command);
	err = err ?: json__member(out, "started", started);
	err = err ?: json__number(out, "rate", model->rate);
	err = err ?: json__member(out, "mode", model->mode);
	err = err ?: json__member(out, "frames", model->options->lines ? "lines" : "functions");
	if (model->options->from || model->options->to)
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
	return err;
}
