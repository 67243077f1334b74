/* SPDX-License-Identifier: MIT */
/* The stack of a sample: Python frames alone, or woven with native ones, and its node in the tree. In: a checked
 * sample. On the way: profile->stack->steps, innermost first, each a code key with an offset (Python) or the id of a
 * frame row (everything else).
 *
 *    kernel frames (kernel.c)
 *    native frames -> find_locations(): id of a row, role, callable of each pc, by the cache
 *    weave()       -> order
 *    put_items()   -> steps; at each call from Python into native code, the callee (callee.c)
 *    find_stack()  -> frames -> node
 *
 * This runs for each sample, with some 50 frames each. So outer frames that are equal to
 * the previous sample's are taken over without a lookup (keep_outermost()), and lookups of the others are
 * prefetched. Two stacks in a row of one thread are most often equal but for their innermost frames: so each thread
 * has a memo, the steps of its last stack and the node of each, and only what differs is looked up in the tree. */
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "profile/internal.h"

void stack__clear(struct stack *stack)
{
	code_cache__clear(&stack->cache);
	stack->now = (struct code_now){};
}

static void put(struct stack *stack, uint64_t key, int32_t offset, bool is_frame)
{
	stack->steps[stack->n++] = (struct step){.key = key, .offset = offset, .is_frame = is_frame};
}

static int put_note(struct profile *profile, enum note note)
{
	uint32_t frame;
	int err = tables__note(&profile->tables, note, &frame);

	if (!err)
		put(profile->stack, frame, 0, true);
	return err;
}

/* --- native frames --- */

/* How many outermost frames of the n are the last sample's, which are moved to where they are of
 * this one. */
static uint32_t keep_outermost(struct stack *stack, const struct code_now *now, const struct part_native_frames *native)
{
	bool all = stack->now.all == now->all;
	uint32_t n = native->n, before = stack->n_pcs, most = n < before ? n : before, same = 0,
		 to, from;

	if (stack->now.stable != now->stable)
		return 0;
	while (same < most && native->pc[n - 1 - same] == stack->pcs[before - 1 - same] &&
	       (all || stack->stable[before - 1 - same]))
		same++;
	to = n - same;
	from = before - same;
	if (to != from) {
		memmove(&stack->frames[to], &stack->frames[from], same * sizeof(stack->frames[0]));
		memmove(&stack->roles[to], &stack->roles[from], same * sizeof(stack->roles[0]));
		memmove(&stack->stable[to], &stack->stable[from], same * sizeof(stack->stable[0]));
		memmove(&stack->callables[to], &stack->callables[from],
			same * sizeof(stack->callables[0]));
	}
	return same;
}

/* Lines of some rows came late: these addresses get other rows. */
static void drop_replaced(struct profile *profile)
{
	struct stack *stack = profile->stack;

	if (stack->replaced == profile->tables.replaced)
		return;
	stack->replaced = profile->tables.replaced;
	stack->now = (struct code_now){};
	code_cache__drop(&stack->cache, tables__is_replaced, &profile->tables);
}

/* Frame ids and roles of all native frames. */
static int find_locations(struct profile *profile, struct process *process, const struct record_header *header,
			  const struct part_native_frames *native)
{
	struct stack *stack = profile->stack;
	struct code_cache *cache = &stack->cache;
	const uint64_t space = (uintptr_t)process;
	const struct code_now now = code_cache__now(cache, &process->code, profile->options.codemap, &header->task, header->time);
	uint32_t i, end = native->n - keep_outermost(stack, &now, native);
	int err = 0;

	stack->now = (struct code_now){};
	for (i = 0; i < end; i++)
		code_cache__expect(cache, space, native->pc[i]);
	for (i = 0; i < end; i++) {
		const struct cached_location *known = code_cache__find(cache, space, &now, native->pc[i]);

		if (!known)
			err = code_cache__ask(cache, &profile->tables, space, header, &now, native->pc[i], &known);
		if (err)
			return err;
		stack->frames[i] = known->row;
		stack->roles[i] = known->role;
		stack->stable[i] = known->generation == now.stable;
		stack->callables[i] = known->callable;
	}
	memcpy(stack->pcs, native->pc, native->n * sizeof(stack->pcs[0]));
	stack->n_pcs = native->n;
	stack->now = now;
	return 0;
}

/* --- both --- */

static int put_callee(struct profile *profile, const char *name)
{
	uint32_t frame;
	int err = tables__callee(&profile->tables, name, &frame);

	if (!err)
		put(profile->stack, frame, 0, true);
	return err;
}

static bool collects(const struct stack *stack, uint32_t i)
{
	const struct callable *callable = stack->callables[stack->items[i].index];

	return callable && callable->kind == CALLABLE_COLLECTOR;
}

/* The outermost of the collector's functions: what it does is not what the code around it does. */
static bool is_collector(const struct stack *stack, uint32_t i, uint32_t end)
{
	return collects(stack, i) && (i + 1 == end || !collects(stack, i + 1));
}

/* Items [begin, end), innermost first: native frames that `frame` called. */
static int put_called(struct profile *profile, const struct record_header *header, const struct py_frame *frame,
		      uint32_t begin, uint32_t end)
{
	struct stack *stack = profile->stack;
	const char *outermost;
	int err = 0;

	callee__choose(profile, header, frame, begin, end, &outermost);
	for (uint32_t i = begin; !err && i < end; i++) {
		put(stack, stack->frames[stack->items[i].index], 0, true);
		if (stack->chosen[i - begin] || is_collector(stack, i, end))
			err = put_callee(profile, stack->chosen[i - begin] ? stack->chosen[i - begin] : CALLABLE_COLLECTOR_NAME);
	}
	return err || !outermost ? err : put_callee(profile, outermost);
}

/* `python_loss`, `native_loss`: what the notes say where frames are missing. */
static int put_items(struct profile *profile, const struct record_header *header, const struct weave_input *in,
		     const struct weave_result *woven, uint16_t python_loss, uint16_t native_loss)
{
	struct stack *stack = profile->stack;
	uint32_t i, end;
	int err = 0;

	for (i = 0; !err && i < woven->n; i++) {
		const struct weave_item *item = &stack->items[i];

		switch (item->kind) {
		case WEAVE_PYTHON:
			/* The innermost one, called by a Python frame and no native one. */
			if (!i && woven->n > 1 && stack->items[1].kind == WEAVE_PYTHON)
				sites__calls_python(profile, &in->python[stack->items[1].index]);
			put(stack, in->python[item->index].code, in->python[item->index].offset,
			    false);
			break;
		case WEAVE_NATIVE:
			for (end = i; end < woven->n && stack->items[end].kind == WEAVE_NATIVE; end++)
				;
			if (end < woven->n && stack->items[end].kind == WEAVE_PYTHON) {
				err = put_called(profile, header, &in->python[stack->items[end].index], i, end);
				i = end - 1;
			} else {
				put(stack, stack->frames[item->index], 0, true);
			}
			break;
		case WEAVE_CUT_PYTHON:
			err = put_note(profile, NOTE_CUT + python_loss);
			break;
		case WEAVE_CUT_NATIVE:
			if (native_loss) /* else no more was asked for */
				err = put_note(profile, NOTE_CUT + native_loss);
			break;
		case WEAVE_LEFT_OUT:
			err = put_note(profile, NOTE_CUT + woven->loss);
			break;
		}
	}
	return err;
}

/* `loss`: of the Python frames. */
static void count_loss(struct ledger *ledger, const struct sample *sample, uint16_t loss, bool *ret_whole)
{
	bool off = sample->record->flags & SAMPLE_OFF_CPU; /* the sampler's count of it is excused */

	if (loss)
		(off ? ledger->own : ledger->shown)[loss]++;
	*ret_whole = *ret_whole && !loss;
}

/* Limits what is woven to what belongs together if the thread runs greenlets, and takes back losses that are none: a greenlet's stack
 * is whole where its own part ends, and while one is left for another all its Python frames are linked. `again`: user space walked the
 * native frames, so the sampler has not counted what is lost now. */
static void limit(struct profile *profile, const struct sample *sample, bool again, struct weave_input *in, uint16_t *loss,
		  uint16_t *native_loss)
{
	bool off = sample->record->flags & SAMPLE_OFF_CPU;
	uint32_t n_python = in->n_python;
	enum weave_greenlet greenlet = weave__greenlet(in);

	if (greenlet == WEAVE_NO_GREENLET)
		return;
	if (*native_loss && !again && !off)
		profile__excuse(profile, *native_loss, 1);
	*native_loss = 0;
	if (greenlet != WEAVE_SWITCHES)
		return;
	profile->ledger.own[LOSS_SWITCHING] += n_python != 0;
	if (*loss == LOSS_FRAME_HALF && n_python) {
		if (!off)
			profile__excuse(profile, *loss, 1);
		*loss = 0;
		in->python_whole = true;
	}
}

/* Losses: python (`loss`) and native (`native_loss`) ends are counted by kind, once each. */
static int read_woven(struct profile *profile, struct process *process,
		      const struct sample *sample, const struct part_py_frames *python,
		      const struct part_native_frames *native, bool again, uint16_t loss,
		      bool *ret_whole)
{
	struct codemap *codemap = profile->options.codemap;
	struct stack *stack = profile->stack;
	struct ledger *ledger = &profile->ledger;
	uint16_t native_loss = native->part.loss;
	bool off = sample->record->flags & SAMPLE_OFF_CPU;
	int eval = codemap__eval_known(codemap, &sample->record->header.task, sample->record->header.time);
	struct weave_input in = {
		.python = python ? python->frames : NULL,
		.n_python = python ? python->n : 0,
		.native = stack->roles,
		.n_native = native->n,
		.python_whole = !loss,
		.native_whole = native->flags & NATIVE_WHOLE,
		.eval_known = eval > 0,
	};
	struct weave_result woven;
	int err = find_locations(profile, process, &sample->record->header, native);

	if (err)
		return err;
	limit(profile, sample, again, &in, &loss, &native_loss);
	count_loss(ledger, sample, loss, ret_whole);
	weave(&in, stack->items, &woven);
	if (eval == -EAGAIN && woven.loss == LOSS_WEAVE_NO_EVAL)
		woven.loss = LOSS_NATIVE_PENDING;
	*ret_whole = *ret_whole && !native_loss && !woven.loss;
	if (native_loss && native_loss != loss)
		(again || off ? ledger->own : ledger->shown)[native_loss]++;
	stops__count(&ledger->stops, codemap, stack->now.all, &sample->record->header, native, in.native_whole, native_loss);
	if (woven.loss && woven.loss != native_loss)
		ledger->own[woven.loss]++;
	ledger->own[LOSS_WEAVE_GUESS] += woven.guess;
	return put_items(profile, &sample->record->header, &in, &woven, loss, native_loss);
}

static int read_steps(struct profile *profile, struct process *process,
		      const struct sample *sample, const struct part_native_frames *native,
		      bool again, bool *ret_whole)
{
	const struct part_py_frames *python = sample->python;
	uint16_t loss = sample->record->loss ? sample->record->loss : python ? python->part.loss : 0;
	uint32_t n = python ? python->n : 0, i;
	int err;

	profile->stack->n = 0;
	*ret_whole = true;
	err = kernel__put(profile, sample, ret_whole);
	if (err)
		return err;
	drop_replaced(profile);
	if (native && profile->options.codemap && (native->n || native->part.loss))
		return read_woven(profile, process, sample, python, native, again, loss, ret_whole);
	count_loss(&profile->ledger, sample, loss, ret_whole);
	for (i = 0; i < n; i++)
		put(profile->stack, python->frames[i].code, python->frames[i].offset, false);
	if (loss)
		return put_note(profile, NOTE_CUT + loss);
	if (!n)
		return put_note(profile,
				sample->record->flags & SAMPLE_EXITING	   ? NOTE_EXITING
				: sample->record->flags & SAMPLE_NO_PYTHON ? NOTE_NO_PYTHON
								   : NOTE_NO_FRAME);
	return 0;
}

/* --- the node --- */

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

	*ret_shown = 0;
	for (; i < n; i++) {
		struct step *step = &steps[n - 1 - i];

		frame = (uint32_t)step->key;
		step->clean = step->shown = true;
		if (!step->is_frame) {
			int err = tables__frame(&profile->tables, step->key, step->offset, &frame, &step->clean);

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

int stack__locate(struct profile *profile, struct thread *thread, const struct sample *sample,
		  const struct part_native_frames *native, bool again, uint32_t *ret_stack)
{
	bool whole;
	int err = read_steps(profile, thread->process, sample, native, again, &whole);

	err = err ?: find_stack(profile, &thread->memo, profile->stack->steps, profile->stack->n,
				ret_stack);
	/* A thread that fell asleep in a session of CPU time had no tick. */
	if (profile->wall || !(sample->record->flags & SAMPLE_OFF_CPU)) {
		profile->ledger.samples++;
		profile->ledger.whole += whole;
	}
	return err;
}
