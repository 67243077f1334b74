/* SPDX-License-Identifier: MIT */
/* A request has the samples of a period, by the times of the events themselves: so a recording is cut as the session would
 * have been. It ends at a ledger, which comes once a second when all samples before it have come, and at an epoch: there
 * everything gets new ids, and the model is made anew, so that a session of days takes no more memory than one of hours. */
#include <errno.h>

#include "base/clock.h"
#include "export/gzip.h"
#include "export/quiet.h"
#include "push/push.h"

/* Collectors take at most 20 MB, unpacked (confighttp, max_request_body_size). A sample takes some 14 bytes. */
#define SAMPLES_MAX 200000u
/* How long a recording waits for room in the spool, at a time. */
#define WAIT_MS 1000

static int pack(const struct buf *message, struct buf *ret)
{
	char *data = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&data, &len);
	int err = file ? gzip__all(file, Z_DEFAULT_COMPRESSION, message->data, message->len) : -ENOMEM;

	if (file && fclose(file) && !err)
		err = -errno;
	*ret = (struct buf){.data = data, .len = len, .capacity = len};
	return err;
}

/* Until half of the spool is free, or nothing more can be delivered. */
static int wait_for_room(struct batches *batches)
{
	struct pollfd fd = {batches->interrupt, POLLIN, 0};
	const char *hint;
	uint64_t bytes;
	int err = sender__poll(batches->sender, &fd, 1, 0);

	while (!err && !fd.revents && sender__waiting(batches->sender, &bytes) && bytes > batches->room / 2)
		err = sender__hopeless(batches->sender, &hint) ? -ECANCELED : sender__poll(batches->sender, &fd, 1, WAIT_MS);
	return err ?: fd.revents || sender__hopeless(batches->sender, &hint) ? -ECANCELED : 0;
}

/* The time of day at which the boot's clock was 0. */
static uint64_t clocks_apart(void)
{
	return clock__read(CLOCK_REALTIME) - clock__now();
}

int batches__flush(struct batches *batches)
{
	uint32_t samples = batch__samples(&batches->batch);
	struct buf request = {};
	int err;

	if (!samples)
		return 0;
	/* A session of weeks sees the clock being set, and the machine asleep. */
	if (!batches->room && batches->session.realtime)
		batches->batch.model.realtime = batches->session.realtime + (clocks_apart() - batches->apart);
	buf__clear(&batches->message);
	/* Names that came late. */
	err = unit_tree__finish(&batches->batch.model.units) ?: batches->store->encode(&batches->batch, &batches->message);
	if (batches->store->packed)
		err = err ?: pack(&batches->message, &request);
	err = err ?: sender__give(batches->sender, batches->store->packed ? &request : &batches->message, samples);
	batches->samples += samples;
	buf__free(&request);
	return err ?: batches->room ? wait_for_room(batches) : 0;
}

static int begin_again(struct batches *batches)
{
	struct batch_resource resource = batches->batch.resource;
	const struct event session = {.kind = EVENT_SESSION, .session = batches->session};
	uint64_t number = batches->batch.number;
	int err = model__settle(&batches->batch.model) ?: batches__flush(batches);

	if (err)
		return err;
	batch__free(&batches->batch);
	err = batch__begin(&batches->batch, &batches->options);
	batches->batch.resource = resource;
	batches->batch.number = number;
	return err ?: batches->batch.model.sink.event(&batches->batch.model.sink, &session);
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct batches *batches = (struct batches *)self;
	int err = 0;

	if (event->kind == EVENT_SESSION && !batches->session.monotonic) {
		batches->session = event->session;
		batches->apart = clocks_apart();
		/* What is borrowed; of all these only the mode is used. */
		batches->session.mode = strcmp(event->session.mode, "wall") ? "cpu" : "wall";
		batches->session.command = batches->session.machine = batches->session.boot_id = "";
		batches->next = event->session.monotonic + batches->period;
		batches->options.idle = event->session.idle;
	} else if (event->kind == EVENT_EPOCH && batch__samples(&batches->batch)) {
		/* A recording's end is in sight, and its threads are known by the model's numbers. */
		err = batches->room ? 0 : begin_again(batches);
	}
	batches->missed += event->kind == EVENT_GAP ? event->gap.events : 0;
	err = err ?: batches->batch.model.sink.event(&batches->batch.model.sink, event);
	if (err)
		return err;
	if ((event->kind == EVENT_LEDGER && event->ledger.time >= batches->next) || batch__samples(&batches->batch) > SAMPLES_MAX)
		err = batches__flush(batches);
	/* Ledgers come once a second, give or take: from the last time that was due, not from this one. */
	if (event->kind == EVENT_LEDGER && event->ledger.time >= batches->next)
		batches->next += (1 + (event->ledger.time - batches->next) / batches->period) * batches->period;
	return err ?: event->kind == EVENT_END ? model__settle(&batches->batch.model) ?: batches__flush(batches) : 0;
}

int batches__begin(struct batches *batches, struct sender *sender, const struct push_store *store, uint64_t period, const struct batch_resource *resource)
{
	int err;

	*batches = (struct batches){.sink = {on_event}, .sender = sender, .store = store, .period = period, .interrupt = -1};
	/* Waits count where they were recorded; frames of the interpreter are their callers' (shown.h). */
	batches->options = (struct export_options){.lines = true, .fold_interpreter = true, .units = store->units};
	err = batch__begin(&batches->batch, &batches->options);
	batches->batch.resource = *resource;
	return err;
}

int batches__read(struct batches *batches, int recording_fd, bool *ret_cut)
{
	bool unknown;
	int err = quiet__find(recording_fd, &batches->options, &batches->quiet, &unknown);

	batches->batch.quiet = &batches->quiet;
	return err ?: recording__read(recording_fd, false, &batches->sink, ret_cut) ?: batches__flush(batches);
}

void batches__free(struct batches *batches)
{
	buf__free(&batches->quiet);
	batch__free(&batches->batch);
	buf__free(&batches->message);
}
