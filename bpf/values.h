/* Locals of the frames that rules name, as a part of the sample: of each such frame its address and a few words of its
 * locals. Which frames, the engine says in the ring's marks (record.h); without marks this costs one load.
 *
 * Nothing is followed here. What the words point to is read in user space, later; that it is still the same is proven by
 * a later sample that has the same words at the same address. Part of sampler.bpf.c. */
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

/* The words, out of the window that the walk has read; a generator's lie elsewhere. */
static __always_inline long values_words(const struct py_walk *walk, __u64 *to, __u64 address)
{
	__u64 at = address - walk->window;
	const __u8 *from;

	if (walk->window_end < FRAME_VALUES_WORDS * 8 || at > walk->window_end - FRAME_VALUES_WORDS * 8)
		return host_read(to, FRAME_VALUES_WORDS * 8, address);
	host_barrier(at);
	if (at > PY_WINDOW)
		return 1;
	from = walk->memory + at;
	to[0] = *(const py_word64 *)from;
	to[1] = *(const py_word64 *)(from + 8);
	to[2] = *(const py_word64 *)(from + 16);
	to[3] = *(const py_word64 *)(from + 24);
	return 0;
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
	entry->frame = at;
	entry->first = marks->first;
	entry->address = address;
	entry->flags = 0;
	if (values_words(c->walk, entry->words, address + c->locals + (__u64)marks->first * 8))
		entry->flags = FRAME_VALUES_UNREAD;
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
	struct values_context c = {.walk = walk, .out = out, .marks = marks, .locals = image->layout.frame_locals};

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
