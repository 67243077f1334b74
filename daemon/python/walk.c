/* SPDX-License-Identifier: MIT */
/* Walks Python frames in user space with the sampler's walker (cprofd/pywalk.h), compiled for the host. The walker
 * stops at code objects that it has not seen; this file records their addresses and walks again, until all are known.
 * */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "python/codes.h"

/* The code objects that the current walk may take as known; main thread only. Must come before pywalk.h. */
static const struct python_codes *known;

static inline int py_seen(__u64 key)
{
	return python_codes__find(known, key) != 0;
}
#define PY_SEEN
#include "cprofd/pywalk.h"
#include "cprofd/py/value.h"

#include "base/clock.h"
#include "python/code.h"
#include "python/walk.h"

#define ROUNDS 256u            /* 64 new code objects each */
#define CODES_KEPT 8192u       /* known code objects of earlier processes are dropped above this */

/* `walk` and `out` are those of the last walk; they are large, so they are kept here and not on the stack. */
struct python_walker {
	struct host_reader *memory;
	struct image image;
	struct python_codes codes;
	struct py_walk walk;
	struct py_out out;
};

int python_walker__new(struct host_reader *memory, const struct image *image, struct python_walker **ret)
{
	struct python_walker *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->memory = memory;
	self->image = *image;
	*ret = self;
	return 0;
}

void python_walker__free(struct python_walker *self)
{
	if (self)
		python_codes__free(&self->codes);
	free(self);
}

/* --- frames --- */

/* The caller gets frames of its own: the walker's are overwritten by the next walk. */
static int copy(const struct py_frame *frames, uint32_t n, struct python_frames *ret)
{
	ret->n = n < RECORD_PY_FRAMES_MAX ? n : RECORD_PY_FRAMES_MAX;
	ret->frames = calloc(ret->n + 1, sizeof(*ret->frames));
	if (!ret->frames)
		return -ENOMEM;
	if (ret->n)
		memcpy(ret->frames, frames, ret->n * sizeof(*frames));
	return 0;
}

int python_walker__list(const struct python_walker *self, struct python_tstates *ret)
{
	return python_tstates__read(self->memory, &self->image, ret);
}

/* As py_walk(), but with the thread states that python_tstates__read() found. The one that runs (tstate_current) comes
 * first: its frames are the innermost. */
static void walk_known(struct python_walker *self, const struct python_tstates *tstates)
{
	struct py_walk *walk = &self->walk;
	const struct py_layout *l = &self->image.layout;
	__u64 current = 0;
	uint32_t n, i;
	const struct python_tstate *of = python_tstates__find(tstates, walk->thread_pointer, &n);

	py_walk_begin(walk);
	for (i = 0; i < n; i++)
		if (py_tstate_check(walk, &self->image, of[i].address))
			py_tstate_add(walk, &self->image, of[i].address);
	if (!n)
		walk->loss = tstates->loss;
	if (walk->n_tstates > 1 && l->tstate_current != ~0u)
		py_read64(walk, self->image.runtime + l->tstate_current, &current);
	for (i = 0; i < walk->n_tstates; i++)
		if (walk->tstates[i].address == current)
			walk->first = i;
	if (walk->n_tstates && !walk->loss)
		py_walk_chain(walk, &self->image, &self->out, walk->first);
	for (i = 0; i < walk->n_tstates && !walk->loss; i++)
		if (i != walk->first)
			py_walk_chain(walk, &self->image, &self->out, i);
}

/* Each round walks the whole stack with the code objects known so far; a walk that finds unknown ones lists them in
 * walk->todo. It ends when there are none, or after ROUNDS: a hostile stack may have more. host_reader_current is
 * what the walker's read_user() reads by, and is restored for who called us. */
int python_walker__walk(struct python_walker *self, const struct dump_thread *thread, const struct python_tstates *tstates, struct python_frames *ret)
{
	struct host_reader *before = host_reader_current;
	struct py_walk *walk = &self->walk;

	*ret = (struct python_frames){.no_python = true};
	if (!self->image.runtime)
		return copy(NULL, 0, ret);
	host_reader_current = self->memory;
	known = &self->codes;
	walk->thread_pointer = thread->thread_pointer;
	/* The same salt as in the kernel, so that keys are equal. */
	walk->salt = py_mix(thread->process_start, thread->tgid | (uint64_t)thread->exec << 32);
	for (unsigned round = 0; round < ROUNDS; round++) {
		walk->now = clock__now();
		walk->hint = walk->hint_until = 0;
		if (tstates)
			walk_known(self, tstates);
		else
			py_walk(walk, &self->image, &self->out);
		if (!walk->n_todo)
			break;
		for (uint32_t i = 0; i < walk->n_todo; i++)
			python_codes__add(&self->codes, walk->todo[i].key, walk->todo[i].code);
	}
	host_reader_current = before;
	ret->loss = walk->loss;
	ret->no_python = !walk->n_tstates;
	return copy(self->out.frames, walk->n, ret);
}

void python_walker__learn(struct python_walker *self, const struct dump_slot *slot)
{
	uint32_t n = slot->n_codes, i;

	for (i = 0; i < n && i < DUMP_CODES; i++)
		python_codes__add(&self->codes, slot->codes[i].key, slot->codes[i].code);
}

int python_walker__take(struct python_walker *self, const struct dump_slot *slot, struct python_frames *ret)
{
	python_walker__learn(self, slot);
	*ret = (struct python_frames){.loss = slot->loss < LOSS_COUNT ? slot->loss : LOSS_FRAME_READ,
				    .no_python = slot->no_python};
	return copy(slot->python.frames, slot->n_frames, ret);
}

void python_walker__locals(struct python_walker *self, uint32_t frame, const uint8_t slots[FRAME_VALUES_WORDS], struct frame_values *ret)
{
	struct host_reader *before = host_reader_current;
	uint64_t locals;

	*ret = (struct frame_values){.frame = (uint16_t)frame, .address = self->walk.places[frame]};
	memcpy(ret->slots, slots, sizeof(ret->slots));
	locals = ret->address + self->image.layout.frame_locals;
	host_reader_current = self->memory;
	for (; ret->n < FRAME_VALUES_WORDS && slots[ret->n] != VALUE_SLOT_NONE; ret->n++) {
		__u64 word = 0;

		if (values_word(&self->image, &word, locals + (slots[ret->n] & ~VALUE_SLOT_CELL) * 8, slots[ret->n]))
			ret->unread |= (uint8_t)(1u << ret->n);
		ret->words[ret->n] = word;
	}
	host_reader_current = before;
}

uint64_t python_walker__code(const struct python_walker *self, uint64_t key)
{
	return python_codes__find(&self->codes, key);
}

int python_walker__locate(const struct python_walker *self, const struct py_frame *frame, struct buf *ret_function, struct buf *ret_file,
			  uint32_t *ret_line)
{
	struct values values = {.memory = self->memory, .layout = &self->image.layout};
	uint64_t code = python_walker__code(self, frame->code);
	int err = 0;

	if (!code || python_code__name(&values, code, ret_function))
		err = buf__puts(ret_function, "?");
	if (!code || python_code__file(&values, code, ret_file))
		err = err ?: buf__puts(ret_file, "?");
	*ret_line = code ? python_code__line(&values, code, frame->offset) : 0;
	return err;
}
