/* Time that no sample met, and which samples stand for it.
 *
 * Of threads that live for a period or less some are met by a tick of the CPU's clock, and some are not. Each such tick stands for a
 * period of the CPU time of all of them: of its own thread's, and for what is short of a period, of what threads told at
 * their end that no sample met (sample_row.others). Who lives a tenth of a period is met by one tick in ten: with its own
 * time as the weight, half as long a life would count a quarter.
 *
 * That holds for the first ticks that meet a thread: later ones share its own time among them (cpu.c), which is fair by then and
 * keeps what was lost in its place. No sum is more than what ran: what was told by ends and is not stood for yet is all that there is. */
#include "profile/internal.h"

#define FIRST_TICKS 16u
#define UNMET_PERIODS 4u /* of one thread: more was missed, or lost, and not by chance */
/* How much waits for a tick goes up and down by chance. Ticks stand for a little more or less, so that it stays near this: neither is
 * the next tick short of it, nor is much left at the end. */
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

static uint64_t corrected(const struct profile *profile, uint64_t ns)
{
	uint64_t period = period_of(profile), usual = WAITING_PERIODS * period;

	if (profile->unmet > usual)
		return ns + least((profile->unmet - usual) / (2 * WAITING_PERIODS), period / 4);
	return ns - least((usual - profile->unmet) / (2 * WAITING_PERIODS), ns);
}

void stands__row(struct profile *profile, struct item *item)
{
	uint64_t due, period = period_of(profile);
	struct thread *thread = item->thread;

	if (!item->of_cpu)
		return;
	profile->of_cpu = item->row.time;
	if (thread->met == FIRST_TICKS)
		return;
	due = ++thread->met * period;
	thread->stood += item->row.cpu;
	if (thread->stood >= due)
		return;
	item->row.others = least(corrected(profile, due - thread->stood), profile->unmet);
	thread->stood = due;
	profile->unmet -= item->row.others;
}

void stands__end(struct profile *profile, const struct item *item)
{
	if (profile->of_cpu && item->row.time < profile->of_cpu + CLOCK_LASTS_NS)
		profile->unmet += least(item->row.cpu, UNMET_PERIODS * period_of(profile));
}
