/* SPDX-License-Identifier: MIT */
/* A chain of frames, outwards. Of the walker of ../pywalk.h. */
#pragma once

#include "frame.h"
#include "tstate.h"

/* Frames that need one check: not the innermost, they lie in the window, their code was proven lately, and no
 * native code begins there that has to be checked. It calls nothing, so that all it works with stays in registers, and leaves
 * every other frame to py_walk_warm. */
HOST_INLINE void py_walk_hot(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_layout *l = &image->layout;
	const __u64 proven = walk->proven, window = walk->window, end = walk->window_end;
	const __u32 in_back = l->frame_back & 127, in_code = l->frame_code & 127, in_lasti = l->frame_lasti & 127,
		    in_globals = l->frame_globals & 127,
		    to_bytecode = l->code_instructions;
	/* What marks a boundary to native code: 3.11's is_entry, or the owner of a shim. */
	const int entry = l->frame_is_entry != PY_ABSENT;
	const __u32 in_boundary = (entry ? l->frame_is_entry : l->frame_owner) & 127,
		    first = entry ? 1 : l->owner_native_first;
	/* Of what the first entry frame must go back to (tstate.h): */
	enum { CHECKED = 1, NOT_READ = 2 };
	const __u64 entered_from = !entry || (walk->caller && !walk->linked) ? NOT_READ : walk->caller ? walk->linked : CHECKED;
	__u64 frame = walk->frame, code, back, at;
	__u32 round, flags = 0, n = walk->n, start = n;
	const struct py_recent *recent;
	struct py_frame *to;
	const __u8 *raw;
	__u64 *place;

	if (n > RECORD_PY_FRAMES_MAX - PY_ROUND)
		return;
	/* What was compared may be another copy of n: 6.1's verifier knows no bound of this one. */
	host_barrier(start);
	start &= RECORD_PY_FRAMES_MAX - 1;
	to = &out->frames[start];
	place = &walk->places[start];
	/* In memory: of what is in a register the verifier knows the value, and goes through all that follows once for each. */
	walk->entered_from = entered_from;
	HOST_NO_UNROLL
	for (round = 0; round < PY_ROUND; round++) {
		at = frame - window;
		if (at >= end || at > PY_AT_MAX)
			break;
		raw = walk->memory + at;
		code = *(const py_word64 *)(raw + in_code) & ~7ull; /* a stack reference's tag */
		/* The slots by place: the codes of the last walk are there for the most part, in a row, and
		 * touch few lines of cache. */
		recent = (const void *)((const __u8 *)walk->recent + (frame >> 2 & (PY_RECENT - 1) * sizeof(*recent)));
		if (recent->word != (py_code_of(code, *(const py_word64 *)(raw + in_globals)) ^ proven))
			break;
		back = *(const py_word64 *)(raw + in_back);
		flags = 0;
		if (raw[in_boundary] >= first) {
			if (walk->entered_from != back && walk->entered_from != CHECKED)
				break;
			walk->entered_from = CHECKED;
			flags = PY_FRAME_ENTRY;
		}
		to->code = recent->key;
		to->offset = (__s32)(*(const py_word64 *)(raw + in_lasti) - code - to_bytecode);
		to->flags = flags;
		*place = frame;
		frame = back;
		/* Pointers that move: as indices each would be bounded and added again. */
		to++;
		place++;
		host_barrier(to);
		host_barrier(place);
	}
	if (!round)
		return;
	walk->frame = frame;
	walk->n = n + round;
	walk->closed = to[-1].flags & PY_FRAME_ENTRY;
	if (walk->entered_from == CHECKED)
		walk->caller = 0;
}

/* What py_walk_warm says: WARM_MORE, or WARM_ENDED after the last frame, or WARM_OTHER at one that py_walk_one has to take. */
enum py_warm { WARM_MORE, WARM_ENDED, WARM_OTHER };

/* 3.12+: is there a shim at `frame` in what was read of the C stack? Then *ret_back is its `previous`. */
HOST_INLINE int py_shim_there(const struct py_layout *l, __u64 frame, __u64 *ret_back)
{
	const struct host_window *stack = l->owner_native_first ? py_stack() : NULL;
	__u64 at, owner;

	if (!stack)
		return 0;
	at = frame - stack->at;
	if (at & 7 || at >= stack->size || stack->size - at < l->frame_size)
		return 0;
	owner = stack->words[((at + l->frame_owner) / 8) & (HOST_WINDOW / 8 - 1)];
	*ret_back = stack->words[((at + l->frame_back) / 8) & (HOST_WINDOW / 8 - 1)];
	return (__u8)(owner >> (l->frame_owner & 7) * 8) >= l->owner_native_first;
}

/* A frame where native code entered the interpreter: does its eval loop go back to what its caller runs? */
HOST_INLINE int py_warm_linked(struct py_walk *walk, const struct py_layout *l, __u64 back)
{
	__u64 linked = walk->linked;

	if (!walk->caller)
		return 1;
	if ((!linked && host_read(&linked, sizeof(linked), walk->caller + l->cframe_current_frame)) || linked != back)
		return 0;
	walk->caller = 0;
	return 1;
}

HOST_INLINE enum py_warm py_warm_shim(struct py_walk *walk, const struct py_layout *l, struct py_out *out, __u64 back)
{
	/* A shim without a frame is counted by py_walk_one. */
	if (!py_warm_linked(walk, l, back) || walk->closed || !walk->n)
		return WARM_OTHER;
	py_put_entry(out, walk->n);
	walk->closed = 1;
	walk->shim = walk->frame;
	walk->frame = back;
	return WARM_MORE;
}

/* One frame that is a little more than usual. */
HOST_INLINE enum py_warm py_walk_warm(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_layout *l = &image->layout;
	const int entry = l->frame_is_entry != PY_ABSENT;
	__u64 frame = walk->frame, place, code, code_of, globals, back, key, offset, flags = 0;
	const struct py_recent *recent;
	__u32 n = walk->n, to;
	const __u8 *raw;

	if (!frame)
		return walk->closed && n ? WARM_ENDED : WARM_OTHER;
	/* Alone in memory: a generator's or a shim. The innermost one needs more checks. */
	if (!n && frame - walk->window >= walk->window_end && frame - walk->chunk >= walk->top - walk->chunk)
		return WARM_OTHER;
	place = frame - walk->window;
	if (place >= walk->window_end) {
		if (py_shim_there(l, frame, &back))
			return py_warm_shim(walk, l, out, back);
		place = py_frame_fetch(walk, image, frame);
	}
	if (place > PY_AT_MAX)
		return WARM_OTHER;
	raw = walk->memory + place;
	back = *(const py_word64 *)(raw + (l->frame_back & 127));
	if (raw[(entry ? l->frame_is_entry : l->frame_owner) & 127] >= (entry ? 1 : l->owner_native_first)) {
		if (!entry)
			return py_warm_shim(walk, l, out, back);
		if (!py_warm_linked(walk, l, back))
			return WARM_OTHER;
		flags = PY_FRAME_ENTRY;
	}
	code = *(const py_word64 *)(raw + (l->frame_code & 127)) & ~7ull;
	globals = *(const py_word64 *)(raw + (l->frame_globals & 127));
	code_of = py_code_of(code, globals);
	recent = &walk->recent[frame >> 6 & (PY_RECENT - 1)];
	key = recent->word == (code_of ^ walk->proven) ? recent->key : py_code_known(walk, frame, code_of);
	/* Whether the innermost one has begun is seen by more than its code. */
	if (!key && n) {
		key = py_code_key(walk, image, code, globals);
		if (!key)
			walk->loss = 0; /* py_walk_one says it */
	}
	offset = *(const py_word64 *)(raw + (l->frame_lasti & 127)) - code - l->code_instructions;
	if (!key || n >= RECORD_PY_FRAMES_MAX || ((__s32)offset < 0 && !n && !flags)) /* py_calls */
		return WARM_OTHER;
	to = n; /* as in py_walk_hot */
	host_barrier(to);
	to &= RECORD_PY_FRAMES_MAX - 1;
	out->frames[to].code = key;
	out->frames[to].place = (__u32)offset | flags << 32;
	walk->places[to] = frame;
	walk->closed = (__u8)flags;
	walk->n = n + 1;
	walk->frame = back;
	return WARM_MORE;
}

/* A frame that is a little more than usual, and the usual ones after it. Apart: what it keeps on the stack is not below
 * py_walk_one's. */
HOST_APART int py_walk_usual(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	enum py_warm warm;

	if (!walk || !image || !out)
		return WARM_OTHER;
	warm = py_walk_warm(walk, image, out);
	if (warm == WARM_MORE)
		py_walk_hot(walk, image, out);
	return warm;
}

HOST_LOOP_FN long py_walk_round(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	const struct image *image = c->image;
	int warm = WARM_OTHER, ended;

	/* The first frame of a further thread state is marked so by py_walk_one. */
	if (image->layout.frames != PY_FRAMES_OBJECTS && !(image->layout.flags & PY_TLBC) && !c->walk->flags)
		warm = py_walk_usual(c->walk, image, c->out);
	if (warm == WARM_OTHER)
		return py_walk_one(c->walk, image, c->out) & 1;
	/* Looked at here, where the verifier comes once, and not at each end of the loop. The barrier: else clang 19 returns
	 * `warm` itself where it is 1, and 6.1 knows no bound of it. */
	ended = warm == WARM_ENDED || (!c->walk->frame && c->walk->closed && c->walk->n);
	host_barrier(ended);
	return ended & 1;
}

/* Walks one chain outwards to its end: of the innermost thread state, once it is found (PY_WALK_FIRST), of
 * tstates[which], or from walk->frame on (PY_WALK_ON). */
#define PY_WALK_FIRST (PY_TSTATES_MAX + 0u)
#define PY_WALK_ON (PY_TSTATES_MAX + 1u)
HOST_APART int py_walk_chain(struct py_walk *walk, const struct image *image, struct py_out *out, __u32 which)
{
	struct py_walk_context c = {.walk = walk, .image = image, .out = out};
	const struct py_tstate *t;

	if (!walk || !image || !out)
		return 0;
	if (which != PY_WALK_ON)
		walk->called = walk->at_root = 0;
	if (which == PY_WALK_FIRST) {
		py_find_tstates(walk, image);
		walk->which = walk->first;
		if (!walk->n_tstates || walk->loss)
			return 0;
		which = walk->first;
	}
	if (which < PY_TSTATES_MAX) {
		t = &walk->tstates[which];
		walk->which = which;
		walk->frame = t->frame;
		walk->chunk = t->chunk;
		walk->top = t->top;
		walk->caller = t->caller;
		walk->linked = t->linked;
		walk->closed = 1;
		walk->flags = walk->n ? PY_FRAME_TSTATE : 0;
		py_window(walk, &image->layout, walk->frame);
	}
	/* Most stacks end within two rounds, and a call is cheaper than the loop. */
	if (!py_walk_round(0, &c) && !py_walk_round(1, &c))
		host_loop(2 * RECORD_PY_FRAMES_MAX, py_walk_round, &c);
	py_loops_outside(walk, &image->layout, out);
	if (walk->frame && !walk->loss)
		walk->loss = LOSS_FRAME_CYCLE;
	return 0;
}

/* The chains of the other thread states, in order; after a repair those that are left. */
HOST_INLINE void py_walk_others(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	__u32 i;

	for (i = 0; i < PY_TSTATES_MAX; i++)
		if (i < walk->n_tstates && i != walk->first && (walk->which == walk->first || i > walk->which) && !walk->loss)
			py_walk_chain(walk, image, out, i);
}

/* 3.11, 3.12: a _PyCFrame lies on the C stack. If greenlet overwrites that, one of another greenlet's may lie there, which leads to a frame of that
 * one's data stack, or anything else, so that the walk went back to a caller (py_uncall). */
HOST_INLINE void py_walk_end(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_tstate *t = &walk->tstates[walk->first & (PY_TSTATES_MAX - 1)];

	if (image->layout.frames == PY_FRAMES_CFRAME && walk->n && (walk->places[0] != t->frame || t->frame - t->chunk >= t->top - t->chunk))
		out->frames[0].flags |= PY_FRAME_UNSURE;
}
