/* SPDX-License-Identifier: MIT */
#include "export/model.h"

#include <time.h>

#include "events/json.h"

int about__losses(struct buf *out, const struct model *model, bool zeros)
{
	uint32_t i, n = 0;
	size_t len;
	int err = json__key(out, "losses") ?: buf__puts(out, "{");

	for (i = 0; i < model->loss_names.n && !err; i++) {
		const uint64_t count = ITEM(model->loss_counts, const uint64_t, i);

		if (count || zeros)
			err = buf__puts(out, n++ ? "," : "") ?: json__string(out, intern__key(&model->loss_names, i, &len))
				?: buf__puts(out, ":") ?: json__u64(out, count);
	}
	return err ?: buf__puts(out, "}");
}

int about__started(struct buf *out, uint64_t realtime)
{
	time_t seconds = (time_t)(realtime / 1000000000);
	char started[32] = "";
	struct tm tm;

	/* A damaged recording may have a year that gmtime_r() refuses. */
	if (realtime && gmtime_r(&seconds, &tm))
		strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json__member(out, "started", started);
}

int about__triggers(struct buf *out, const struct model *model)
{
	const uint32_t n = LENGTH(model->triggers, struct model_trigger);
	int err = n ? json__key(out, "triggers") ?: buf__puts(out, "[") : 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		const struct model_trigger *trigger = &ITEM(model->triggers, const struct model_trigger, i);

		err = buf__printf(out, "%s{\"time_ns\":%llu", i ? "," : "", (unsigned long long)trigger->time);
		err = err ?: json__member(out, "condition", trigger->condition) ?: json__number(out, "value_ns", trigger->value);
		if (trigger->span)
			err = err ?: json__number(out, "span_ns", trigger->span);
		err = err ?: json__member(out, "name", trigger->name) ?: json__number(out, "tid", (uint32_t)trigger->tid);
		err = err ?: buf__puts(out, "}");
	}
	return err || !n ? err : buf__puts(out, "]");
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
	int err = buf__printf(out, "\"pid\":%d", model->pid);

	err = err ?: json__member(out, "command", model->command);
	err = err ?: about__started(out, model->realtime);
	err = err ?: json__number(out, "rate", model->rate);
	err = err ?: json__member(out, "mode", model->mode);
	err = err ?: json__member(out, "frames", model->options->lines ? "lines" : "functions");
	if (model->options->from || model->options->to)
		err = err ?: buf__printf(out, ",\"window_ns\":[%llu,%llu]",
					 (unsigned long long)model__from(model),
					 (unsigned long long)model__to(model));
	err = err ?: json__number(out, "samples", model->samples);
	err = err ?: json__number(out, "whole", model->whole);
	err = err ?: about__losses(out, model, true) ?: put_native(out, model);
	if (model->gap_events)
		err = err ?: json__number(out, "gap_events", model->gap_events);
	err = err ?: about__triggers(out, model);
	err = err ?: buf__printf(out, ",\"cut\":%s", model->cut ? "true" : "false");
	err = err ?: json__member(out, "reason", model->reason);
	return err ?: json__member(out, "detail", model->detail);
}
