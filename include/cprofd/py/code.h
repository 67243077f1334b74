/* SPDX-License-Identifier: MIT */
/* Keys of code objects, and their proofs. Of the walker of ../pywalk.h. */
#ifndef CPROFD_PY_CODE_H
#define CPROFD_PY_CODE_H

#include "state.h"

/* Mixes a string object's content into h: its hash, or its first bytes. */
HOST_INLINE __u64 py_mix_string(struct py_walk *walk, const struct py_layout *l, __u64 h,
				__u64 string)
{
	__u64 *words = walk->words; /* from `length` on: length, hash, state, data... */

	if (!string || py_read_object(words, 64, string + l->unicode_length)) {
		walk->fault = string;
		return py_mix(h, string);
	}
	h = py_mix(h, words[0]);
	if (words[1] != ~0ull)
		return py_mix(h, words[1]);
	h = py_mix(h, words[3]);
	h = py_mix(h, words[4]);
	h = py_mix(h, words[5]);
	h = py_mix(h, words[6]);
	return py_mix(h, words[7]);
}

/* The second level: what the object points to. */
HOST_INLINE __u64 py_code_deep(struct py_walk *walk, const struct py_layout *l, __u64 h)
{
	__u64 name = py_u64(walk->code, PY_RAW_CODE, l->code_name);
	__u64 lines = py_u64(walk->code, PY_RAW_CODE, l->code_linetable);
	__u64 *table = walk->words; /* size, hash, first 16 bytes */

	h = py_mix_string(walk, l, h, name);
	h = py_mix_string(walk, l, h, py_u64(walk->code, PY_RAW_CODE, l->code_filename));
	if (l->code_qualname != PY_ABSENT) {
		__u64 qualname = py_u64(walk->code, PY_RAW_CODE, l->code_qualname);

		if (qualname != name)
			h = py_mix_string(walk, l, h, qualname);
	}
	if (host_read(table, 32, lines + l->var_size)) {
		walk->fault = lines;
		return h;
	}
	h = py_mix(h, table[0]);
	h = py_mix(h, table[2]);
	return py_mix(h, table[3]);
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

/* Does a file hold the code whose file name is the string at `filename`? Then what it points to is
 * shared with a module that keeps it. Frozen modules are as good as files. */
HOST_INLINE int py_from_file(const struct py_layout *l, __u64 filename)
{
	char start[8] = {};

	if (host_read(start, sizeof(start), filename + l->unicode_ascii_data))
		return 0;
	if (start[0] == '/')
		return 1;
	return start[0] == '<' && start[1] == 'f' && start[2] == 'r' && start[3] == 'o' &&
	       start[4] == 'z' && start[5] == 'e' && start[6] == 'n' && start[7] == ' ';
}

/* Proves the key of the code object at `code` anew; 0 when it is none (loss says why). `old`: the key that
 * it had, if a file held it. walk->code_of_file: see py_from_file. */
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
	if (version) {
		key = py_mix(key, version);
	} else {
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->code_name));
		key = py_mix(key, filename);
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->code_linetable));
		key = py_mix(key, py_u64(walk->code, PY_RAW_CODE, l->var_size));
		key = py_mix(key, py_u32(walk->code, PY_RAW_CODE, l->code_firstlineno) |
					  (__u64)py_u32(walk->code, PY_RAW_CODE, l->code_flags) << 32);
	}
	/* The same words as before, the name of the file among them. */
	walk->code_of_file = (key | 1) == old || py_from_file(l, filename);
	if (!version && !walk->code_of_file)
		key = py_code_deep(walk, l, key);
	return key | 1;
}

HOST_INLINE __u64 py_code_tag(const struct py_walk *walk, __u64 code)
{
	return (code >> 4 ^ walk->salt) & PY_TAG_MASK;
}

HOST_INLINE __u32 py_code_set(__u64 tag)
{
	return ((tag ^ tag >> 9 ^ tag >> 18) & (PY_SETS - 1)) * 4;
}

/* Does the slot hold this code object, proven lately? */
HOST_INLINE int py_slot_holds(const struct py_slot *slot, __u64 tag, __u64 now)
{
	return slot->word >> 20 == tag << 1 && ((slot->word - now) & PY_UNTIL_MASK) - 1 < 8;
}

/* The key of the code object at `code`, from its slot or proven; 0 when it is none. */
HOST_APART __u64 py_code_key(struct py_walk *walk, const struct image *image, __u64 code)
{
	__u64 now, tag, key, word, old;
	__u32 index, way, version = 0;
	struct py_slot *slot;

	if (!walk || !image)
		return 0;
	now = walk->now >> PY_UNTIL_SHIFT;
	tag = py_code_tag(walk, code);
	index = py_code_set(tag);
	if (index > PY_SETS * 4 - 4)
		return 0;
	word = tag << PY_TAG_SHIFT | ((now + 8) & PY_UNTIL_MASK);
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
		if (image->layout.code_version != PY_ABSENT &&
		    !host_read(&version, sizeof(version), code + image->layout.code_version) &&
		    version && (py_mix(py_mix(walk->salt, code), version) | 1) == old) {
			slot->word = word | (slot->word & PY_EACH_SIGHT);
			return old;
		}
	}
	key = py_code_prove(walk, image, code, slot->word & PY_EACH_SIGHT ? 0 : old);
	if (!key)
		return 0;
	/* Code of no file, and what has changed once, is proven at each sight. */
	if (!walk->code_of_file || (old && (old != key || slot->word & PY_EACH_SIGHT)))
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
HOST_APART __u64 py_code_known(struct py_walk *walk, __u64 frame, __u64 code)
{
	__u64 now, tag;
	struct py_slot *slot;
	__u32 index, way;

	if (!walk)
		return 0;
	now = walk->now >> PY_UNTIL_SHIFT;
	tag = py_code_tag(walk, code);
	index = py_code_set(tag);
	if (index > PY_SETS * 4 - 4)
		return 0;
	HOST_NO_UNROLL
	for (way = 0; way < 4; way++) {
		slot = &walk->slots[index + way];
		if (py_slot_holds(slot, tag, now)) {
			walk->recent[frame >> 6 & (PY_RECENT - 1)].word = code ^ walk->proven;
			walk->recent[frame >> 6 & (PY_RECENT - 1)].key = slot->key;
			return slot->key;
		}
	}
	return 0;
}

#endif
