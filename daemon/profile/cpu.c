/* SPDX-License-Identifier: MIT */
/* CPU time of samples.
 *
 * sum_exec_runtime is exact but stands still between scheduler ticks (4 ms at
 * HZ=250) and switches, while the sampler's ticks are evenly spaced in CPU time.
 * So samples wait until a later one shows an advance, which then is theirs in
 * equal shares; the sample that shows it opens the next group. That holds for a
 * thread that sleeps between bursts, too: the advance seen at the begin of a burst
 * is of the burst before.
 *
 * No sample gets more than its wall time. What does not fit is carried: other
 * samples of the group, then later ones take it, the thread's end at last. A
 * sample whose wait was too long gets one period of the sampler's clock on
 * account (it ran that long, or there had been no tick), which the next advance
 * pays back. So the sum of cpu is always cpu_used, plus what is ahead.
 *
 * Example, HZ=250, 999 samples a second: sum_exec_runtime reads 100, 100, 100, 104 ms in four samples. The first
 * three wait; the fourth shows an advance of 4 ms, of which each of the three gets 1.33 ms, at most its wall time.
 * The fourth waits for the next advance.
 *
 * Invariant: what all rows of a thread have been given, plus carry, is cpu_used plus ahead. */
#include "profile/internal.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Samples of one thread that wait for CPU time are chained through the queue, by their distance (item.next). */
static struct item *next_waiting(const struct queue *queue, uint64_t *number)
{
	const struct item *item = queue__item(queue, *number);

	*number += item->next;
	return item->next ? queue__item(queue, *number) : NULL;
}

/* Appends the item to the thread's chain of waiting samples. */
void cpu__wait(struct profile *profile, struct thread *thread, uint64_t number)
{
	struct queue *queue = &profile->queue;

	if (thread->waiting++)
		queue__item(queue, thread->waiting_last)->next =
			(uint32_t)(number - thread->waiting_last);
	else
		thread->waiting_first = number;
	thread->waiting_last = number;
}

/* Gives at most `amount` to a sample; what it took. */
static uint64_t give(struct item *item, uint64_t amount)
{
	uint64_t taken = least(item->row.wall - item->row.cpu, amount);

	item->row.cpu += taken;
	return taken;
}

/* Shares `advance` out to the samples that wait and, if tail > 0, to a further
 * span of `tail` ns, whose share stays in carry. */
static void share_out(struct profile *profile, struct thread *thread, uint64_t advance,
		      uint64_t tail)
{
	uint64_t parts = thread->waiting + (tail ? 1 : 0), number = thread->waiting_first;
	uint64_t pot = advance + thread->carry, rest;

	thread->carry = pot;
	if (!thread->waiting)
		return;
	rest = advance % parts;
	for (struct item *item = queue__item(&profile->queue, number); item;
	     item = next_waiting(&profile->queue, &number)) {
		pot -= give(item, advance / parts + (rest ? 1 : 0));
		rest -= rest ? 1 : 0;
	}
	number = thread->waiting_first;
	for (struct item *item = queue__item(&profile->queue, number); item;
	     item = next_waiting(&profile->queue, &number)) {
		if (pot > tail)
			pot -= give(item, pot - tail);
		item->waits = false;
	}
	thread->waiting = 0;
	thread->carry = pot;
}

/* The CPU time that is new since it was seen last; since a thread was listed, at most `most_listed`. */
static uint64_t advance_to(struct thread *thread, uint64_t cpu_time, uint64_t now, uint64_t most_listed)
{
	uint64_t advance, most, paid;

	if (!thread->cpu_known) {
		thread->cpu_known = true;
		thread->cpu_seen = cpu_time;
		return 0;
	}
	if (cpu_time <= thread->cpu_seen)
		return 0;
	advance = cpu_time - thread->cpu_seen;
	thread->cpu_seen = cpu_time;
	if (thread->cpu_base) {
		/* A baseline from /proc may be a scheduler tick old: no thread ran
		 * longer than the time that went by. */
		most = now > thread->begin ? now - thread->begin : 0;
		advance = least(advance, thread->cpu_base == CPU_LISTED ? least(most, most_listed) : most);
		thread->cpu_base = CPU_EXACT;
	}
	thread->cpu_used += advance;
	paid = least(advance, thread->ahead);
	thread->ahead -= paid;
	return advance - paid;
}

/* A thread whose clock ticks has a sample within two periods of its CPU time (bpf/tick.h, is_chosen). What it ran more
 * than that since it was listed was before its clock was opened: it is no sample's. */
void cpu__seen(struct profile *profile, struct thread *thread, uint64_t cpu_time, uint64_t now)
{
	uint64_t before = thread->cpu_seen, periods = profile->options.rate ? 2000000000ull / profile->options.rate : UINT64_MAX;
	uint64_t advance = advance_to(thread, cpu_time, now, periods);

	if (thread->cpu_seen != before)
		share_out(profile, thread, advance, 0);
}

/* The oldest sample that waits has waited long enough: it goes with what it has, and `on_account` up to one period
 * more, which the thread's next advance has to pay back. */
void cpu__release(struct profile *profile, struct thread *thread, bool on_account)
{
	struct item *item = queue__item(&profile->queue, thread->waiting_first);
	uint64_t period = profile->options.rate ? 1000000000ull / profile->options.rate : 0;
	uint64_t number = thread->waiting_first;

	thread->carry -= give(item, thread->carry);
	if (on_account && item->row.cpu < period)
		thread->ahead += give(item, period - item->row.cpu);
	item->waits = false;
	next_waiting(&profile->queue, &number);
	thread->waiting_first = number;
	thread->waiting--;
}

/* The thread has ended: its last CPU time is known. `wall`: of the part behind its last sample. What belongs to
 * that is returned. */
uint64_t cpu__finish(struct profile *profile, struct thread *thread, uint64_t wall)
{
	uint64_t left;

	share_out(profile, thread, advance_to(thread, thread->cpu_final, thread->end_time, UINT64_MAX), wall);
	left = thread->carry;
	thread->carry = 0;
	return left;
}
