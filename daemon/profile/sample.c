/* A sample record: its thread, its place in the stack tree, its wall time. */
#include <errno.h>
#include <stdlib.h>

#include "collect/collect.h"
#include "profile/internal.h"

bool profile__full(const struct profile *profile)
{
	return profile->tables.n_stacks >= profile->options.stacks_max ||
	       tables__bytes(&profile->tables) >= profile->options.bytes_max ||
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

/* How many outermost frames are those of the thread's previous stack. */
static uint32_t memo__common(const struct memo *memo, uint32_t base, const struct py_frame *frames,
			     uint32_t n)
{
	uint32_t most = n < memo->n ? n : memo->n, i;

	if (memo->base != base)
		return 0;
	for (i = 0; i < most; i++)
		if (frames[n - 1 - i].code != memo->frames[i].code ||
		    frames[n - 1 - i].offset != memo->frames[i].offset)
			break;
	return i;
}

/* The node of n frames (innermost first) on top of `base`. */
static int find_stack(struct profile *profile, struct memo *memo, uint32_t base,
		      const struct py_frame *frames, uint32_t n, uint32_t *ret)
{
	uint32_t keep = n < MEMO_DEPTH ? n : MEMO_DEPTH;
	uint32_t i = memo__common(memo, base, frames, n);
	uint32_t stack = i ? memo->frames[i - 1].stack : base, frame;
	bool remember = memo__reserve(memo, &profile->tasks, keep), clean;
	int err;

	memo->n = i;
	memo->base = base;
	for (; i < n; i++) {
		const struct py_frame *at = &frames[n - 1 - i];

		err = tables__frame(&profile->tables, at->code, at->offset, &frame, &clean);
		if (!err && !tables__is_shim(&profile->tables, frame))
			err = tables__stack(&profile->tables, stack, frame, &stack);
		if (err)
			return err;
		/* A frame that lacks something is counted each time that it is met. */
		remember = remember && clean && i < keep;
		if (remember)
			memo->frames[memo->n++] = (struct memo_frame){at->code, at->offset, stack};
	}
	*ret = stack;
	return 0;
}

static int note(struct profile *profile, enum note note, uint32_t *stack)
{
	uint32_t frame;
	int err = tables__note(&profile->tables, note, &frame);

	return err ? err : tables__stack(&profile->tables, *stack, frame, stack);
}

static int place(struct profile *profile, struct thread *thread, const struct record_sample *sample,
		 uint32_t *ret_stack)
{
	const struct part_py_frames *part = (const void *)record__part(sample, PART_PY_FRAMES);
	uint16_t loss = sample->loss ? sample->loss : part ? part->part.loss : 0;
	struct ledger *ledger = &profile->ledger;
	uint32_t n = part ? part->n : 0;
	int err = 0;

	*ret_stack = 0;
	if (loss)
		err = note(profile, NOTE_CUT + loss, ret_stack);
	else if (!n)
		err = note(profile,
			   sample->flags & SAMPLE_NO_PYTHON ? NOTE_NO_PYTHON : NOTE_NO_FRAME,
			   ret_stack);
	if (!err && n)
		err = find_stack(profile, &thread->memo, *ret_stack, part->frames, n, ret_stack);
	ledger->samples++;
	ledger->whole += !loss;
	if (loss)
		ledger->shown[loss]++;
	return err;
}

int profile__sample(struct profile *profile, const struct record_sample *sample)
{
	const struct record_header *header = &sample->header;
	struct process *process = life__process(profile, header);
	struct item item = {.waits = true};
	struct thread *thread = NULL;
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
	if (profile__full(profile))
		err = profile__rotate(profile, header->time);
	if (!err)
		err = place(profile, thread, sample, &item.row.stack);
	if (err)
		return err;
	item.thread = thread;
	item.row.time = header->time > thread->last ? header->time : thread->last;
	item.row.wall = item.row.time - thread->last;
	thread->last = item.row.time;
	if (thread->ending && thread->end_time < thread->last)
		thread->end_time = thread->last;
	thread->samples++;
	cpu__seen(profile, thread, sample->cpu_time, thread->last);
	err = profile__push(profile, &item, &number);
	if (!err)
		cpu__wait(profile, thread, number);
	return err;
}
