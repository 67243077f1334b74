/* SPDX-License-Identifier: MIT */
/* A thread's time line, built event by event: each nanosecond from its begin on is in exactly one slice. Sums
 * are exact; the order of idle time and stacks may be off by less than one period.
 *
 *     sample at 10 ms, wall 10 ms, cpu 2 ms, stack S:
 *     0 ms                                8 ms      10 ms
 *     | (idle), or the stack that waits   | S        |
 *
 * Two clocks meet here. CPU time is the kernel's account of the thread, wall time is CLOCK_MONOTONIC; they
 * differ by microseconds, so CPU time may be more than wall time. `carry` takes the difference, and later
 * idle time makes up for it. */
#include "export/model.h"

/* With a filter, time that belongs to no shown sample is left blank. */
static bool blank(const struct model *model, uint32_t stack)
{
	return model->filter && (stack == model->left_out || stack == model->idle ||
				 stack == model->not_recorded || stack == model->not_sampled);
}

/* Passes a slice on, or appends it, joined with the one before if that has the same stack. */
static int emit(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu,
		uint64_t ns)
{
	struct slice next = {stack, ns, cpu};

	if (!ns)
		return 0;
	if (blank(model, stack))
		next.stack = stack = MODEL_ROOT;
	if (model->slice)
		return model->slice(model, thread, stack, cpu, ns);
	if (!thread->slices.n || thread->slices.last.stack != stack)
		return slices__add(&thread->slices, &next);
	thread->slices.last.ns += ns;
	thread->slices.last.cpu += cpu;
	return 0;
}

/* Length of [from, to) inside the window. All time that becomes a slice goes through here, so a window cuts samples
 * exactly, and sums over adjacent windows equal the sum over all. */
static uint64_t inside(const struct model *model, uint64_t from, uint64_t to)
{
	uint64_t low = model->options->from;
	uint64_t high = model->options->to ? model->options->to : UINT64_MAX;

	from = from < low ? low : from;
	to = to > high ? high : to;
	return to > from ? to - from : 0;
}

/* Idle time becomes a slice only when it adds up to a period. A running thread has some microseconds of it at each
 * sample; a slice for each would break up every longer run of one stack.
 *
 * thread->carry is a uint64_t used as a signed sum: it is negative where the CPU clock was ahead of the wall clock. */
static int idle(struct model *model, struct model_thread *thread, uint64_t ns)
{
	uint64_t due;

	thread->carry += ns;
	due = thread->carry;
	if ((int64_t)due < (int64_t)model->period)
		return 0;
	thread->carry = 0;
	return emit(model, thread, model->idle, 0, due);
}

/* Up to `time` nothing was recorded: a gap, or the time before the first sample. */
static int missing(struct model *model, struct model_thread *thread, uint64_t time)
{
	uint64_t ns;

	if (time <= thread->clock)
		return 0;
	ns = inside(model, thread->clock, time);
	thread->clock = time;
	thread->wall += ns;
	return emit(model, thread, model->not_recorded, 0, ns);
}

int timeline__advance(struct model *model, struct model_thread *thread, uint64_t time)
{
	return thread->ended ? 0 : missing(model, thread, time);
}

int timeline__sample(struct model *model, struct model_thread *thread, uint64_t time, uint64_t wall,
		     uint64_t cpu, uint32_t stack, uint32_t waiting)
{
	uint64_t from = time > wall ? time - wall : 0, start, shown, ran, waited, given;
	int err = missing(model, thread, from);

	if (err)
		return err;
	/* The sample may begin before the end of the previous one (clocks of two CPUs, a damaged file): cut it, time
	 * must not run backwards. */
	from = thread->clock;
	time = time > from ? time : from;
	start = time > cpu ? time - cpu : 0; /* it ran in [start, time) */
	thread->clock = time;
	shown = inside(model, from, time);
	ran = inside(model, start, time);
	if (cpu > time && !model->options->from)
		ran += cpu - time; /* at the very beginning, too, the CPU clock may be ahead */
	thread->wall += shown;
	thread->cpu += ran;
	if (ran > shown) { /* more CPU than wall time, by the clocks' resolution: later idle time makes up for it */
		thread->carry -= ran - shown;
		waited = 0;
	} else {
		waited = shown - ran;
	}
	/* Before the slices: report/units.c divides the same wall time in its own way. */
	if (model->sampled)
		err = model->sampled(model, thread, stack, ran, shown);
	if (err)
		return err;
	if (waiting != MODEL_ROOT && waited)
		err = emit(model, thread, waiting, 0, waited);
	else if (waited || (int64_t)thread->carry > 0)
		err = idle(model, thread, waited);
	if (err || !model->slice)
		return err ? err : emit(model, thread, stack, ran, ran);
	/* `given` is earlier CPU time without a sample of this thread. In sums over threads it goes to the samples
	 * of other threads that represent it (unsampled.h). A time line, which returned above, keeps it where it was. */
	given = model->given_now > ran ? ran : model->given_now;
	err = unsampled__keep(model, thread, given);
	return err ? err : emit(model, thread, stack, ran - given, ran - given);
}

int timeline__emit(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ns)
{
	return emit(model, thread, stack, ns, ns);
}

/* The last slice: from the last event to the thread's end, plus the idle time that is left. */
int timeline__finish(struct model *model, struct model_thread *thread)
{
	uint64_t ns = 0, due;

	if (!thread->ended) {
		/* It lived until the session ended. */
		thread->finish = model->finish > thread->clock ? model->finish : thread->clock;
		ns = inside(model, thread->clock, thread->finish);
		thread->clock = thread->finish;
		thread->wall += ns;
	}
	due = thread->carry + ns;
	/* A debt that is left over means that the thread's slices are longer than its life by microseconds. */
	thread->carry = (int64_t)due > 0 ? 0 : due;
	return (int64_t)due > 0 ? emit(model, thread, model->idle, 0, due) : 0;
}
