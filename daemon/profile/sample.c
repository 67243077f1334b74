/* SPDX-License-Identifier: MIT */
/* A sample record becomes a row: which thread (tasks), which stack (a node of the tree), how much time.
 *
 *    unfinished__read() -> stack__read()   steps: native and Python frames, woven
 *                       -> find_stack()    steps -> frames -> node
 *    profile__push()                       the row waits in the queue for its CPU time (cpu.c), then is emitted
 *
 * Two stacks in a row of one thread are most often equal but for their innermost frames. So each thread has a memo:
 * the steps of its last stack and the node of each. Only what differs is looked up. */
#include <errno.h>
#include <stdlib.h>

#include "profile/internal.h"

/* Has a limit of the epoch been reached? Then a new one begins before the next sample. */
bool profile__full(const struct profile *profile)
{
	return profile->tables.n_stacks >= profile->options.stacks_max ||
	       tables__used(&profile->tables) >= profile->options.bytes_max ||
	       profile->tasks.n_ended >= profile->options.ended_max;
}

/* Room to remember n frames; false: do without. */
static bool memo__reserve(struct memo *memo, struct tasks *tasks, uint32_t n)
{
	uint32_t capacity = memo->capacity ? memo->capacity : 32;
	size_t size = sizeof(*memo->frames);
	void *frames;

	while (capacity < n)
		capacity *= 2;
	if (capacity == memo->capacity)
		return true;
	if (tasks->memo_bytes + (capacity - memo->capacity) * size > MEMO_BYTES)
		return false;
	frames = realloc(memo->frames, capacity * size);
	if (!frames)
		return false;
	tasks->memo_bytes += (capacity - memo->capacity) * size;
	memo->frames = frames;
	memo->capacity = capacity;
	return true;
}

/* How many outermost steps are those of the thread's previous stack. */
static uint32_t memo__common(const struct memo *memo, const struct step *steps, uint32_t n)
{
	uint32_t most = n < memo->n ? n : memo->n, i;

	for (i = 0; i < most; i++) {
		const struct step *step = &steps[n - 1 - i];
		const struct memo_frame *frame = &memo->frames[i];

		if (step->key != frame->key || step->offset != frame->offset ||
		    step->is_frame != frame->is_frame)
			break;
	}
	return i;
}

/* The frames of steps from the i-th on, counted from the outermost; those that have a node go to `shown`. */
static int find_frames(struct profile *profile, struct step *steps, uint32_t i, uint32_t n, uint32_t *ret_shown)
{
	uint32_t *shown = profile->stack->shown, frame;
	int err;

	*ret_shown = 0;
	for (; i < n; i++) {
		struct step *step = &steps[n - 1 - i];

		frame = (uint32_t)step->key;
		step->clean = step->shown = true;
		if (!step->is_frame) {
			err = tables__frame(&profile->tables, step->key, step->offset, &frame, &step->clean);
			if (err)
				return err;
			step->shown = !tables__is_shim(&profile->tables, frame);
		}
		if (step->shown)
			shown[(*ret_shown)++] = frame;
	}
	return 0;
}

/* The node of n steps (innermost first). Only steps that differ from the thread's previous stack are looked up.
 * `keep`: how many outer steps the memo may hold. The memo ends where a step was not clean, so that such a frame is
 * looked up, and its lack counted, with each sample. */
static int find_stack(struct profile *profile, struct memo *memo, struct step *steps, uint32_t n, uint32_t *ret)
{
	uint32_t keep = n < MEMO_DEPTH ? n : MEMO_DEPTH;
	uint32_t i = memo__common(memo, steps, n), n_shown;
	uint32_t stack = i ? memo->frames[i - 1].stack : 0, *frame = profile->stack->shown;
	bool remember = memo__reserve(memo, &profile->tasks, keep);
	int err = find_frames(profile, steps, i, n, &n_shown);

	memo->n = i;
	if (err)
		return err;
	tables__expect_stacks(&profile->tables, stack, profile->stack->shown, n_shown);
	for (; i < n; i++) {
		const struct step *step = &steps[n - 1 - i];

		if (step->shown)
			err = tables__stack(&profile->tables, stack, *frame++, &stack);
		if (err)
			return err;
		remember = remember && step->clean && i < keep;
		if (remember)
			memo->frames[memo->n++] =
				(struct memo_frame){step->key, step->offset, stack, step->is_frame};
	}
	*ret = stack;
	return 0;
}

/* Where in the tree it belongs. `again`: this sample's stack was read before, and counted. */
int sample__locate(struct profile *profile, struct thread *thread, const struct sample *sample,
		  const struct part_native_frames *native, bool again, uint32_t *ret_stack)
{
	bool whole;
	int err = stack__read(profile, thread->process, sample, native, again, &whole);

	if (!err)
		err = find_stack(profile, &thread->memo, profile->stack->steps, profile->stack->n,
				 ret_stack);
	profile->ledger.samples++;
	profile->ledger.whole += whole;
	return err;
}

/* The wall time of a sample is all that went by since the thread's last row, so that the sum over a thread's rows
 * is exactly the time that it lived in the session. Whatever can fail has to happen before thread->last moves. */
int profile__sample(struct profile *profile, const struct sample *sample)
{
	const struct record_header *header = &sample->record->header;
	struct process *process = life__process(profile, header);
	struct thread *thread = NULL;
	struct item item;
	uint64_t number;
	int err = 0;

	if (process && !process->ended)
		thread = life__thread(profile, process, header);
	if (!process || (!process->ended && !thread))
		return -ENOMEM;
	if (!thread || thread->end_queued) {
		/* A thread may wait for a CPU between its exit's record and its last instruction. */
		profile->ledger.own[LOSS_THREAD_ENDED]++;
		return 0;
	}
	if (sample->record->flags & SAMPLE_OFF_CPU && profile->wall)
		return waits__keep(profile, thread, sample);
	if (profile__full(profile))
		err = profile__rotate(profile, header->time);
	if (sample->record->flags & SAMPLE_OFF_CPU)
		return err ?: waits__asleep(profile, thread, sample);
	err = err ?: waits__found(profile, thread, header->time);
	err = err ?: waits__woke(profile, thread, sample);
	/* What may fail comes first; from cpu__seen() on the time line of the thread changes. */
	item = (struct item){.thread = thread, .waits = true, .of_cpu = sample->record->flags & SAMPLE_OF_CPU};
	if (!err)
		err = unfinished__read(profile, sample, &item);
	if (err)
		return err;
	cpu__seen(profile, thread, sample->record->cpu_time, header->time > thread->last ? header->time : thread->last);
	if (profile->wall)
		err = waits__unrecorded(profile, thread, header->time);
	if (err) {
		free(item.unfinished);
		return err;
	}
	item.row.time = header->time > thread->last ? header->time : thread->last;
	item.row.wall = item.row.time - thread->last;
	life__lasts(thread, item.row.time);
	thread->samples++;
	if (profile->wall && !(sample->record->flags & SAMPLE_EXITING)) /* no waits of exiting threads are reported */
		waits__ran(thread, &item);
	if (sample->record->flags & SAMPLE_GIL)
		waits__held(thread, header->time);
	err = workers__give(profile, sample, &item);
	err = err ?: profile__push(profile, &item, &number);
	if (err)
		free(item.unfinished);
	else if (item.waits)
		cpu__wait(profile, thread, number);
	return err;
}
