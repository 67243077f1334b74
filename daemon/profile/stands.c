/* SPDX-License-Identifier: MIT */
/* What a sample stands for while a target makes threads or processes.
 *
 * Each tick of a CPU's clock stands for one period of the CPU time of all threads: a thread that lives for a tenth
 * of a period is sampled by one tick in ten, and most of the time before a tick was other threads'. So the weight of
 * such a sample should be a period. Its own thread ran less since its last sample, or more: what is missing to a
 * period comes from a pool of time that ended threads ran and no sample stands for (sample_row.others); what is more
 * goes to the pool (sample_row.given). With a thread's own CPU time as the weight, a life of half the length would
 * count only a quarter.
 *
 * That holds for the first ticks of a thread: later ones share its own time among them (cpu.c), which is fair by
 * then and keeps lost time in its place. No sum is more than what ran: the pool has only time that was run. */
#include "profile/internal.h"

#define FIRST_TICKS 64u
#define UNSAMPLED_PERIODS 4u /* that one ended thread adds: more than this was missed or lost, not left by chance */
/* The pool goes up and down by chance. Ticks stand for a little more or less than a period, so that it stays near
 * this many periods: the next tick finds enough in it, and little is left at the end. */
#define WAITING_PERIODS 8u
#define CLOCK_LASTS_NS 1000000000ull /* ends count up to this time after a tick of a CPU's clock */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t period_of(const struct profile *profile)
{
	return profile->options.rate ? 1000000000ull / profile->options.rate : 0;
}

/* The CPU time that a tick stands for: a period, corrected so that the pool stays near WAITING_PERIODS. A larger
 * pool makes it up to a quarter more, a smaller one less. */
static uint64_t corrected(const struct profile *profile)
{
	uint64_t period = period_of(profile), usual = WAITING_PERIODS * period;

	if (profile->unsampled > usual)
		return period + least((profile->unsampled - usual) / (2 * WAITING_PERIODS), period / 4);
	return period - least((usual - profile->unsampled) / (2 * WAITING_PERIODS), period / 4);
}

/* Called for each sample as it is emitted; only ticks of a CPU's clock count. Moves time between this row and the
 * pool (profile->unsampled); the sum over all rows stays what ran. */
void stands__row(struct profile *profile, struct item *item)
{
	struct thread *thread = item->thread;
	struct sample_row *row = &item->row;
	uint64_t stands;

	if (!item->of_cpu)
		return;
	profile->of_cpu = row->time;
	if (!thread->cpu_ticks && row->time > thread->begin + FIRST_TICKS * period_of(profile))
		thread->cpu_ticks = FIRST_TICKS; /* it is no new thread */
	if (thread->cpu_ticks == FIRST_TICKS)
		return;
	thread->cpu_ticks++;
	stands = corrected(profile);
	if (row->cpu > stands)
		row->given = row->cpu - stands;
	else
		row->others = least(stands - row->cpu, profile->unsampled);
	profile->unsampled += row->given;
	profile->unsampled -= row->others;
}

/* CPU time that a thread ran after its last sample belongs to no row: it goes to the pool. */
void stands__end(struct profile *profile, const struct item *item)
{
	if (profile->of_cpu && item->row.time < profile->of_cpu + CLOCK_LASTS_NS)
		profile->unsampled += least(item->row.cpu, UNSAMPLED_PERIODS * period_of(profile));
}
