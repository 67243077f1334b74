/* SPDX-License-Identifier: MIT */
/* Reads all thread states of a process at once, sorted by thread, for callers that walk many threads.
 *
 *    _PyRuntime.interpreters.head -> interpreter -> threads.head -> tstate -> next ... -> next interpreter
 *
 * A thread has several states if it runs subinterpreters. New ones come at the head of their list, so the first of a
 * thread is the inner one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "cprofd/py/state.h"
#include "base/search.h"
#include "python/walk.h"

#define TRIES 3u /* if a thread ends while the list is followed, its `next` may lead nowhere: start again */

static uint64_t word(const uint8_t *raw, uint32_t at)
{
	uint64_t value = 0;

	if (at <= PY_RAW_TSTATE - sizeof(value))
		memcpy(&value, raw + at, sizeof(value));
	return value;
}

static int add(struct python_tstates *self, uint64_t thread_id, uint64_t address)
{
	struct python_tstate *to;

	if (self->n % 1024 == 0) {
		to = reallocarray(self->of, self->n + 1024, sizeof(*to));
		if (!to)
			return -ENOMEM;
		self->of = to;
	}
	self->of[self->n] = (struct python_tstate){.thread_id = thread_id, .address = address, .order = self->n};
	self->n++;
	return 0;
}

/* The thread states of one interpreter. Brent's algorithm detects a cycle, which a damaged or hostile list may have,
 * after at most twice its length. */
static int read_list(struct host_reader *memory, const struct py_layout *l, uint64_t at, struct python_tstates *self)
{
	uint64_t before = 0;
	uint32_t steps = 0, again = 1;
	uint8_t raw[PY_RAW_TSTATE];
	int err = 0;

	while (at && !err && !self->loss) {
		if (self->n >= PY_THREADS_MAX || at == before) {
			self->loss = LOSS_TSTATE_SEARCH;
			break;
		}
		if (steps++ == again) {
			before = at;
			again *= 2;
			steps = 0;
		}
		if (memory->read(memory, raw, sizeof(raw), at)) {
			self->loss = LOSS_TSTATE_READ;
			break;
		}
		err = add(self, word(raw, l->tstate_thread_id), at);
		at = word(raw, l->tstate_next);
	}
	return err;
}

static int read_lists(struct host_reader *memory, const struct image *image, struct python_tstates *self)
{
	const struct py_layout *l = &image->layout;
	uint64_t interp = 0, head = 0;
	int err = 0;

	if (memory->read(memory, &interp, sizeof(interp), image->runtime + l->interpreters_head))
		self->loss = LOSS_TSTATE_READ;
	for (uint32_t i = 0; interp && i < PY_INTERPRETERS_MAX && !err && !self->loss; i++) {
		if (memory->read(memory, &head, sizeof(head), interp + l->threads_head)) {
			self->loss = LOSS_TSTATE_READ;
			break;
		}
		err = read_list(memory, l, head, self);
		if (memory->read(memory, &interp, sizeof(interp), interp + l->interp_next))
			break;
	}
	return err;
}

static int in_order(const void *a, const void *b)
{
	const struct python_tstate *x = a, *y = b;

	return ORDER(x->thread_id, y->thread_id) ?: ORDER(x->order, y->order);
}

int python_tstates__read(struct host_reader *memory, const struct image *image, struct python_tstates *ret)
{
	int err = 0;

	*ret = (struct python_tstates){};
	for (uint32_t i = 0; i < TRIES && !err; i++) {
		ret->n = 0;
		ret->loss = 0;
		if (image->runtime)
			err = read_lists(memory, image, ret);
		if (ret->loss != LOSS_TSTATE_READ)
			break;
	}
	if (err)
		python_tstates__free(ret);
	else if (ret->n)
		qsort(ret->of, ret->n, sizeof(*ret->of), in_order);
	return err;
}

void python_tstates__free(struct python_tstates *self)
{
	free(self->of);
	*self = (struct python_tstates){};
}

const struct python_tstate *python_tstates__find(const struct python_tstates *self, uint64_t thread_id, uint32_t *ret_n)
{
	uint32_t low = SEARCH(i, self->n, self->of[i].thread_id < thread_id), n = 0;

	while (low + n < self->n && self->of[low + n].thread_id == thread_id)
		n++;
	*ret_n = n;
	return n ? &self->of[low] : NULL;
}
