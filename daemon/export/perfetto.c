/* SPDX-License-Identifier: MIT */
/* Perfetto's trace format (https://perfetto.dev/docs/reference/trace-packet-proto), gzip'ed: for ui.perfetto.dev and
 * trace_processor, which queries it with SQL. A trace is a sequence of packets, written as the recording is read:
 *
 *     clocks; defaults       what times and weights are
 *     stack_sample ...       each sample, with strings, frames and stacks where they are used first
 *     track_event ...        what each thread did: slices of classes of time and waits; samples and losses a second
 *     track_descriptor ...   processes and threads
 *     track_event ...        compiles, phases and passes, nested; work for them, with arrows; counters
 *
 * The reader sorts packets by time. Stacks are shown by Perfetto 58 (August 2026) and later, all else by any. */
#include "export/perfetto.h"

#include <errno.h>

#include "base/cleanup.h"
#include "export/formats.h"

/* Of BuiltinClock. */
enum { CLOCK_OF_DAY = 1, CLOCK_MONOTONIC_TIME = 3, CLOCK_BOOT = 6 };
/* Of ClockSnapshot, Clock, TracePacketDefaults, TraceAttributes, Attribute. */
enum { CLOCKS_CLOCK = 1, CLOCKS_PRIMARY };
enum { CLOCK_ID = 1, CLOCK_TIME };
enum { DEFAULTS_CLOCK = 58, DEFAULTS_SAMPLES = 100 };
enum { ATTRIBUTES_ITEM = 1 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_TEXT = 3 };

static void put_clock(struct perfetto *perfetto, uint64_t id, uint64_t time)
{
	if (!time)
		return;
	buf__clear(&perfetto->inner);
	perfetto__number(perfetto, &perfetto->inner, CLOCK_ID, id);
	perfetto__number(perfetto, &perfetto->inner, CLOCK_TIME, time);
	perfetto__message(perfetto, &perfetto->message, CLOCKS_CLOCK, &perfetto->inner);
}

/* One instant on all clocks. Times of the trace are CLOCK_MONOTONIC, as in the recording. */
static void put_head(struct perfetto *perfetto, const struct event_session *session)
{
	struct buf *message = &perfetto->message, samples = {};

	perfetto->base = (session->monotonic ^ session->realtime) * 0x9e3779b97f4a7c15u;
	buf__clear(message);
	put_clock(perfetto, CLOCK_MONOTONIC_TIME, session->monotonic);
	put_clock(perfetto, CLOCK_BOOT, session->boottime);
	put_clock(perfetto, CLOCK_OF_DAY, session->realtime);
	perfetto__number(perfetto, message, CLOCKS_PRIMARY, session->boottime ? CLOCK_BOOT : CLOCK_MONOTONIC_TIME);
	perfetto__packet(perfetto, NO_TIME, PACKET_CLOCKS, message);
	buf__clear(message);
	perfetto__measure(perfetto, &samples);
	perfetto__number(perfetto, message, DEFAULTS_CLOCK, CLOCK_MONOTONIC_TIME);
	perfetto__message(perfetto, message, DEFAULTS_SAMPLES, &samples);
	perfetto__packet(perfetto, NO_TIME, PACKET_DEFAULTS, message);
	buf__free(&samples);
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct perfetto *perfetto = (struct perfetto *)self;
	int err = perfetto->event(self, event);

	if (err)
		return err;
	if (event->kind == EVENT_SESSION && !perfetto->begun)
		put_head(perfetto, &event->session);
	else if (event->kind == EVENT_LEDGER && perfetto->begun && !perfetto->model.options->from && !perfetto->model.options->to)
		perfetto__ledger(perfetto, &event->ledger);
	return perfetto->err;
}

static void put_attribute(struct perfetto *perfetto, const char *key, const char *text)
{
	buf__clear(&perfetto->inner);
	perfetto__text(perfetto, &perfetto->inner, ATTRIBUTE_KEY, key);
	perfetto__text(perfetto, &perfetto->inner, ATTRIBUTE_TEXT, text);
	perfetto__message(perfetto, &perfetto->message, ATTRIBUTES_ITEM, &perfetto->inner);
}

/* What was recorded, and what was lost. */
static void put_about(struct perfetto *perfetto)
{
	_cleanup_(buf__free) struct buf text = {};

	perfetto->err = perfetto->err ?: buf__puts(&text, "{") ?: about__members(&text, &perfetto->model) ?: buf__append(&text, "}", 2);
	buf__clear(&perfetto->message);
	if (!perfetto->err) {
		put_attribute(perfetto, "profiler", "cprofd@" CPROFD_VERSION);
		put_attribute(perfetto, "cprofd", text.data);
	}
	perfetto__packet(perfetto, NO_TIME, PACKET_ATTRIBUTES, &perfetto->message);
}

static int write_rest(struct perfetto *perfetto)
{
	perfetto__tracks(perfetto);
	perfetto__counters(perfetto);
	put_about(perfetto);
	return perfetto->err ?: gzip__end(&perfetto->file);
}

static void free_all(struct perfetto *perfetto)
{
	struct buf *bufs[] = {&perfetto->strings_known, &perfetto->frames_known, &perfetto->stacks_known, &perfetto->modules_known,
			      &perfetto->tasks_known, &perfetto->interned, &perfetto->packet, &perfetto->message, &perfetto->inner,
			      &perfetto->path, &perfetto->states, &perfetto->works};

	for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
	for (size_t i = 0; i < LENGTH(perfetto->counts, struct perfetto_counts); i++)
		buf__free(&ITEM(perfetto->counts, struct perfetto_counts, i).bins);
	buf__free(&perfetto->counts);
	intern__free(&perfetto->pids);
	intern__free(&perfetto->tids);
	intern__free(&perfetto->strings);
	intern__free(&perfetto->flows);
	unit_spans__free(&perfetto->spans);
	free(perfetto->threads);
	gzip__free(&perfetto->file);
	model__free(&perfetto->model);
	free(perfetto);
}

int export__perfetto(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	struct perfetto *perfetto = calloc(1, sizeof(*perfetto));
	struct export_options lines = *options;
	struct model *model = perfetto ? &perfetto->model : NULL;
	int err;

	if (!perfetto)
		return -ENOMEM;
	lines.lines = true;
	perfetto->file.out = out;
	err = model__init_detailed(model, &lines);
	perfetto->event = model->sink.event;
	model->sink.event = on_event;
	model->sampled = perfetto__sampled;
	model->slice = model__no_slice;
	model->ctx = perfetto;
	/* Spans need every call, with its begin and end. */
	model->with_units = model->units.keep = true;
	/* Written as it is read: it can always be compressed, as others' traces are. */
	err = err ?: gzip__begin(&perfetto->file, Z_BEST_SPEED);
	err = err ?: model__read(model, recording_fd, &ret->missing) ?: model__order(model, &perfetto->threads, &perfetto->n);
	err = err ?: unit_spans__make(model, perfetto->threads, perfetto->n, model__to(model) - model__from(model), UINT32_MAX, &perfetto->spans);
	err = err ?: write_rest(perfetto);
	model__report(model, ret);
	free_all(perfetto);
	return err;
}
