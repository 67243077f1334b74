/* SPDX-License-Identifier: MIT */
/* Folding compresses words in which long sequences repeat, like the frames of a deep recursion.
 *
 * Folded words are sequences, each of
 *   a head     FOLD_HEAD(literals, distance, repeat)
 *   literals   that many words, unchanged
 * followed by `repeat` words that are not stored: each equals the word `distance` before it. So a cycle of frames is
 * stored once. Example: a b c b c b c is head(3, 2, 4) a b c.
 *
 * The sampler folds large records (bpf/fold.h), the collector unfolds them (daemon/collect/fold.c). */
#pragma once

#include "host.h"

#define FOLD_WORDS 32768u /* at most */
#define FOLD_OUT 8192u	  /* a record that needs more is not folded */
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

/* One per CPU; zeroed memory is a valid start. The loop's state is in memory, so that the verifier sees every round
 * in the same state. */
struct fold {
	__u32 n;	/* words */
	__u32 at;	/* index of the next one */
	__u32 head, to; /* indices in `out`: the head of the current sequence, and the next free word */
	__u32 distance; /* 0: the sequence still collects literals */
	__u32 repeat;
	__u16 last_at[FOLD_TABLE]; /* last index of a word with this hash; perhaps of an earlier record: compare */
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

/* Counts how far the words repeat, up to FOLD_ROUND at once. Reading past the last word is harmless: fold()
 * subtracts the excess. */
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

/* Starts a repetition at the next word, or takes it as a literal. */
HOST_INLINE void fold_begin(struct fold *f, const struct fold_words *from)
{
	__u32 at = f->at, before, slot;
	__u64 word = fold_at(from, at), differ;

	f->at = at + 1;
	slot = (__u32)((word * 0x9e3779b97f4a7c15ull) >> (64 - FOLD_TABLE_BITS));
	host_barrier(slot);
	slot &= FOLD_TABLE - 1;
	before = f->last_at[slot];
	f->last_at[slot] = (__u16)at;
	/* A repetition of a single word is not worth a head: the next word must match, too. */
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

/* Folds the first n words (not 0) into f->out. Returns the number of words there, or 0 if folding does not help. */
HOST_APART int fold(struct fold *f, const struct fold_words *from, __u32 n)
{
	struct fold_context c = {.f = f, .from = from};

	if (!f || !from || !n || n > FOLD_WORDS)
		return 0;
	f->n = n;
	f->at = f->head = f->distance = f->repeat = 0;
	f->to = 1;
	host_loop_rare(FOLD_WORDS, fold_round, &c);
	if (f->at < n)
		return 0;
	f->repeat -= f->at - n; /* repetitions that were counted past the last word */
	fold_close(f);
	return f->head < n ? (int)f->head : 0;
}
