/* SPDX-License-Identifier: MIT */
/* The ledger: what was lost, and why. A loss can be seen in up to two places: by the sampler's counters and by the
 * records that it sent. Those are the same loss, so the larger count holds; what user space found is added.
 *
 * Emitted once a second and at the end. Totals since the session began, over all epochs; a part of it (profile__part())
 * tells what came since the part before:
 *
 *    own[]      found in user space (a record that does not fit, a stack that could not be woven)
 *    shown[]    losses in samples that arrived
 *    kernel     the sampler's own counters; they also count losses whose records were lost themselves
 *    again[]    samples whose native walk was repeated: what was lost then is counted in own[]
 *    excused[]  losses that turned out to be none
 *
 *    one line = max(shown, kernel - again - excused) + own */
#include <string.h>

#include "profile/internal.h"

#define LOSS_NAME(id, kind, name, sentence) [LOSS_##id] = name,
static const char *const names[LOSS_COUNT] = {CPROFD_LOSSES(LOSS_NAME)};
#undef LOSS_NAME

/* Ticks that this thread's CPU time asked for and no sample shows. Negative: it has more, as which ticks are samples
 * is chance. */
int64_t ledger__missed(const struct profile *profile, const struct thread *thread)
{
	uint64_t used = thread->cpu_used > thread->due_cpu ? thread->cpu_used - thread->due_cpu : 0;
	unsigned __int128 due = (unsigned __int128)used * profile->options.rate;

	return (int64_t)(due / 1000000000u + thread->due) - (int64_t)thread->samples;
}

void ledger__rate(struct profile *profile, uint32_t rate)
{
	if (rate == profile->options.rate)
		return;
	for (struct thread *thread = profile->tasks.threads; thread; thread = thread->next) {
		thread->due = (uint64_t)(ledger__missed(profile, thread) + (int64_t)thread->samples);
		thread->due_cpu = thread->cpu_used;
	}
	profile->options.rate = profile->session.rate = rate;
}

/* Ticks are due for CPU time: rate * CPU seconds. Those that fired are in the sampler's counters; the rest never
 * fired (interrupts were off, the timer was late). Summed over all threads, so that chance cancels out. */
static uint64_t ticks_missed(const struct profile *profile)
{
	const struct sampler_counts *kernel = &profile->ledger.kernel;
	int64_t missed = profile->ledger.missed_ended, unsent;

	for (const struct thread *thread = profile->tasks.threads; thread; thread = thread->next)
		if (!thread->ended)
			missed += ledger__missed(profile, thread);
	/* These did fire: their losses have lines of their own. */
	unsent = kernel->ticks > kernel->samples ? (int64_t)(kernel->ticks - kernel->samples) : 0;
	return missed > unsent ? (uint64_t)(missed - unsent) : 0;
}

/* The total of one line, as emitted. `shown` and the kernel's counter are two views of the same losses, so the
 * larger one holds. */
uint64_t ledger__loss(const struct profile *profile, enum loss loss)
{
	const struct ledger *ledger = &profile->ledger;
	uint64_t seen = ledger->shown[loss], kernel = 0;
	size_t n = sizeof(ledger->kernel.losses) / sizeof(ledger->kernel.losses[0]);

	if ((size_t)loss < n &&
	    ledger->kernel.losses[loss] > ledger->again[loss] + ledger->excused[loss])
		kernel = ledger->kernel.losses[loss] - ledger->again[loss] - ledger->excused[loss];
	if (kernel > seen)
		seen = kernel;
	if (loss == LOSS_TICK_MISSED)
		seen += ticks_missed(profile);
	return seen + ledger->own[loss];
}

int ledger__emit(struct profile *profile, struct event_sink *sink, uint64_t time)
{
	struct ledger_line lines[LOSS_COUNT];
	struct ledger_stop stops[STOPS_LISTED];
	struct event event = {.kind = EVENT_LEDGER};

	event.ledger.time = time;
	event.ledger.samples = profile->ledger.samples - profile->ledger.before.samples;
	event.ledger.whole = profile->ledger.whole - profile->ledger.before.whole;
	event.ledger.lines = lines;
	for (enum loss loss = LOSS_NONE + 1; loss < LOSS_COUNT; loss++) {
		uint64_t count = ledger__loss(profile, loss), before = profile->ledger.before.losses[loss];

		if (count > before)
			lines[event.ledger.n++] = (struct ledger_line){names[loss], count - before};
	}
	stops__emit(&profile->ledger.stops, profile->options.codemap, stops, &event.ledger);
	return sink->event(sink, &event);
}

void ledger__part(struct profile *profile)
{
	struct ledger *ledger = &profile->ledger;

	ledger->before.samples = ledger->samples;
	ledger->before.whole = ledger->whole;
	ledger->before.native += ledger->stops.native;
	ledger->before.native_whole += ledger->stops.whole;
	for (enum loss loss = LOSS_NONE + 1; loss < LOSS_COUNT; loss++) {
		uint64_t count = ledger__loss(profile, loss);

		/* A tick that was late was told as missed. */
		if (count > ledger->before.losses[loss])
			ledger->before.losses[loss] = count;
	}
	memset(&ledger->stops, 0, sizeof(ledger->stops));
}

void profile__counts(struct profile *profile, const struct sampler_counts *sum)
{
	profile->ledger.kernel = *sum;
}

void profile__excuse(struct profile *profile, enum loss loss, uint64_t count)
{
	profile->ledger.excused[loss] += count;
}

uint32_t profile__stops(struct profile *profile, struct ledger_stop *ret, uint32_t max)
{
	struct ledger_stop rows[STOPS_LISTED];
	struct event_ledger ledger = {};
	uint32_t n;

	stops__emit(&profile->ledger.stops, profile->options.codemap, rows, &ledger);
	n = ledger.n_stops < max ? ledger.n_stops : max;
	memcpy(ret, rows, n * sizeof(*ret));
	return n;
}

void profile__loss(struct profile *profile, enum loss loss, uint64_t count)
{
	profile->ledger.own[loss] += count;
}
