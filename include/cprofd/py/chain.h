/* A chain of frames, outwards. Of the walker of ../pywalk.h. */
#ifndef CPROFD_PY_CHAIN_H
#define CPROFD_PY_CHAIN_H

#include "frame.h"
#include "tstate.h"

/* Usual frames, some of them: HOT_MORE, or HOT_ENDED after the last, or HOT_OTHER at one that py_walk_one has to
 * take. A return costs 10-20 ns where returns are hardened (SRSO), so a round takes more than one frame; it is a loop and not
 * unrolled, because at a low rate its code comes from far away, too. */
enum py_hot { HOT_MORE, HOT_ENDED, HOT_OTHER };
HOST_INLINE enum py_hot py_walk_hot(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_layout *l = &image->layout;
	const __u64 now = walk->now >> PY_UNTIL_SHIFT, salt = walk->salt;
	const __u32 in_back = l->frame_back & 127, in_code = l->frame_code & 127, in_lasti = l->frame_lasti & 127,
		    to_bytecode = l->code_instructions;
	/* What marks a boundary to native code: 3.11's is_entry, or the owner of a shim. */
	const int entry = l->frame_is_entry != PY_ABSENT;
	const __u32 in_mark = (entry ? l->frame_is_entry : l->frame_owner) & 127,
		    mark = entry ? 1 : l->owner_native_first;
	__u64 frame = walk->frame, place, code, back, key, linked;
	__u32 round, at, n, flags;
	const struct py_slot *recent;
	const __u8 *raw;
	__s32 offset;

	HOST_NO_UNROLL
	for (round = 0; round < PY_ROUND; round++) {
		n = walk->n; /* through memory: a bound that differs by path would double the verifier's work */
		walk->frame = frame;
		if (!frame)
			return walk->closed && n ? HOT_ENDED : HOT_OTHER;
		place = frame - walk->window;
		if (place < walk->window_end) {
			at = place;
		} else {
			/* Alone in memory: a generator's or a shim. The innermost one needs a closer look. */
			if (!n && frame - walk->chunk >= walk->top - walk->chunk)
				return HOT_OTHER;
			at = py_frame_fetch(walk, image, frame);
		}
		if (at > PY_WINDOW + PY_RAW_FRAME)
			return HOT_OTHER;
		raw = walk->memory + at;
		back = *(const py_word64 *)(raw + in_back);
		flags = 0;
		if (raw[in_mark] >= mark) {
			if (walk->caller) {
				linked = walk->linked;
				if ((!linked &&
				     host_read(&linked, sizeof(linked), walk->caller + l->cframe_current_frame)) ||
				    linked != back)
					return HOT_OTHER;
				walk->caller = 0;
			}
			if (!entry) {
				if (walk->closed || !n) /* a shim without a frame is counted there */
					return HOT_OTHER;
				if (n - 1 < RECORD_PY_FRAMES_MAX)
					out->frames[n - 1].flags |= PY_FRAME_ENTRY;
				walk->closed = 1;
				frame = back;
				continue;
			}
			flags = PY_FRAME_ENTRY;
		}
		code = *(const py_word64 *)(raw + in_code) & ~7ull;
		/* The slots by place come first: the codes of the last walk are there for the most part, in a
		 * row, and touch few lines of cache. */
		recent = &walk->recent[frame >> 6 & (PY_RECENT - 1)];
		if (py_slot_holds(recent, (code >> 4 ^ salt) & PY_TAG_MASK, now))
			key = recent->key;
		else
			key = py_code_known(walk, frame, code);
		if (!key || n >= RECORD_PY_FRAMES_MAX)
			return HOT_OTHER;
		offset = (__s32)(*(const py_word64 *)(raw + in_lasti) - code - to_bytecode);
		if (offset < 0) {
			if (entry && !n && !flags) /* py_stale_caller */
				return HOT_OTHER;
			flags |= PY_FRAME_STARTING;
		}
		walk->closed = flags & PY_FRAME_ENTRY;
		out->frames[n].code = key;
		out->frames[n].offset = offset;
		out->frames[n].flags = flags;
		walk->n = n + 1;
		frame = back;
	}
	walk->frame = frame;
	return HOT_MORE;
}

HOST_LOOP_FN long py_walk_round(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	const struct image *image = c->image;
	enum py_hot hot = HOT_OTHER;

	/* The first frame of a further thread state is marked so by py_walk_one. */
	if (image->layout.frames != PY_FRAMES_OBJECTS && !(image->layout.flags & PY_TLBC) && !c->walk->flags)
		hot = py_walk_hot(c->walk, image, c->out);
	if (hot == HOT_OTHER)
		return py_walk_one(c->walk, image, c->out) & 1;
	return hot == HOT_ENDED;
}

/* Walks one chain outwards to its end: of the innermost thread state, once it is found (PY_WALK_FIRST), of
 * tstates[which], or from walk->frame on (PY_WALK_ON). */
#define PY_WALK_FIRST (PY_TSTATES_MAX + 0u)
#define PY_WALK_ON (PY_TSTATES_MAX + 1u)
PY_APART int py_walk_chain(struct py_walk *walk, const struct image *image, struct py_out *out, __u32 which)
{
	struct py_walk_context c = {.walk = walk, .image = image, .out = out};
	const struct py_tstate *t;

	if (!walk || !image || !out)
		return 0;
	if (which == PY_WALK_FIRST) {
		py_find_tstates(walk, image);
		if (!walk->n_tstates || walk->loss)
			return 0;
		which = walk->first;
	}
	if (which < PY_TSTATES_MAX) {
		t = &walk->tstates[which];
		walk->frame = t->frame;
		walk->chunk = t->chunk;
		walk->top = t->top;
		walk->caller = t->caller;
		walk->linked = t->linked;
		walk->closed = 1;
		walk->flags = walk->n ? PY_FRAME_TSTATE : 0;
		py_window(walk, &image->layout, walk->frame);
	}
	host_loop(2 * RECORD_PY_FRAMES_MAX, py_walk_round, &c);
	py_loops_outside(walk, &image->layout, out);
	if (walk->frame && !walk->loss)
		walk->loss = LOSS_FRAME_CYCLE;
	return 0;
}

#endif
