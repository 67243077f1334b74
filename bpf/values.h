/* Locals of the frames that rules name, as a part of the sample: of each such frame its address and up to four of its
 * locals. Which frames and locals, the engine says in the ring's marks (record.h); without marks this costs one load.
 *
 * Of a local that is a cell, what the cell holds: the cell goes with the frame, and the next call may get it again.
 * Nothing else is followed here. What the words point to is read in user space, later; that it is still the same is proven
 * by a later sample that has the same words at the same address. Part of sampler.bpf.c. */
#ifndef CPROFD_BPF_VALUES_H
#define CPROFD_BPF_VALUES_H

struct values_out {
	struct part_values part;
	struct frame_values entries[VALUES_FRAMES_MAX];
};

struct values_context {
	struct py_walk *walk;
	const struct py_out *out;
	const struct value_marks *marks;
	struct values_out *to;
	__u64 locals;         /* from a frame's address to its locals */
	__u64 cell;           /* from a cell to what it holds: PyCellObject.ob_ref follows the head */
};
/* What changes from round to round lies in the part, which is a map's: of a number on the stack the verifier knows the
 * value, and would go through each by itself. n and flags are as they are sent; until then: */
#define values_at part.size /* the round's first frame */
#define values_hits kind    /* and which of it have a bit */

/* How many of the 16 bits are set. */
static __always_inline __u32 values_count(__u32 bits)
{
	bits -= bits >> 1 & 0x5555;
	bits = (bits & 0x3333) + (bits >> 2 & 0x3333);
	bits = (bits + (bits >> 4)) & 0x0f0f;
	return (bits + (bits >> 8)) & 31;
}

/* One word, out of the window that the walk has read; a generator's lie elsewhere. */
static __always_inline long values_word(const struct values_context *c, __u64 *to, __u64 locals, __u32 slot)
{
	const struct py_walk *walk = c->walk;
	__u64 address = locals + (slot & ~VALUE_SLOT_CELL) * 8, at = address - walk->window;
	long err = 0;

	if (walk->window_end < 8 || at > walk->window_end - 8) {
		err = host_read(to, 8, address);
	} else {
		host_barrier(at);
		if (at > PY_WINDOW)
			return 1;
		*to = *(const py_word64 *)(walk->memory + at);
	}
	if (slot & VALUE_SLOT_CELL && *to && !err)
		err = host_read(to, 8, (*to & ~7ull) + c->cell);
	return err;
}

/* Those that the mark asks for; a bit for each that could not be read. */
static __always_inline __u32 values_words(const struct values_context *c, const __u8 *slots, __u64 *to, __u64 locals)
{
	__u32 i, unread = 0;

	_Pragma("clang loop unroll(full)")
	for (i = 0; i < FRAME_VALUES_WORDS; i++) {
		to[i] = 0;
		if (slots[i] != VALUE_SLOT_NONE && values_word(c, &to[i], locals, slots[i]))
			unread |= 1u << i;
	}
	return unread;
}

/* The innermost frame of the round that has a bit left; most have none. A loop of the kernel's: unrolled, the verifier would
 * look at every set of bits by itself. */
static long values_put(__u32 i, void *context)
{
	struct values_context *c = context;
	struct part_values *part = &c->to->part;
	__u32 hits = part->part.values_hits, left = hits & (hits - 1), at, set, to = part->n, way;
	const struct value_mark *marks;
	struct frame_values *entry;
	__u64 key, address;

	part->part.values_hits = (__u16)left;
	at = part->values_at + values_count((hits & -hits) - 1);
	host_barrier(at);
	at &= RECORD_PY_FRAMES_MAX - 1;
	key = c->out->frames[at].code;
	set = value_mark_set(key) * VALUE_MARK_WAYS;
	host_barrier(set);
	marks = &c->marks->marks[set & ((VALUE_MARK_SETS - 1) * VALUE_MARK_WAYS)];
	way = marks[0].key == key ? 0 : marks[1].key == key ? 1 : marks[2].key == key ? 2 : 3;
	host_barrier(way);
	marks += way & (VALUE_MARK_WAYS - 1);
	if (marks->key != key)
		return !left; /* another code object with the same bit */
	host_barrier(to);
	if (to >= VALUES_FRAMES_MAX) {
		part->flags = VALUES_CUT;
		return 1;
	}
	entry = &c->to->entries[to];
	address = c->walk->places[at];
	entry->frame = (__u16)at;
	entry->address = address;
	__builtin_memcpy(entry->slots, marks->slots, sizeof(entry->slots));
	entry->unread = (__u16)values_words(c, entry->slots, entry->words, address + c->locals);
	part->n = to + 1;
	return !left;
}

#define VALUES_ROUND 16u
static long values_round(__u32 i, void *context)
{
	struct values_context *c = context;
	const struct value_marks *marks = c->marks;
	const struct py_out *out = c->out;
	__u32 at = i * VALUES_ROUND & (RECORD_PY_FRAMES_MAX - 1), n, hits = 0, bit;

	host_barrier(at);
	at &= RECORD_PY_FRAMES_MAX - VALUES_ROUND;
	HOST_NO_UNROLL
	for (n = 0; n < VALUES_ROUND; n++) {
		bit = value_mark_bit(out->frames[at + n].code);
		hits |= (__u32)(marks->bits[bit / 64] >> (bit & 63) & 1) << n;
	}
	if (c->walk->n - at < VALUES_ROUND)
		hits &= (1u << ((c->walk->n - at) & 31)) - 1; /* what lies behind is of a sample before */
	if (!hits)
		return 0;
	c->to->part.values_at = at;
	c->to->part.part.values_hits = hits;
	bpf_loop(VALUES_ROUND, values_put, c, 0);
	return c->to->part.flags & VALUES_CUT;
}

/* Puts the part at out + size, and gives the record's size with it. */
static __always_inline __u32 values_part(const struct value_marks *marks, struct py_walk *walk,
					 const struct image *image, struct record_sample *record, struct py_out *out,
					 __u32 size)
{
	struct values_context c = {.walk = walk,
				   .out = out,
				   .marks = marks,
				   .locals = image->layout.frame_locals,
				   .cell = image->layout.var_size}; /* sizeof(PyObject) */

	__u32 n;

	host_barrier(size);
	if (!walk->n || size > SAMPLE_RECORD_MAX - sizeof(struct values_out))
		return size;
	c.to = (struct values_out *)((__u8 *)out + size);
	c.to->part.n = 0;
	c.to->part.flags = 0;
	bpf_loop((walk->n + VALUES_ROUND - 1) / VALUES_ROUND, values_round, &c, 0);
	n = c.to->part.n;
	host_barrier(n);
	if (!n || n > VALUES_FRAMES_MAX)
		return size;
	n = sizeof(struct part_values) + n * (__u32)sizeof(struct frame_values);
	c.to->part.part.kind = PART_VALUES;
	c.to->part.part.loss = 0;
	c.to->part.part.size = n;
	record->parts++;
	return size + n;
}

#endif
