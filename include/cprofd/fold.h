/* SPDX-License-Identifier: MIT */
/* Folding: words of which many repeat, as those of a deep recursion do, in few words.
 *
 * Folded words are sequences, each of
 *   a head     FOLD_HEAD(literals, distance, repeat)
 *   literals   so many words, as they are
 * and then `repeat` words, each of which is the one `distance` words before it. So a cycle of frames is there once.
 *
 * The sampler folds large records (bpf/fold.h), the collector unfolds them (daemon/collect/fold.c).
 */
#ifndef CPROFD_FOLD_H
#define CPROFD_FOLD_H

#include "host.h"

#define FOLD_WORDS 32768u /* at most */
#define FOLD_OUT 8192u	  /* who needs more stays as it is */
#define FOLD_TABLE_BITS 10u
#define FOLD_TABLE (1u << FOLD_TABLE_BITS)
#define FOLD_ROUND 16u

#define FOLD_HEAD(literals, distance, repeat) \
	((__u64)(literals) | (__u64)(distance) << 16 | (__u64)(repeat) << 32)
#define fold_literals(head) ((__u32)((head) & 0xffff))
#define fold_distance(head) ((__u32)((head) >> 16 & 0xffff))
#define fold_repeat(head) ((__u32)((head) >> 32))
_Static_assert(FOLD_WORDS <= 0xffff, "what a head can hold");

struct fold_words {
	__u64 word[FOLD_WORDS];
};

/* One for each CPU. Zero-filled is a good beginning. What goes on from word to word lies in memory, so that the verifier meets each
 * round as it met the one before. */
struct fold {
	__u32 n;	/* words */
	__u32 at;	/* the next one */
	__u32 head, to; /* in `out`: the sequence's head, and what is written next */
	__u32 distance; /* 0: the sequence is at its literals */
	__u32 repeat;
	__u16 met[FOLD_TABLE]; /* where a word of this hash was, perhaps; of another record, too: what is found is compared */
	__u64 out[FOLD_OUT];
};

HOST_INLINE void fold_put(struct fold *f, __u32 to, __u64 word)
{
	host_barrier(to);
	f->out[to & (FOLD_OUT - 1)] = word;
}

HOST_INLINE __u64 fold_at(const struct fold_words *from, __u32 i)
{
	host_barrier(i);
	return from->word[i & (FOLD_WORDS - 1)];
}

HOST_INLINE void fold_close(struct fold *f)
{
	__u32 head = f->head, to = f->to;

	fold_put(f, head, FOLD_HEAD(to - head - 1, f->distance, f->repeat));
	f->head = to;
	f->to = to + 1;
	f->distance = f->repeat = 0;
}

/* Words that go on repeating, some of them. What lies behind the last word does no harm. */
HOST_INLINE void fold_repeats(struct fold *f, const struct fold_words *from)
{
	__u32 at = f->at, distance = f->distance, round;

	HOST_NO_UNROLL
	for (round = 0; round < FOLD_ROUND; round++) {
		if (fold_at(from, at) != fold_at(from, at - distance))
			break;
		at++;
	}
	f->repeat += at - f->at;
	f->at = at;
}

/* The next word begins to repeat others, or is a literal. */
HOST_INLINE void fold_begin(struct fold *f, const struct fold_words *from)
{
	__u32 at = f->at, before, slot;
	__u64 word = fold_at(from, at), differ;

	f->at = at + 1;
	slot = (__u32)((word * 0x9e3779b97f4a7c15ull) >> (64 - FOLD_TABLE_BITS));
	host_barrier(slot);
	slot &= FOLD_TABLE - 1;
	before = f->met[slot];
	f->met[slot] = (__u16)at;
	/* One word alone is not worth a head. */
	differ = (fold_at(from, before) ^ word) | (fold_at(from, before + 1) ^ fold_at(from, at + 1));
	if (before < at && !differ) {
		f->distance = at - before;
		f->repeat = 1;
	} else {
		fold_put(f, f->to++, word);
	}
}

struct fold_context {
	struct fold *f;
	const struct fold_words *from;
};

HOST_LOOP_FN long fold_round(__u32 i, void *context)
{
	struct fold_context *c = context;
	struct fold *f = c->f;
	__u32 at = f->at, end;

	if (f->distance) {
		fold_repeats(f, c->from);
		if (f->at - at == FOLD_ROUND || f->at >= f->n)
			goto next;
		fold_close(f);
	}
	fold_begin(f, c->from);
next:
	end = f->at >= f->n || f->to >= FOLD_OUT - 2;
	host_barrier(end);
	return end & 1;
}

/* The first n words (not 0), folded, in f->out: how many these are, or 0 when that is no gain. */
HOST_APART int fold(struct fold *f, const struct fold_words *from, __u32 n)
{
	struct fold_context c = {.f = f, .from = from};

	if (!f || !from || !n || n > FOLD_WORDS)
		return 0;
	f->n = n;
	f->at = f->head = f->distance = f->repeat = 0;
	f->to = 1;
	host_loop(FOLD_WORDS, fold_round, &c);
	if (f->at < n)
		return 0;
	f->repeat -= f->at - n; /* repeats that are behind the last word */
	fold_close(f);
	return f->head < n ? (int)f->head : 0;
}

#endif
