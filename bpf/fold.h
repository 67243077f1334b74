/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Folds a large record in place: 15,000 frames of a recursion shrink to a few dozen words, which leaves room in the
 * ring for the next records. Included by sampler.bpf.c only; samples of usual size do not come here. */
#pragma once

#include "cprofd/fold.h"

#define FOLD_FROM 16384u /* bytes: 250 Python frames with 1,500 native ones */

#define FOLD_MORE 4096u
_Static_assert((FOLD_WORDS + FOLD_MORE) * 8 + RECORD_STACK_MAX + 160 >= SAMPLE_RECORD_MAX, "all but a copied stack");
_Static_assert(sizeof(struct record_sample) + (FOLD_WORDS + FOLD_MORE) * 8 <= SAMPLE_RECORD_MAX, "the ring has it");

/* Returns the new size. Words behind FOLD_WORDS (8,192 Python frames plus 16,384 native ones exceed it) are appended
 * unfolded. */
static __always_inline __u32 fold_record(struct fold *f, struct record_sample *record, __u8 *base, __u32 size)
{
	__u32 n = (size - (__u32)sizeof(*record)) / 8, more = 0, folded;
	__u8 *words = base + sizeof(*record);

	if (n > FOLD_WORDS) {
		more = n - FOLD_WORDS;
		n = FOLD_WORDS;
	}
	folded = fold(f, (const struct fold_words *)words, n);
	host_barrier(folded);
	host_barrier(more);
	if (!folded || folded > FOLD_OUT || more > FOLD_MORE)
		return size;
	host_copy(words, folded * 8, f->out);
	if (more) {
		*(__u64 *)(words + folded * 8) = FOLD_HEAD(more, 0, 0);
		host_copy(words + folded * 8 + 8, more * 8, words + FOLD_WORDS * 8);
		folded += 1 + more;
	}
	record->flags |= SAMPLE_FOLDED;
	return sizeof(*record) + folded * 8;
}
