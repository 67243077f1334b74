/* SPDX-License-Identifier: MIT */
/* From the thread register to the thread states of the OS thread. Of the walker of ../pywalk.h. */
#pragma once

#include "state.h"

/* Where the thread state at this address is read to: at an address that is the same modulo 64. A copy that begins 8 bytes further
 * into its page than the source takes ten times as long. */
HOST_INLINE __u8 *py_raw(struct py_walk *walk, __u64 tstate)
{
	__u32 at = (__u32)tstate & 63;

	host_barrier(at);
	return walk->raw + (at & 63);
}

/* Does the thread state found before still serve? Reads it. One that was freed has lost its
 * frames (PyThreadState_Clear), so only one with a frame is taken without a search. */
HOST_INLINE int py_tstate_check(struct py_walk *walk, const struct image *image, __u64 tstate)
{
	const struct py_layout *l = &image->layout;
	__u8 *raw = py_raw(walk, tstate);

	if (py_read_object(raw, PY_RAW_TSTATE, tstate))
		return 0;
	return py_u64(raw, PY_RAW_TSTATE, l->tstate_thread_id) == walk->thread_pointer;
}

/* What the _PyCFrame at `front` runs, its caller's, and what that one runs, into walk->frame, caller and linked, out of what was read of
 * the C stack: 0 if it is not there. */
HOST_INLINE int py_cframe_there(struct py_walk *walk, __u64 front, __u32 in_frame)
{
	const struct host_window *stack = py_stack();
	__u64 at;

	if (!stack)
		return 0;
	at = front + in_frame - stack->at;
	if (at & 7 || at >= stack->size || stack->size - at < 16)
		return 0;
	walk->frame = stack->words[(at / 8) & (HOST_WINDOW / 8 - 1)];
	walk->caller = stack->words[(at / 8 + 1) & (HOST_WINDOW / 8 - 1)];
	walk->linked = 0;
	at = walk->caller + in_frame - stack->at;
	if (walk->caller && !(at & 7) && at < stack->size && stack->size - at >= 8)
		walk->linked = stack->words[(at / 8) & (HOST_WINDOW / 8 - 1)];
	return 1;
}

/* Takes the thread state that was read. */
HOST_INLINE void py_tstate_add(struct py_walk *walk, const struct image *image, __u64 tstate)
{
	const struct py_layout *l = &image->layout;
	const __u8 *raw = py_raw(walk, tstate);
	__u64 frame = py_u64(raw, PY_RAW_TSTATE, l->tstate_frame);
	__u64 front = frame, caller = 0, linked = 0;
	__u32 i = walk->n_tstates, apart;
	struct py_tstate *t;

	if (i >= PY_TSTATES_MAX)
		return;
	if (l->frames == PY_FRAMES_CFRAME && frame && py_cframe_there(walk, front, l->cframe_current_frame)) {
		frame = walk->frame;
		caller = walk->caller;
		linked = walk->linked;
	} else if (l->frames == PY_FRAMES_CFRAME && frame) {
		/* current_frame and previous; with those of the caller's, if it lies where it did and near. */
		apart = walk->hint_cframe == front ? walk->hint_caller - front : 0;
		host_barrier(apart);
		if (apart > PY_CFRAMES - 16)
			apart = 0;
		if (host_read(walk->cframes, apart + 16, frame + l->cframe_current_frame)) {
			walk->fault = frame;
			walk->loss = LOSS_TSTATE_READ;
			return;
		}
		frame = *(const py_word64 *)walk->cframes;
		caller = *(const py_word64 *)(walk->cframes + 8);
		if (apart && caller == front + apart)
			linked = *(const py_word64 *)(walk->cframes + apart);
	}
	/* Only the root has no predecessor, and it runs nothing: what lies here was there before. */
	if (l->frames == PY_FRAMES_CFRAME && frame && !caller)
		walk->loss = LOSS_FRAME_HALF;
	t = &walk->tstates[i];
	t->address = tstate;
	t->frame = frame;
	t->cframe = front;
	t->caller = caller;
	t->linked = linked;
	t->chunk = py_u64(raw, PY_RAW_TSTATE, l->tstate_datastack_chunk);
	t->top = py_u64(raw, PY_RAW_TSTATE, l->tstate_datastack_chunk + 8);
	walk->n_tstates = i + 1;
}

HOST_LOOP_FN long py_search_thread(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const struct image *image = c->image;
	const struct py_layout *l = &image->layout;
	__u8 *raw = py_raw(walk, walk->candidate);

	if (!walk->candidate)
		return 1;
	if (py_read_object(raw, PY_RAW_TSTATE, walk->candidate)) {
		walk->fault = walk->candidate;
		walk->loss = LOSS_TSTATE_READ;
		walk->candidate = 0;
		return 1;
	}
	if (py_u64(raw, PY_RAW_TSTATE, l->tstate_thread_id) == walk->thread_pointer)
		py_tstate_add(walk, image, walk->candidate);
	walk->candidate = py_u64(raw, PY_RAW_TSTATE, l->tstate_next);
	return 0;
}

HOST_LOOP_FN long py_search_interpreter(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const struct py_layout *l = &c->image->layout;
	long searched;

	if (!walk->interp)
		return 1;
	if (py_read64(walk, walk->interp + l->threads_head, &walk->candidate)) {
		walk->loss = LOSS_TSTATE_READ;
		return 1;
	}
	/* The bound is one for all interpreters: a target that links its lists into rings costs it once. */
	searched = host_loop(PY_THREADS_MAX - walk->searched, py_search_thread, context);
	if (searched > 0 && searched <= PY_THREADS_MAX)
		walk->searched += searched;
	if (walk->candidate && !walk->loss)
		walk->loss = LOSS_TSTATE_SEARCH;
	if (walk->loss)
		return 1;
	if (py_read64(walk, walk->interp + l->interp_next, &walk->interp))
		return 1;
	return 0;
}

/* All thread states of this OS thread, the active one first. */
HOST_INLINE void py_search_tstates(struct py_walk_context *c, __u64 head)
{
	struct py_walk *walk = c->walk;
	const struct py_layout *l = &c->image->layout;
	__u64 current = 0;
	__u32 i;

	walk->n_tstates = 0;
	walk->searched = 0;
	walk->interp = head;
	host_loop(PY_INTERPRETERS_MAX, py_search_interpreter, c);
	if (walk->n_tstates < 2 || l->tstate_current == ~0u ||
	    py_read64(walk, c->image->runtime + l->tstate_current, &current))
		return;
	/* The one that runs comes first; the lists have the newest first already, which is the inner
	 * one when an interpreter runs another. */
	for (i = 0; i < PY_TSTATES_MAX; i++)
		if (i < walk->n_tstates && walk->tstates[i].address == current)
			walk->first = i;
}

/* All thread states of this OS thread, by the interpreters' lists. */
HOST_APART int py_search(struct py_walk *walk, const struct image *image)
{
	struct py_walk_context c = {.walk = walk, .image = image};
	__u64 heads[2] = {}; /* interpreters.head, interpreters.main: the newest, the oldest */

	if (!walk || !image)
		return 0;
	walk->hint_until = 0;
	if (host_read(heads, sizeof(heads), image->runtime + image->layout.interpreters_head)) {
		walk->fault = image->runtime + image->layout.interpreters_head;
		walk->loss = LOSS_TSTATE_READ;
		return 0;
	}
	walk->several = heads[0] != heads[1];
	py_search_tstates(&c, heads[0]);
	if (heads[0] == heads[1] && walk->n_tstates == 1)
		walk->hint_until = walk->now + PY_HINT_NS;
	return 0;
}

/* May the thread have left its thread state, which was read, for one of an interpreter that is new? 3.12+ says which states are in use; one that is not
 * has released the GIL, most often, and there is still one interpreter. Before, only the lists of interpreters say so: a read in each sample. */
#define PY_STATUS_ACTIVE 0x10u
HOST_INLINE int py_is_elsewhere(struct py_walk *walk, const struct image *image)
{
	const struct py_layout *l = &image->layout;
	__u64 *heads = walk->words;

	if (l->tstate_status != PY_ABSENT && py_u32(py_raw(walk, walk->hint), PY_RAW_TSTATE, l->tstate_status) & PY_STATUS_ACTIVE)
		return 0;
	heads[0] = heads[1] = 0;
	return host_read(heads, 16, image->runtime + l->interpreters_head) || heads[0] != heads[1];
}

/* Finds the thread states of this OS thread. The usual case costs one read: one interpreter, and the
 * thread state found before. Whether there is one is checked every PY_HINT_NS. */
HOST_APART int py_find_tstates(struct py_walk *walk, const struct image *image)
{
	if (!walk || !image)
		return 0;
	if (walk->hint && walk->hint_until > walk->now && py_tstate_check(walk, image, walk->hint) && !py_is_elsewhere(walk, image)) {
		py_tstate_add(walk, image, walk->hint);
		if (walk->tstates[0].frame)
			return 0;
	}
	py_search(walk, image);
	return 0;
}
