/* SPDX-License-Identifier: MIT */
/* One frame, whatever it is and in whatever state. Of the walker of ../pywalk.h. */
#pragma once

#include "code.h"
#include "state.h"

/* A frame of the newest chunk: everything from here down to the chunk's start is the thread's own stack of
 * frames, and resident; all of it, or PY_WINDOW bytes, are read at once. 0 when it is no such frame. */
HOST_INLINE int py_window(struct py_walk *walk, const struct py_layout *l, __u64 address)
{
	__u64 below = address - walk->chunk;
	__u32 size = l->frame_size, at;

	if (!walk->chunk || below >= walk->top - walk->chunk || size > PY_RAW_FRAME)
		return 0;
	at = below < PY_WINDOW ? (__u32)below : PY_WINDOW;
	host_barrier(at);
	size += at;
	host_barrier(size);
	if (size <= PY_WINDOW + PY_RAW_FRAME && at <= PY_WINDOW && !host_read(walk->memory, size, address - at)) {
		walk->window = address - at;
		walk->window_end = at + 1;
		return 1;
	}
	walk->chunk = 0;
	return 0;
}

/* Where in memory[] the frame at `address` lies; ~0u when it cannot be read. Frames outside of the window
 * (a generator's, an older chunk's, the frame objects of 3.8-3.10) are read alone. */
HOST_APART __u32 py_frame_fetch(struct py_walk *walk, const struct image *image, __u64 address)
{
	const struct py_layout *l;
	__u64 offset;
	__u32 size;

	if (!walk || !image)
		return ~0u;
	l = &image->layout;
	size = l->frame_size;
	host_barrier(size);
	offset = address - walk->window;
	if ((offset < walk->window_end && offset < PY_WINDOW) || py_window(walk, l, address))
		return address - walk->window;
	offset = address - walk->shims;
	if (offset < walk->shims_end && offset < PY_SHIMS)
		return PY_AT_SHIMS + (__u32)offset;
	/* A shim; with the outer ones, up to where the outermost was at the last tick. */
	offset = walk->hint_shim - address;
	host_barrier(offset);
	if (walk->hint_shim < address || offset > 1u << 20)
		offset = 0;
	if (offset > PY_SHIMS - 1)
		offset = PY_SHIMS - 1;
	walk->shims_end = 0;
	size += (__u32)offset;
	host_barrier(size);
	if (size > PY_SHIMS + PY_RAW_FRAME || host_read(walk->memory + PY_AT_SHIMS, size, address))
		return ~0u;
	walk->shims = address;
	walk->shims_end = (__u32)offset + 1;
	return PY_AT_SHIMS;
}

#define PY_MEMORY sizeof(((struct py_walk *)0)->memory)

/* The offset of the instruction in a frame of 3.11+: a pointer into the bytecode. */
HOST_INLINE __s32 py_offset_pointer(struct py_walk *walk, const struct py_layout *l, __u32 at,
				    __u64 code)
{
	__u64 pointer = py_u64(walk->memory, PY_MEMORY, at + l->frame_lasti);
	__u64 start = code + l->code_instructions;

	if (l->flags & PY_TLBC && l->frame_tlbc_index != PY_ABSENT) {
		/* The thread's own copy of the bytecode; entry 0 is co_code_adaptive. */
		__s32 index = (__s32)py_u32(walk->memory, PY_MEMORY, at + l->frame_tlbc_index);
		__u64 array = 0, copy = 0;

		if (index > 0 && !py_read64(walk, code + l->code_tlbc, &array) && array &&
		    !py_read64(walk, array + l->tlbc_entries + (__u64)(__u32)index * 8, &copy) && copy)
			start = copy;
	}
	return (__s32)(pointer - start);
}

HOST_INLINE int py_put(struct py_walk *walk, struct py_out *out, __u64 key, __s32 offset, __u32 flags)
{
	__u32 n = walk->n;

	if (n >= RECORD_PY_FRAMES_MAX)
		return 0;
	out->frames[n].code = key;
	out->frames[n].offset = offset;
	out->frames[n].flags = flags | walk->flags;
	walk->places[n] = walk->frame;
	walk->flags = 0;
	walk->n = n + 1;
	return 1;
}

/* At a chain's end: shims without a frame that came after the last frame. */
HOST_INLINE void py_loops_outside(struct py_walk *walk, const struct py_layout *l, struct py_out *out)
{
	__u32 last = walk->n - 1, loops = py_frame_loops_inside(walk->flags);

	if (loops && l->flags & PY_BASE_FRAME)
		loops--;
	host_barrier(last); /* see py_put_entry */
	if (!walk->frame && loops && last < RECORD_PY_FRAMES_MAX)
		out->frames[last].flags |= loops << PY_FRAME_LOOPS_OUTSIDE_SHIFT;
}

/* Native code entered the interpreter with the frame before the n-th. The barrier: what is compared is what
 * is used, or the bound is lost on the verifier of 6.1. */
HOST_INLINE void py_put_entry(struct py_out *out, __u32 n)
{
	__u32 last = n - 1;

	host_barrier(last);
	if (last < RECORD_PY_FRAMES_MAX)
		out->frames[last].flags |= PY_FRAME_ENTRY;
}

/* What gi_frame_state says of a generator at rest (Include/internal/pycore_frame.h, enum _framestate):
 * FRAME_SUSPENDED -1, FRAME_CREATED -2, FRAME_COMPLETED 1, FRAME_CLEARED 4; FRAME_EXECUTING is 0. */
#define PY_STATE_SUSPENDED 0xffu
#define PY_OWNER_GENERATOR 1u /* FRAME_OWNED_BY_GENERATOR */
/* From gi_iframe back to gi_frame_state in PyGenObject: four bytes of padding lie between them
 * (Include/cpython/genobject.h, 3.11). */
#define PY_STATE_BEFORE_FRAME 5u

/* Of a generator's frame. */
HOST_INLINE int py_generator_runs(__u64 frame)
{
	__u8 state;

	return !host_read(&state, sizeof(state), frame - PY_STATE_BEFORE_FRAME) && !state;
}

/* 3.11, 3.12: where a frame of `code` ends that begins at `frame`, after its locals and its stack, whose sizes lie on either side of
 * co_firstlineno (Include/cpython/code.h); 0: not read. */
HOST_INLINE __u64 py_frame_end(const struct py_layout *l, __u64 frame, __u64 code)
{
	__u32 sizes[3] = {}; /* co_stacksize, co_firstlineno, co_nlocalsplus */

	if (host_read(sizes, sizeof(sizes), code + l->code_firstlineno - 4))
		return 0;
	return frame + l->frame_locals + 8 * ((__u64)sizes[0] + sizes[2]);
}

/* 3.11, 3.12: may the frame at `frame` be what calls walk->called? That one has run nothing and (3.11) is no entry: an eval loop calls it, or
 * enters with it and has yet to write its is_entry; and its `previous` may be of a call before at the same place, for builds differ
 * in whether they write that before they put it in front. It was put where its caller's frame ends. A generator's frame lies elsewhere, and a new
 * chunk's first frame is above none: of these is known that they have begun and run, and have not returned. */
enum py_calls { PY_CALLS_NOT, PY_CALLS_PERHAPS, PY_CALLS };
#define PY_CHUNK_HEAD 32u /* of struct _stack_chunk; the thread's first frame is a word further on (Python/pystate.c, 3.11) */
#define PY_RETURN_VALUE_311 83u /* and of 3.12 */
#define PY_RETURN_CONST_312 121u /* its low byte; of 3.11 no instruction */
#define PY_RETURN_GENERATOR_312 75u
#define PY_NOT_BEGUN -2 /* _PyFrame_InitializeSpecials */
HOST_APART int py_calls(struct py_walk *walk, const struct image *image, __u64 frame)
{
	const struct py_layout *l;
	__u64 code = 0, pointer = 0;
	__u16 instruction = 0;
	__u8 owner = 0;

	if (!walk || !image)
		return PY_CALLS_NOT;
	l = &image->layout;
	if (py_read64(walk, frame + l->frame_code, &code) || py_read64(walk, frame + l->frame_lasti, &pointer) ||
	    pointer < code + l->code_instructions || host_read(&instruction, sizeof(instruction), pointer) ||
	    instruction == PY_RETURN_VALUE_311 || (__u8)instruction == PY_RETURN_CONST_312 || host_read(&owner, sizeof(owner), frame + l->frame_owner))
		return PY_CALLS_NOT;
	if (owner == PY_OWNER_GENERATOR)
		return py_generator_runs(frame) ? PY_CALLS_PERHAPS : PY_CALLS_NOT;
	if (walk->called - walk->chunk < PY_CHUNK_HEAD)
		return PY_CALLS_PERHAPS;
	return py_frame_end(l, frame, code) == walk->called ? PY_CALLS : PY_CALLS_NOT;
}

/* Is there a generator's frame at `frame`? */
HOST_INLINE int py_is_generator(const struct py_layout *l, __u64 frame)
{
	__u8 owner = 0;

	return !host_read(&owner, sizeof(owner), frame + l->frame_owner) && owner == PY_OWNER_GENERATOR;
}

/* ..., and it does not run? */
HOST_INLINE int py_generator_rests(const struct py_layout *l, __u64 frame)
{
	return py_is_generator(l, frame) && !py_generator_runs(frame);
}

/* Is the _PyCFrame at `cframe` the thread state's own, which lies in it, outside of all eval loops? */
#define PY_TSTATE_SIZE 512u
HOST_INLINE int py_is_root(struct py_walk *walk, __u64 cframe)
{
	return cframe - walk->tstates[walk->which & (PY_TSTATES_MAX - 1)].address < PY_TSTATE_SIZE;
}

/* 3.11 and 3.12 put a new _PyCFrame in front before its current_frame is set (Python/ceval.c,
 * _PyEval_EvalFrameDefault): then the innermost frame is what lay on the C stack, often a frame that was
 * there before, and the truth is that the call has not begun. Goes back to the caller's frame; 0 when
 * there is none to go to. Not of a frame that may be one which an eval loop calls: that has frames of its loop below it. Registers
 * tell (py_repair_called).
 * A greenlet has a _PyCFrame outside of its eval loops, in front while it starts and ends: a copy of the starter's without a frame, whose caller
 * is the thread's first (PythonState::set_new_cframe, greenlet 2.0). No frame of either is what an eval loop that has ended leaves, too: if no
 * register has a link, nothing of Python runs. */
HOST_INLINE int py_uncall(struct py_walk *walk, const struct py_layout *l)
{
	__u64 frame = 0;

	if (!walk->caller)
		return 0;
	if (walk->called) {
		walk->loss = LOSS_FRAME_HALF;
		walk->caller = 0;
		walk->frame = 0;
		walk->n = 0;
		return 1;
	}
	/* The caller, too, may be what lay there: an eval loop that has ended, with a generator that has yielded. */
	if (py_read64(walk, walk->caller + l->cframe_current_frame, &frame) || !frame || py_generator_rests(l, frame)) {
		walk->at_root = !frame && !walk->frame && !walk->n && py_is_root(walk, walk->caller);
		walk->loss = walk->at_root && !walk->repairs ? LOSS_NONE : LOSS_FRAME_HALF;
		walk->caller = 0;
		return 0;
	}
	walk->caller = 0;
	walk->frame = frame;
	walk->n = 0;
	walk->flags = 0;
	walk->loss = 0;
	walk->closed = 1;
	return 1;
}

/* 3.12: has the frame a frame object? One that an eval loop enters with has none yet. */
#define PY_FRAME_OBJECT_BEFORE_LASTI 8u /* Include/internal/pycore_frame.h, 3.12: frame_obj, prev_instr */
HOST_INLINE int py_has_object(struct py_walk *walk, const struct py_layout *l, __u64 frame)
{
	__u64 object = 0;

	return l->frames == PY_FRAMES_CFRAME && l->frame_is_entry == PY_ABSENT &&
	       !py_read64(walk, frame + l->frame_lasti - PY_FRAME_OBJECT_BEFORE_LASTI, &object) && object;
}

/* 3.12: does the frame in front run, though its eval loop's shim is not linked to it? While greenlet leaves a stack, it links the frames without
 * shims, after it has given each a frame object (Greenlet::expose_frames, greenlet 3). What lies in a _PyCFrame before an eval loop writes there
 * would have to be the last frame of the data stack, or a generator that it resumed: that is the one which the loop enters with, or the one that
 * calls the loop. */
#define PY_RESUMED 8
HOST_APART int py_exposed(struct py_walk *walk, const struct image *image)
{
	const struct py_layout *l;
	const struct py_tstate *t;
	__u64 frame, code = 0;
	int i;

	if (!walk || !image)
		return 0;
	l = &image->layout;
	t = &walk->tstates[walk->which & (PY_TSTATES_MAX - 1)];
	frame = t->frame;
	if (!py_has_object(walk, l, frame))
		return 0;
	HOST_NO_UNROLL
	for (i = 0; i < PY_RESUMED && py_is_generator(l, frame); i++)
		if (!py_generator_runs(frame) || py_read64(walk, frame + l->frame_back, &frame))
			return 0;
	return frame - t->chunk < t->top - t->chunk && !py_read64(walk, frame + l->frame_code, &code) && py_frame_end(l, frame, code) == t->top;
}

/* The outermost frame of the innermost eval loop goes back to what its caller runs; else it was never
 * linked to it. 1: the walk went back to the caller. */
HOST_INLINE int py_unlinked(struct py_walk *walk, const struct image *image, __u64 back)
{
	const struct py_layout *l = &image->layout;
	__u64 frame = 0;

	if (!walk->caller)
		return 0;
	if ((!py_read64(walk, walk->caller + l->cframe_current_frame, &frame) && frame == back) || py_exposed(walk, image)) {
		walk->caller = 0;
		return 0;
	}
	return py_uncall(walk, l);
}

/* 3.11: the state of the innermost frame if it is a generator's that does not run, else 0. gen_send_ex2
 * (Objects/genobject.c) sets FRAME_EXECUTING before the eval loop is entered, so such a frame has just
 * yielded, lies in front of a call that has not begun (py_uncall), or is put there by _gen_throw. */
HOST_INLINE __u8 py_rests(struct py_walk *walk, const struct py_layout *l, __u32 at)
{
	__u8 state = 0;

	if (l->frame_is_entry == PY_ABSENT || !walk->caller ||
	    py_u8(walk->memory, PY_MEMORY, at + l->frame_owner) != PY_OWNER_GENERATOR ||
	    host_read(&state, 1, walk->frame - PY_STATE_BEFORE_FRAME))
		return 0;
	return state;
}

/* Is the innermost frame, at or above the stack's top, left of a call before? One at the top itself may be of 3.11's
 * pop_frame, which takes a frame off the stack before it unlinks it: never an entry frame, which is unlinked with its eval
 * loop (Python/ceval.c, RETURN_VALUE). 3.12 unlinks first, but for RETURN_GENERATOR. */
HOST_INLINE int py_over(struct py_walk *walk, const struct py_layout *l, __u32 at)
{
	__u16 instruction = 0;

	if (walk->frame > walk->top)
		return 1;
	if (l->frame_is_entry != PY_ABSENT)
		return py_u8(walk->memory, PY_MEMORY, at + l->frame_is_entry) != 0;
	return host_read(&instruction, sizeof(instruction), py_u64(walk->memory, PY_MEMORY, at + l->frame_lasti)) ||
	       (__u8)instruction != PY_RETURN_GENERATOR_312;
}

/* Any frame; 1 when the chain ends. */
HOST_APART int py_walk_one(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	const struct py_layout *l;
	__u64 code, back, key;
	__u32 flags = 0, n, at;
	__s32 offset;
	__u8 state;

	if (!walk || !image || !out)
		return 1;
	l = &image->layout;
	n = walk->n;
	if (!walk->frame) {
		if (n == 0 && l->frames == PY_FRAMES_CFRAME && py_uncall(walk, l))
			return 0;
		/* 3.11+: a chain ends below an entry frame or a shim, else it was half linked. */
		if (l->frames != PY_FRAMES_OBJECTS && !walk->closed && !walk->loss)
			walk->loss = LOSS_FRAME_HALF;
		return 1;
	}
	at = py_frame_fetch(walk, image, walk->frame);
	if (at > PY_AT_MAX) {
		walk->fault = walk->frame;
		walk->loss = LOSS_FRAME_READ;
		return !py_uncall(walk, l);
	}
	if (n == 0 && walk->frame >= walk->top && walk->frame - walk->top < PY_WINDOW && py_over(walk, l, at) &&
	    py_uncall(walk, l))
		return 0;
	back = py_u64(walk->memory, PY_MEMORY, at + l->frame_back);
	if (n == 0 && walk->frame == walk->top && l->frame_is_entry != PY_ABSENT && back) {
		/* It was popped: by 3.11's pop_frame, which unlinks it next, or in a call before. What called it runs. */
		walk->frame = back;
		return 0;
	}
	if (n == 0 && (state = py_rests(walk, l, at))) {
		/* A suspended one has a `previous` only while it yields, or _gen_throw links it to pass on an
		 * exception: what runs is that. */
		if (state == PY_STATE_SUSPENDED && back) {
			walk->closed = 0;
			walk->frame = back;
			return 0;
		}
		return !py_uncall(walk, l);
	}
	if (l->owner_native_first &&
	    py_u8(walk->memory, PY_MEMORY, at + l->frame_owner) >= l->owner_native_first) {
		/* A shim: native code entered the interpreter here. */
		if (py_unlinked(walk, image, back))
			return 0;
		if (walk->closed || !n) /* and has no frame left */
			walk->flags += py_frame_loops_inside(walk->flags) < 255 ?
					       1u << PY_FRAME_LOOPS_INSIDE_SHIFT :
					       0;
		else
			py_put_entry(out, n);
		walk->closed = 1;
		walk->shim = walk->frame;
		walk->frame = back;
		return 0;
	}
	code = py_u64(walk->memory, PY_MEMORY, at + l->frame_code) & ~7ull; /* a stack reference's tag */
	key = py_code_key(walk, image, code, py_u64(walk->memory, PY_MEMORY, at + l->frame_globals));
	if (!key) {
		if (n == 0 && walk->loss == LOSS_CODE_DYING && back && walk->frame <= walk->top) {
			/* 3.11 clears the innermost frame before it unlinks it: that call is over. */
			walk->loss = 0;
			walk->closed = 0;
			walk->frame = back;
			return 0;
		}
		return !py_uncall(walk, l);
	}
	if (l->lasti == PY_LASTI_POINTER) {
		offset = py_offset_pointer(walk, l, at, code);
	} else {
		offset = (__s32)py_u32(walk->memory, PY_MEMORY, at + l->frame_lasti);
		if (l->lasti == PY_LASTI_UNITS && offset > 0)
			offset = (__s32)((__u32)offset * 2);
	}
	walk->closed = 0;
	if (l->frames == PY_FRAMES_OBJECTS) {
		flags = PY_FRAME_ENTRY;
	} else if (l->frame_is_entry != PY_ABSENT) {
		walk->closed = py_u8(walk->memory, PY_MEMORY, at + l->frame_is_entry) != 0;
		if (walk->closed && py_unlinked(walk, image, back))
			return 0;
		if (walk->closed)
			flags = PY_FRAME_ENTRY;
		else if (n == 0 && offset == PY_NOT_BEGUN && py_u8(walk->memory, PY_MEMORY, at + l->frame_owner) != PY_OWNER_GENERATOR)
			walk->called = walk->frame;
		if (walk->called == walk->frame && !py_calls(walk, image, back) && py_uncall(walk, l))
			return 0;
	} else if (l->frames == PY_FRAMES_CFRAME && walk->repairs && n == 0 && offset == PY_NOT_BEGUN && walk->called != walk->frame &&
		   py_u8(walk->memory, PY_MEMORY, at + l->frame_owner) != PY_OWNER_GENERATOR) {
		walk->called = walk->frame;
		walk->loss = LOSS_FRAME_HALF; /* until registers tell: py_repair_inlined */
		walk->frame = 0;
		return 1;
	}
	if (!py_put(walk, out, key, offset, flags)) {
		walk->loss = LOSS_FRAME_DEPTH;
		return 1;
	}
	walk->frame = back;
	return 0;
}
