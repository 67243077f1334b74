/* SPDX-License-Identifier: MIT */
/* Keys of code objects, and their proofs. Of the walker of ../pywalk.h. */
#pragma once

#include "state.h"

/* Mixes a string object's content into h: its hash if it is interned, else its length and first bytes. Only what stays
 * as long as the string lives: the hash of others is computed when somebody asks for it, and beyond the end is the
 * memory of another object. */
HOST_INLINE __u64 py_mix_string(struct py_walk *walk, const struct py_layout *l, __u64 h, __u64 string)
{
	__u64 *words = walk->words; /* from `length` on: length, hash, state, data... */
	__s64 first, i;

	if (!string || py_read_object(words, 64, string + l->unicode_length)) {
		walk->fault = string;
		return py_mix(h, string);
	}
	h = py_mix(h, words[0]);
	if (words[2] & 3)
		return py_mix(h, words[1]);
	first = ((words[2] >> l->state_ascii_shift & 1 ? l->unicode_ascii_data : l->unicode_compact_data) - l->unicode_length) >> 3;
	/* Words that begin within the data or at the NUL after it. Masks, as branches are paths for the verifier. */
	for (i = 3; i < 8; i++)
		h = py_mix(h, words[i] & (__u64)((first - 1 - i) >> 63 & ~(((__s64)words[0] >> 3) - (i - first)) >> 63));
	return h;
}

/* Mixes the name of a file: its length and its end. */
HOST_INLINE __u64 py_mix_filename(struct py_walk *walk, const struct py_layout *l, __u64 h, __u64 string)
{
	__u64 *words = walk->words, length; /* it is read there, too: kernels give 512 bytes of stack */

	words[0] = words[1] = words[2] = 0;
	if (host_read(words, 24, string + l->unicode_length))
		walk->fault = string;
	length = words[0] * (words[2] >> l->state_kind_shift & 7);
	string += (words[2] >> l->state_ascii_shift & 1 ? l->unicode_ascii_data : l->unicode_compact_data) + length;
	words[0] = words[1] = words[2] = 0;
	if (length < 24 ? length >= 8 && host_read(words, 8, string - 8) : host_read(words, 24, string - 24))
		walk->fault = string;
	h = py_mix(h, length);
	h = py_mix(h, words[0]);
	h = py_mix(h, words[1]);
	return py_mix(h, words[2]);
}

/* The second level: what the object points to. */
HOST_INLINE __u64 py_code_deep(struct py_walk *walk, const struct py_layout *l, __u64 h)
{
	__u64 name = py_u64(walk->code, PY_RAW_CODE, l->code_name);
	__u64 lines = py_u64(walk->code, PY_RAW_CODE, l->code_linetable);
	__u64 *table = walk->words; /* size, hash, first 16 bytes, or 48 */

	h = py_mix_string(walk, l, h, name);
	h = py_mix_filename(walk, l, h, py_u64(walk->code, PY_RAW_CODE, l->code_filename));
	if (l->code_qualname != PY_ABSENT) {
		__u64 qualname = py_u64(walk->code, PY_RAW_CODE, l->code_qualname);

		if (qualname != name)
			h = py_mix_string(walk, l, h, qualname);
	}
	if (py_read_object(table, 64, lines + l->var_size)) {
		walk->fault = lines;
		return h;
	}
	h = py_mix(h, table[0]);
	h = py_mix(h, table[2]);
	h = py_mix(h, table[3]);
	if (table[0] < 48)
		return h;
	h = py_mix(h, table[4]);
	h = py_mix(h, table[5]);
	h = py_mix(h, table[6]);
	return py_mix(h, table[7]);
}

HOST_INLINE void py_todo_add(struct py_walk *walk, __u64 code, __u64 key)
{
	__u32 i = walk->n_todo;

	if (i >= RECORD_CODES_PER_TICK)
		return;
	walk->todo[i].code = code;
	walk->todo[i].key = key;
	walk->n_todo = i + 1;
}

/* Is the code object in walk->code a whole, living one? A dying one has a count of 0, a freed
 * one an address in its place (pymalloc's and malloc's free lists link through the first word). */
HOST_INLINE int py_code_lives(struct py_walk *walk, const struct image *image)
{
	const struct py_layout *l = &image->layout;
	__u64 refcnt = py_u64(walk->code, PY_RAW_CODE, l->object_refcnt);

	if (py_u64(walk->code, PY_RAW_CODE, l->object_type) != image->code_type)
		return 0;
	if (l->flags & PY_FREE_THREADED)
		return 1;
	if (l->version >= 0x030c00)
		return (refcnt & 0xffffffffu) != 0;
	return refcnt != 0 && refcnt >> 32 == 0;
}

/* Does a file hold the code whose file name is the string at `filename`? Then it lives as long as its module, most
 * often. Frozen modules are as good as files. */
HOST_INLINE int py_from_file(struct py_walk *walk, const struct py_layout *l, __u64 filename)
{
	__u64 *start = walk->words; /* kernels give 512 bytes of stack */

	if (host_read(start, 8, filename + l->unicode_ascii_data))
		return 0;
	return (start[0] & 0xff) == '/' || start[0] == 0x206e657a6f72663cull; /* "<frozen " */
}

/* Of 3.11's frozen modules, which are part of the program and never freed (Tools/scripts/deepfreeze.py). What their code points to may not be
 * resident. */
#define PY_STATIC_REFCNT 999999000u

/* Proves the key of the code object at `code` anew; 0 when it is none (loss says why). `old`: the key that
 * it had, or 0. walk->code_of_file: see py_from_file. */
HOST_APART __u64 py_code_prove(struct py_walk *walk, const struct image *image, __u64 code, __u64 old)
{
	const struct py_layout *l;
	__u64 key, filename;
	__u32 version = 0;

	if (!walk || !image)
		return 0;
	l = &image->layout;
	if (py_read_object(walk->code, PY_RAW_CODE, code)) {
		walk->fault = code;
		walk->loss = LOSS_CODE_READ;
		return 0;
	}
	if (!py_code_lives(walk, image)) {
		walk->loss = LOSS_CODE_DYING;
		return 0;
	}
	filename = py_u64(walk->code, PY_RAW_CODE, l->code_filename);
	key = py_mix(walk->salt, code);
	if (l->code_version != PY_ABSENT)
		version = py_u32(walk->code, PY_RAW_CODE, l->code_version);
	if (version)
		key = py_mix(key, version);
	/* Each interpreter counts versions from 1. */
	if (!version || walk->several) {
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->var_size));
		key = py_mix(key, py_u32(walk->code, PY_RAW_CODE, l->code_firstlineno) |
					  (__u64)py_u32(walk->code, PY_RAW_CODE, l->code_flags) << 32);
		if (py_u64(walk->code, PY_RAW_CODE, l->object_refcnt) < PY_STATIC_REFCNT)
			key = py_code_deep(walk, l, key);
	}
	/* The same as before, the name of the file included. */
	walk->code_of_file = (key | 1) == old || py_from_file(walk, l, filename);
	return key | 1;
}

/* What a proof is of: a code object, with the globals of its frame. One that is freed while its proof holds leaves its place to another, as the
 * body of a module does once it ran: most often to code of another module, which has other globals. */
HOST_INLINE __u64 py_code_of(__u64 code, __u64 globals)
{
	return code ^ globals * 0x9e3779b97f4a7c15ull;
}

HOST_INLINE __u64 py_code_tag(const struct py_walk *walk, __u64 code_of)
{
	return (code_of >> 4 ^ walk->salt ^ walk->round) & PY_TAG_MASK;
}

HOST_INLINE __u32 py_code_set(__u64 tag)
{
	return ((tag ^ tag >> 9 ^ tag >> 18) & (PY_SETS - 1)) * 4;
}

/* Does the slot hold this code object, proven lately? */
HOST_INLINE int py_slot_holds(const struct py_slot *slot, __u64 tag, __u64 now)
{
	return slot->word >> (PY_TAG_SHIFT - 1) == tag << 1 && ((slot->word - now) & PY_UNTIL_MASK) - 1 < 8;
}

/* The rest of a slot's word after a proof. `before`: the word, if the same was proven before, else 0. What has lived for long is likely to live
 * on; what is made and dropped all the time does not live long, and its place is soon another's. */
HOST_INLINE __u64 py_proof(__u64 before, __u64 now)
{
	__u64 age = before >> PY_AGE_SHIFT & PY_AGE_MASK;

	if (!before)
		return now & PY_UNTIL_MASK;
	if (age < PY_SIGHTS)
		return (age + 1) << PY_AGE_SHIFT | (before & PY_UNTIL_MASK);
	if (age == PY_SIGHTS && ((now - before) & PY_UNTIL_MASK) < 2)
		return age << PY_AGE_SHIFT | (before & PY_UNTIL_MASK);
	age += age < PY_AGES;
	return age << PY_AGE_SHIFT | ((now + (1ull << ((age - PY_SIGHTS) & 3))) & PY_UNTIL_MASK);
}

/* Code with this key was proven at this address. Was other code there before, in frames of whatever globals? `tenants` has the last key at
 * an address (half of it), the address mixed with the process (31 bits), and between them whether there was another. */
HOST_INLINE int py_code_moves_in(struct py_walk *walk, __u64 code, __u64 key)
{
	__u64 where = py_mix(walk->salt, code), *last = &walk->tenants[where & (PY_TENANTS - 1)], word = *last, moved = 0;

	if ((word ^ where) >> 33 == 0)
		moved = (word >> 32 & 1) | ((__u32)word != (__u32)key);
	*last = where >> 33 << 33 | moved << 32 | (__u32)key;
	return moved;
}

/* The key of the code object at `code`, from its slot or proven; 0 when it is none. */
HOST_APART __u64 py_code_key(struct py_walk *walk, const struct image *image, __u64 code, __u64 globals)
{
	__u64 now, tag, key, word, old;
	__u32 index, way;
	struct py_slot *slot;

	if (!walk || !image)
		return 0;
	now = walk->now >> PY_UNTIL_SHIFT;
	tag = py_code_tag(walk, py_code_of(code, globals));
	index = py_code_set(tag);
	if (index > PY_SETS * 4 - 4)
		return 0;
	word = tag << PY_TAG_SHIFT;
	way = walk->now >> 10 & 3;
	way = walk->slots[index].word >> PY_TAG_SHIFT == tag ? 0 : way;
	way = walk->slots[index + 1].word >> PY_TAG_SHIFT == tag ? 1 : way;
	way = walk->slots[index + 2].word >> PY_TAG_SHIFT == tag ? 2 : way;
	way = walk->slots[index + 3].word >> PY_TAG_SHIFT == tag ? 3 : way;
	/* Bounded as a sum: 6.1's verifier forgets what it knew of both when clang makes an OR of it. */
	way = index + (way & 3);
	host_barrier(way);
	slot = &walk->slots[way & (PY_SETS * 4 - 1)];
	old = slot->word >> PY_TAG_SHIFT == tag ? slot->key : 0;
	if (old) {
		if (py_slot_holds(slot, tag, now))
			return old;
		walk->words[0] = 0;
		if (image->layout.code_version != PY_ABSENT && !walk->several && !host_read(walk->words, 4, code + image->layout.code_version) &&
		    walk->words[0] && (py_mix(py_mix(walk->salt, code), (__u32)walk->words[0]) | 1) == old) {
			slot->word = word | (slot->word & PY_EACH_SIGHT) | py_proof(slot->word, now);
			return old;
		}
	}
	key = py_code_prove(walk, image, code, old);
	if (!key)
		return 0;
	word |= py_proof(key == old ? slot->word : 0, walk->now >> PY_UNTIL_SHIFT); /* read again: kernels give 512 bytes of stack */
	/* Code of no file, and of an address that was another's once, is proven at each sight. */
	if (py_code_moves_in(walk, code, key) || !walk->code_of_file || (old && slot->word & PY_EACH_SIGHT))
		word |= PY_EACH_SIGHT;
	if (py_seen(key)) {
		slot->word = word;
		slot->key = key;
	} else {
		slot->word = 0; /* until it is captured, each sight tries again */
		slot->key = 0;
		py_todo_add(walk, code, key);
	}
	return key;
}

/* What code addresses are mixed with in recent[]: 64 bits, so that two processes or times do not meet. It is odd, and
 * addresses are not: an empty place proves nothing. */
HOST_INLINE __u64 py_recent_mix(__u64 salt, __u64 now)
{
	return (salt ^ ((now >> PY_RECENT_SHIFT) + 1) * 0x9e3779b97f4a7c15ull) | 1;
}

/* The key of a code object by its slot, kept by its place then, too; 0 if no proof is fresh. */
HOST_APART __u64 py_code_known(struct py_walk *walk, __u64 frame, __u64 code_of)
{
	__u64 now, tag;
	struct py_slot *slot;
	__u32 index, way;

	if (!walk)
		return 0;
	now = walk->now >> PY_UNTIL_SHIFT;
	tag = py_code_tag(walk, code_of);
	index = py_code_set(tag);
	if (index > PY_SETS * 4 - 4)
		return 0;
	HOST_NO_UNROLL
	for (way = 0; way < 4; way++) {
		slot = &walk->slots[index + way];
		if (!py_slot_holds(slot, tag, now))
			continue;
		if ((slot->word >> PY_AGE_SHIFT & PY_AGE_MASK) == PY_AGES) {
			walk->recent[frame >> 6 & (PY_RECENT - 1)].word = code_of ^ walk->proven;
			walk->recent[frame >> 6 & (PY_RECENT - 1)].key = slot->key;
		}
		return slot->key;
	}
	return 0;
}
