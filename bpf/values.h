/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Locals of the frames that rules select, as a part of the sample: for each such frame its address and up to four
 * locals. The engine says which frames and locals in the ring (struct locals_captures, record.h); if none, this
 * costs one load.
 *
 * For a local that is a cell, the cell's content: the cell itself dies with the frame, and the next call may get it
 * again. Where a rule takes its name from the local itself, its object is copied (cprofd/py/object.h); where from an attribute,
 * the object that this leads to, once user space has found out how (cprofd/py/path.h). Nothing else is dereferenced here: user
 * space reads what the words point to later. Part of sampler.bpf.c. */
#pragma once

struct values_out {
	struct part_values part;
	__u8 entries[VALUES_FRAMES_MAX * sizeof(struct frame_values)];
};
/* State that changes from call to call is in memory, because the verifier tracks values in registers and would walk
 * through the loops once per value. It uses the part's own cache line, as the memory behind it is not cached. Until
 * the part is sent, its `size` counts the bytes of `entries`, and: */
#define values_at part.kind    /* first frame of the round */
#define values_state part.loss  /* VALUES_STATE_* */
#define VALUES_STATE_CUT 1u
#define VALUES_STATE_NEW 2u
#define values_hits flags      /* frames of the round that have a bit and were not handled yet */

/* How many of the bits are set. */
static __always_inline __u32 values_count(__u32 bits)
{
	bits -= bits >> 1 & 0x55555555;
	bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
	return ((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

#include "cprofd/py/object.h"
#include "cprofd/py/path.h"
#include "cprofd/py/value.h" /* values_word(): of what is outside of the window that the walk read (e.g. a generator's) */

/* Reads the locals that the capture requests; sets a bit for each that could not be read. */
static __always_inline void values_words(const struct py_walk *walk, const struct image *image, const __u8 *slots,
					 struct frame_values *to, __u64 locals)
{
	__u32 i;
	__u64 at;

	to->unread = 0;
	__builtin_memset(to->words, 0, sizeof(to->words));
	_Pragma("clang loop unroll(full)")
	for (i = 0; i < FRAME_VALUES_WORDS; i++) {
		if (slots[i] == VALUE_SLOT_NONE)
			break;
		at = locals + slots[i] * 8 - walk->window;
		if (at < walk->window_end && slots[i] < VALUE_SLOT_CELL) { /* as a frame is there whole, a word is */
			host_barrier(at);
			to->words[i] = *(const py_word64 *)(walk->memory + (at & (2 * PY_WINDOW - 1)));
		} else if (values_word(image, &to->words[i], locals + (slots[i] & ~VALUE_SLOT_CELL) * 8, slots[i])) {
			to->unread |= 1u << i; /* in memory: see above */
		}
	}
	to->n = (__u8)i;
}

/* Values that were sent, by any CPU: the upper bits are a hash of the values. The low 8 are the time: if values of a call appear again
 * after 17 to 33 ms, they may be other objects at the same addresses. 0 where what they point to lasts: one such entry holds as
 * long as no other takes its place. Two frames of one stack that meet in an entry wake with each sample: with 256 entries a stack
 * with eight frames had such in one of ten cases. */
#define VALUES_KNOWN 4096u
__u64 values_known[VALUES_KNOWN];

static __always_inline void values_note(const struct frame_values *values, const struct locals_capture *capture, struct part_values *part, __u64 now)
{
	static const __u64 odd[FRAME_VALUES_WORDS] = {0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull, 0x94d049bb133111ebull, 0xd6e8feb86659fd93ull};
	__u64 calls = 0ull - (capture->wakes >> 1), new, hash; /* all bits: CAPTURE_WAKES_CALLS */
	__u32 i;

	hash = ((values->address & calls) + (capture->key & ~calls)) * 0xff51afd7ed558ccdull;
	_Pragma("clang loop unroll(full)")
	for (i = 0; i < FRAME_VALUES_WORDS; i++)
		hash += values->words[i] * odd[i]; /* the products are independent of each other */
	i = (hash >> 52) & (VALUES_KNOWN - 1);
	now = now >> 24 & 255 & calls;
	new = (values_known[i] ^ hash) >> 8 | ((now - values_known[i]) & 254);
	values_known[i] = (hash & ~255ull) | now;
	new = (new | -new) >> 63;
	host_barrier(new);
	part->part.loss |= new * VALUES_STATE_NEW;
}

/* Notes the objects to copy; the innermost frames come first. More than SAMPLE_OBJECTS_MAX: not all of them. */
static __always_inline void objects_note(struct py_walk *walk, const struct frame_values *values, __u32 copies, __u64 code)
{
	__u32 n = walk->n_objects, i, at;

	_Pragma("clang loop unroll(full)")
	for (i = 0; i < FRAME_VALUES_WORDS; i++) {
		host_barrier(n);
		at = n & (2 * SAMPLE_OBJECTS_MAX - 1);
		walk->objects[at] = values->words[i] & ~7ull;
		walk->object_of[at] = 0;
		n += copies >> i & 1;
	}
	_Pragma("clang loop unroll(full)")
	for (i = 0; i < CAPTURE_PATHS; i++) {
		if (!capture_path(copies, i))
			break;
		host_barrier(n);
		at = n & (2 * SAMPLE_OBJECTS_MAX - 1);
		walk->objects[at] = values->words[(capture_path(copies, i) - 1) & (FRAME_VALUES_WORDS - 1)] & ~7ull;
		walk->object_of[at] = object_of_path(i, values->frame);
		walk->object_codes[at] = code;
		n++;
	}
	walk->n_objects = n > SAMPLE_OBJECTS_MAX ? SAMPLE_OBJECTS_MAX + 1 : n;
}

/* 1 or 0, without a branch: the verifier would walk through the rest once per outcome. */
static __always_inline __u32 values_same(__u64 a, __u64 b)
{
	__u64 x = a ^ b;

	x |= -x;
	host_barrier(x);
	return 1u ^ (__u32)(x >> 63);
}

/* Handles the innermost frame of the round that still has a bit; most frames have none. Returns whether there is
 * another. Not inlined, like the next one, so that the verifier checks it once. */
HOST_APART int values_put(struct py_walk *walk, const struct image *image, const struct py_out *out,
			const struct locals_captures *captured_locals, struct values_out *to)
{
	__u32 hits, at, set, way, size;
	const struct locals_capture *capture;
	struct frame_values *entry;
	__u64 key, address;

	if (!walk || !image || !out || !captured_locals || !to)
		return 0;
	hits = to->part.values_hits;
	to->part.values_hits = hits & (hits - 1);
	at = to->part.values_at + values_count((hits & -hits) - 1);
	host_barrier(at);
	at &= RECORD_PY_FRAMES_MAX - 1;
	key = out->frames[at].code;
	set = locals_capture_set(key) * LOCALS_CAPTURE_WAYS;
	host_barrier(set);
	capture = &captured_locals->captured_locals[set & ((LOCALS_CAPTURE_SETS - 1) * LOCALS_CAPTURE_WAYS)];
	way = values_same(capture[1].key, key) | values_same(capture[2].key, key) << 1 | values_same(capture[3].key, key) * 3;
	host_barrier(way);
	capture += way & (LOCALS_CAPTURE_WAYS - 1);
	if (capture->key != key)
		return !!to->part.values_hits; /* another code object with the same bit */
	size = to->part.part.size;
	host_barrier(size);
	if (size > sizeof(to->entries) - sizeof(*entry)) {
		to->part.values_state |= VALUES_STATE_CUT;
		return 0;
	}
	entry = (struct frame_values *)(to->entries + size);
	address = walk->places[at];
	entry->frame = (__u16)at;
	entry->address = address;
	__builtin_memcpy(entry->slots, capture->slots, sizeof(entry->slots));
	values_words(walk, image, capture->slots, entry, address + image->layout.frame_locals);
	if (capture->wakes)
		values_note(entry, capture, &to->part, walk->now);
	if (capture->copies)
		objects_note(walk, entry, capture->copies, key);
	to->part.part.size = size + FRAME_VALUES_HEAD + entry->n * 8u;
	to->part.n++;
	return !!to->part.values_hits;
}

#define VALUES_ROUND 32u
/* Handles the frames from to->part.values_at on. */
HOST_APART int values_round(struct py_walk *walk, const struct image *image, const struct py_out *out,
			  const struct locals_captures *captured_locals, struct values_out *to)
{
	__u32 at, n, hits = 0, bit;

	if (!walk || !image || !out || !captured_locals || !to)
		return 0;
	at = to->part.values_at;
	host_barrier(at);
	at &= RECORD_PY_FRAMES_MAX - VALUES_ROUND;
	HOST_NO_UNROLL
	for (n = 0; n < VALUES_ROUND; n++) {
		if (at + n >= walk->n)
			break; /* what follows is left over from an earlier sample */
		bit = locals_capture_bit(out->frames[at + n].code);
		hits |= (__u32)(captured_locals->bits[bit / 64] >> (bit & 63) & 1) << n;
	}
	to->part.values_at = (__u16)at;
	to->part.values_hits = hits;
	if (!hits)
		return 0;
	HOST_NO_UNROLL
	for (n = 0; n < VALUES_ROUND; n++)
		if (!values_put(walk, image, out, captured_locals, to))
			break;
	return to->part.values_state & VALUES_STATE_CUT;
}

struct values_context {
	struct py_walk *walk;
	const struct image *image;
	const struct py_out *out;
	const struct locals_captures *captured_locals;
	struct values_out *to;
};
static long values_rounds(__u32 i, void *context)
{
	struct values_context *c = context;

	c->to->part.values_at = (__u16)((i + 1) * VALUES_ROUND);
	return values_round(c->walk, c->image, c->out, c->captured_locals, c->to) & 1;
}

struct objects_out {
	__u8 parts[SAMPLE_OBJECTS_BYTES];
};
/* Copies object number `i` of those that were noted, or leaves it out, if it cannot be read. 0: there is no room. */
HOST_APART int values_object(struct py_walk *walk, const struct image *image, const struct locals_captures *captured_locals, struct objects_out *to, __u32 i)
{
	struct part_object *part;
	__u32 at, of, size;
	__u64 address;

	if (!walk || !image || !captured_locals || !to)
		return 0;
	at = walk->objects_size;
	host_barrier(at);
	if (at > sizeof(to->parts) - sizeof(struct part_object)) {
		walk->n_objects = SAMPLE_OBJECTS_MAX + 1;
		return 0;
	}
	part = (struct part_object *)(to->parts + at);
	i &= 2 * SAMPLE_OBJECTS_MAX - 1;
	address = walk->objects[i];
	of = walk->object_of[i];
	if (of)
		address = py_path(image, captured_locals, walk->object_codes[i], of >> OBJECT_PATH_SHIFT & 255, address);
	size = py_object(image, address, part);
	part->flags |= of;
	walk->objects_size = at + size;
	walk->objects_read += !!size; /* in memory: see above */
	return 1;
}

/* Copies the objects that were noted; returns how many. */
HOST_APART int values_objects(struct py_walk *walk, const struct image *image, const struct locals_captures *captured_locals, struct objects_out *to)
{
	__u32 i;

	if (!walk || !image || !captured_locals || !to)
		return 0;
	walk->objects_size = walk->objects_read = 0;
	HOST_NO_UNROLL
	for (i = 0; i < SAMPLE_OBJECTS_MAX; i++)
		if (i >= walk->n_objects || !values_object(walk, image, captured_locals, to, i))
			break;
	return walk->objects_read;
}

/* Writes the parts at out + size; returns the record's new size. `fresh`: set if some of the values are new. */
static __always_inline __u32 values_part(const struct locals_captures *captured_locals, struct py_walk *walk,
					 const struct image *image, struct record_sample *record, struct py_out *out,
					 __u32 size, int *fresh)
{
	struct values_out *to;
	__u32 n, state;

	host_barrier(size);
	walk->n_objects = 0;
	if (!walk->n || size > SAMPLE_RECORD_MAX - sizeof(*to) - SAMPLE_OBJECTS_BYTES)
		return size;
	to = (struct values_out *)((__u8 *)out + size);
	to->part.n = 0;
	to->part.part.size = 0;
	to->part.values_at = 0;
	to->part.values_state = 0;
	if (!values_round(walk, image, out, captured_locals, to) && walk->n > VALUES_ROUND) {
		struct values_context c = {.walk = walk, .image = image, .out = out, .captured_locals = captured_locals, .to = to};

		host_loop_rare((walk->n - 1) / VALUES_ROUND, values_rounds, &c);
	}
	n = to->part.part.size;
	host_barrier(n);
	if (!n || n > sizeof(to->entries))
		return size;
	state = to->part.values_state;
	*fresh |= state & VALUES_STATE_NEW;
	n += sizeof(struct part_values);
	to->part.flags = state & VALUES_STATE_CUT ? VALUES_CUT : 0;
	to->part.part.kind = PART_VALUES;
	to->part.part.loss = 0;
	to->part.part.size = n;
	to->part.own = walk->thread_pointer;
	record->parts++;
	size += n;
	if (!walk->n_objects)
		return size;
	host_barrier(size);
	if (size > SAMPLE_RECORD_MAX - SAMPLE_OBJECTS_BYTES)
		return size;
	record->parts += values_objects(walk, image, captured_locals, (struct objects_out *)((__u8 *)out + size));
	if (walk->n_objects > SAMPLE_OBJECTS_MAX)
		to->part.flags |= VALUES_OBJECTS_CUT;
	n = walk->objects_size;
	host_barrier(n);
	return n > SAMPLE_OBJECTS_BYTES ? size : size + n;
}
