/* SPDX-License-Identifier: MIT */
/* Links that a register still holds. Of the walker of ../pywalk.h. */
#pragma once

#include "chain.h"

/* Is there a frame at `address` whose code object is known? Its owner and back, too. */
HOST_INLINE int py_is_frame(struct py_walk *walk, const struct image *image, __u64 address,
			    __u64 *ret_back, __u8 *ret_owner)
{
	const struct py_layout *l = &image->layout;
	const __u32 at = PY_WINDOW + PY_RAW_FRAME;
	__u32 size = l->frame_size;
	__u64 key;

	host_barrier(size);
	if (address & 7 || !address || size > PY_RAW_FRAME ||
	    host_read(walk->memory + at, size, address))
		return 0;
	*ret_back = py_u64(walk->memory, PY_MEMORY, at + l->frame_back);
	*ret_owner = py_u8(walk->memory, PY_MEMORY, at + l->frame_owner);
	if (l->owner_native_first && *ret_owner >= l->owner_native_first)
		return 1;
	key = py_code_key(walk, image, py_u64(walk->memory, PY_MEMORY, at + l->frame_code) & ~7ull,
			  py_u64(walk->memory, PY_MEMORY, at + l->frame_globals));
	walk->loss = LOSS_NONE;
	return key && py_seen(key);
}

/* A register as the frame that the generator at walk->frame goes back to: its stack holds the
 * generator, an object that begins just before its frame. */
HOST_LOOP_FN long py_repair_generator(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	__u64 back, address;
	__u32 w;
	__u8 owner;

	if (i >= PY_REGISTERS)
		return 1;
	address = walk->registers[i];
	if (address == walk->leaf || !py_is_frame(walk, c->image, address, &back, &owner))
		return 0;
	if (c->image->layout.owner_native_first && owner >= c->image->layout.owner_native_first) {
		/* A shim: native code resumed it. Only if no frame turns up. */
		__u8 ignored;

		if (!walk->frame && py_is_frame(walk, c->image, back, &back, &ignored))
			walk->frame = address;
		return 0;
	}
	if (host_read(walk->words, sizeof(walk->words), address + c->image->layout.frame_locals))
		return 0;
	for (w = 0; w < PY_STACK_WORDS; w++) {
		if (walk->leaf - (walk->words[w] & ~7ull) - 1 < 127) {
			walk->frame = address;
			return 1;
		}
	}
	return 0;
}

/* A register as the _PyCFrame of the eval loop that is entering another: further out than that one's own C frame, which has more that
 * a register may point to (3.12: the shim). */
#define PY_CFRAMES_APART 256u
HOST_LOOP_FN long py_repair_cframe(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	__u64 frame, back;
	__u8 owner;

	if (i >= PY_REGISTERS)
		return 1;
	if (walk->registers[i] & 7 || walk->registers[i] - walk->leaf - PY_CFRAMES_APART > (1u << 20) ||
	    host_read(&frame, sizeof(frame),
		      walk->registers[i] + c->image->layout.cframe_current_frame) ||
	    !py_is_frame(walk, c->image, frame, &back, &owner) || py_generator_rests(&c->image->layout, frame))
		return 0;
	walk->frame = frame;
	return 1;
}

/* A register as the frame that an eval loop is entering with, linked already to its caller's frame, which is
 * in a register, too: gcc's PGO builds of 3.11 store current_frame and previous of the _PyCFrame together,
 * last, from a vector register (seen in Debian's 3.11.2). */
HOST_LOOP_FN long py_repair_entry(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const __u32 at = PY_WINDOW + PY_RAW_FRAME;
	__u64 back, outer;
	__u32 r;
	__u8 owner, held = 0;

	if (i >= PY_REGISTERS)
		return 1;
	if (!py_is_frame(walk, c->image, walk->registers[i], &back, &owner) || !back ||
	    !py_u8(walk->memory, PY_MEMORY, at + c->image->layout.frame_is_entry))
		return 0;
	for (r = 0; r < PY_REGISTERS; r++)
		held |= walk->registers[r] == back;
	if (!held || !py_is_frame(walk, c->image, back, &outer, &owner) || py_generator_rests(&c->image->layout, back))
		return 0;
	walk->frame = back;
	return 1;
}

/* Does the frame at `frame` run? A generator that does not says so; another lies whole below the stack's top. */
HOST_INLINE int py_is_running(struct py_walk *walk, const struct py_layout *l, __u64 frame, __u8 owner)
{
	const struct py_tstate *t = &walk->tstates[walk->first & (PY_TSTATES_MAX - 1)];

	if (owner == PY_OWNER_GENERATOR)
		return py_generator_runs(frame);
	return frame - t->chunk < t->top - t->chunk && t->top - frame >= l->frame_locals;
}

/* A register as the frame that 3.12's eval loop is entering with: linked already to the loop's shim, which lies beside the _PyCFrame and is
 * linked to what calls. gcc stores current_frame and previous of the _PyCFrame last (3.12.1). */
#define PY_SHIM_NEAR 1024u
HOST_LOOP_FN long py_repair_shim(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	const struct py_layout *l = &c->image->layout;
	__u64 frame, shim, back, ignored;
	__u8 owner;

	if (i >= PY_REGISTERS)
		return 1;
	frame = walk->registers[i];
	if (!py_is_frame(walk, c->image, frame, &shim, &owner) || owner >= l->owner_native_first ||
	    shim - walk->leaf + PY_SHIM_NEAR >= 2 * PY_SHIM_NEAR || !py_is_running(walk, l, frame, owner) ||
	    !py_is_frame(walk, c->image, shim, &back, &owner) || owner < l->owner_native_first ||
	    !py_is_frame(walk, c->image, back, &ignored, &owner))
		return 0;
	walk->frame = back;
	return 1;
}

/* A register as the frame that calls the one in front. walk->leaf is what the eval loop's caller runs: a generator enters a loop from
 * there, and without a loop's frame in a register it is that caller who enters one. */
HOST_LOOP_FN long py_repair_call(__u32 i, void *context)
{
	struct py_walk_context *c = context;
	struct py_walk *walk = c->walk;
	__u64 frame, back;
	__u8 owner;
	int calls;

	if (i >= PY_REGISTERS)
		return 1;
	frame = walk->registers[i];
	if (frame == walk->called || frame == walk->leaf || !py_is_frame(walk, c->image, frame, &back, &owner))
		return 0;
	calls = py_calls(walk, c->image, frame);
	if (!calls || (owner == PY_OWNER_GENERATOR && back != walk->leaf))
		return 0;
	walk->frame = frame;
	return calls == PY_CALLS;
}

/* The frame that calls walk->called, which an eval loop puts in front before or after it links it to its own (3.11.7, CALL: first
 * its _PyCFrame gets the frame, then the frame its `previous`). The chain from there must end where the loop's caller is: py_unlinked. */
HOST_INLINE int py_repair_called(struct py_walk_context *c)
{
	struct py_walk *walk = c->walk;
	const struct py_tstate *t = &walk->tstates[walk->first & (PY_TSTATES_MAX - 1)];

	if (!walk->called || py_read64(walk, t->caller + c->image->layout.cframe_current_frame, &walk->leaf))
		return 0;
	host_loop_rare(PY_REGISTERS, py_repair_call, c);
	walk->caller = t->caller;
	walk->linked = t->linked;
	if (!walk->frame && walk->leaf && py_calls(walk, c->image, walk->leaf)) {
		walk->frame = walk->leaf;
		walk->caller = 0;
	}
	return walk->frame != 0;
}

/* 3.12: how many generators lie between `frame`, which is one, and `end`, each resumed by the next; 0: it is not so. */
HOST_APART int py_resumed(struct py_walk *walk, const struct image *image, __u64 frame, __u64 end)
{
	const struct py_layout *l;
	__u8 owner;
	int i;

	if (!walk || !image)
		return 0;
	l = &image->layout;
	HOST_NO_UNROLL
	for (i = 1; i <= PY_RESUMED; i++) {
		if (host_read(&owner, sizeof(owner), frame + l->frame_owner) || owner != PY_OWNER_GENERATOR ||
		    !py_generator_runs(frame) || py_read64(walk, frame + l->frame_back, &frame))
			return 0;
		if (frame == end)
			return i;
	}
	return 0;
}

struct py_inlined {
	struct py_walk_context c;
	__u64 resumed, placed, generator;
	int generators;
};

HOST_LOOP_FN long py_repair_inlined_by(__u32 i, void *context)
{
	struct py_inlined *of = context;
	struct py_walk *walk = of->c.walk;
	__u64 frame, back;
	int generators;
	__u8 owner;

	if (i >= PY_REGISTERS)
		return 1;
	frame = walk->registers[i];
	if (frame == walk->called || frame == walk->leaf || !py_is_frame(walk, of->c.image, frame, &back, &owner) ||
	    owner >= of->c.image->layout.owner_native_first)
		return 0;
	generators = owner == PY_OWNER_GENERATOR ? py_resumed(walk, of->c.image, frame, walk->leaf) : 0;
	if (generators > of->generators) {
		of->generators = generators;
		of->resumed = frame;
	} else if (!generators && py_calls(walk, of->c.image, frame)) {
		if (owner == PY_OWNER_GENERATOR)
			of->generator = frame;
		else
			of->placed = frame;
	}
	return 0;
}

/* Is walk->leaf, to which walk->called is linked, what calls it? Of a shim: what called the eval loop. */
HOST_INLINE int py_is_linked(struct py_walk *walk, const struct image *image)
{
	const struct py_layout *l = &image->layout;
	__u64 frame = walk->leaf;
	__u8 owner = 0;

	if (host_read(&owner, sizeof(owner), frame + l->frame_owner))
		return 0;
	if (owner >= l->owner_native_first && py_read64(walk, frame + l->frame_back, &frame))
		return 0;
	return !frame || py_calls(walk, image, frame);
}

/* 3.12: an eval loop puts a frame in front before it links it to its own, too, and a generator runs in the loop of what resumes it, in a
 * frame that lies elsewhere: so a link of a call before may end where the frame begins. A register that holds a generator which runs, and was resumed
 * by what the link leads to, says that this one calls. Then the link, if its place is right; then registers; then what the eval loop's caller
 * runs, which enters the loop with it. */
HOST_INLINE int py_repair_inlined(const struct py_walk_context *c)
{
	struct py_inlined of = {.c = *c};
	struct py_walk *walk = c->walk;
	const struct py_tstate *t = &walk->tstates[walk->first & (PY_TSTATES_MAX - 1)];

	if (py_read64(walk, walk->called + c->image->layout.frame_back, &walk->leaf))
		return 0;
	host_loop_rare(PY_REGISTERS, py_repair_inlined_by, &of);
	walk->frame = of.resumed		     ? of.resumed
		      : py_is_linked(walk, c->image) ? walk->called
		      : of.placed		     ? of.placed
						     : of.generator;
	walk->caller = t->caller;
	walk->linked = t->linked;
	if (!walk->frame && !py_read64(walk, t->caller + c->image->layout.cframe_current_frame, &walk->leaf) && walk->leaf &&
	    py_calls(walk, c->image, walk->leaf)) {
		walk->frame = walk->leaf;
		walk->caller = 0;
	}
	return walk->frame != 0;
}

/* The one frame that was found is half made. 1: nothing is to be repaired. Apart, as py_repair_link() is above the
 * functions that read code objects, and kernels give 512 bytes of stack for all of them. */
HOST_APART int py_repair_half(struct py_walk *walk, const struct image *image)
{
	struct py_walk_context c = {.walk = walk, .image = image};

	if (!walk || !image)
		return 0;
	/* The outermost frame of a stack that greenlet leaves (py_exposed): only a generator's is linked to nothing otherwise. */
	if (py_has_object(walk, &image->layout, walk->places[0]) && !py_is_generator(&image->layout, walk->places[0]))
		return 1;
	if (image->layout.frame_is_entry != PY_ABSENT)
		return 0;
	walk->leaf = walk->tstates[walk->first & (PY_TSTATES_MAX - 1)].frame;
	/* Not of another frame: greenlet, while it switches, has the outermost one of a stack without its shim. */
	if (py_is_generator(&image->layout, walk->leaf))
		host_loop_rare(PY_REGISTERS, py_repair_generator, &c);
	return 0;
}

/* Some builds store in an order that leaves the innermost link in a register alone for an instant: a
 * generator's `previous` is cleared before the thread state leaves it, a new _PyCFrame stands in front
 * before it knows its predecessor. 1 when walk->frame is that link, proven by a register. */
HOST_APART int py_repair_link(struct py_walk *walk, const struct image *image)
{
	struct py_walk_context c = {.walk = walk, .image = image};

	if (!walk || !image)
		return 0;
	walk->loss_before = walk->loss;
	walk->frame = 0;
	walk->leaf = 0;
	if (walk->n == 1 && walk->loss == LOSS_FRAME_HALF && py_repair_half(walk, image))
		return 0;
	if (!walk->frame && image->layout.frames == PY_FRAMES_CFRAME && (!walk->n || walk->loss_before == LOSS_FRAME_HALF)) {
		walk->n = 0; /* a frame that is not linked is none that runs */
		if (walk->called && image->layout.frame_is_entry == PY_ABSENT ? py_repair_inlined(&c) : py_repair_called(&c)) {
			walk->loss = LOSS_NONE;
			walk->closed = 0;
			return 1;
		}
		walk->leaf = walk->tstates[walk->first & (PY_TSTATES_MAX - 1)].cframe;
		host_loop_rare(PY_REGISTERS, py_repair_cframe, &c);
		if (!walk->frame)
			host_loop_rare(PY_REGISTERS, image->layout.frame_is_entry != PY_ABSENT ? py_repair_entry : py_repair_shim, &c);
		if (walk->frame && walk->called && py_calls(walk, image, walk->frame) != PY_CALLS)
			walk->frame = 0;
	}
	walk->called = 0;
	walk->loss = walk->loss_before;
	if (!walk->frame && !walk->at_root)
		return 0;
	walk->loss = LOSS_NONE;
	walk->closed = 0;
	walk->caller = 0;
	return 1;
}

/* Goes on from such a link. Call after py_walk() with a loss and n <= 1, and the thread's registers; 1 when the
 * walk went on. */
HOST_INLINE int py_walk_repair(struct py_walk *walk, const struct image *image, struct py_out *out)
{
	if (!py_repair_link(walk, image))
		return 0;
	if (walk->frame)
		py_walk_chain(walk, image, out, PY_WALK_ON);
	py_walk_others(walk, image, out);
	py_walk_end(walk, image, out);
	return 1;
}
