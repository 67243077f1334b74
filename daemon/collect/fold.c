/* SPDX-License-Identifier: MIT */
/* Unfolds samples that the sampler folded (compressed by repeats of words, cprofd/fold.h). Nothing in the record is
 * trusted: each count is checked against the rest of the record and of the output buffer.
 *
 *    words   head {literals 3, distance 3, repeat 6}  a b c          ->  a b c a b c a b c
 *    head    bit fields, see cprofd/fold.h
 *
 * Why: neighbouring stacks of deep recursion repeat the same frames; folded, a record needs less of the ring. */
#include <errno.h>
#include <string.h>

#include "collect/collect.h"
#include "cprofd/fold.h"

bool record__is_folded(const void *data, size_t len)
{
	const struct record_sample *sample = data;

	return len >= sizeof(*sample) && sample->header.kind == RECORD_SAMPLE && sample->flags & SAMPLE_FOLDED;
}

/* Unfolds one sequence: literal words, then a repeat of earlier ones. *at, n: position and length of the input; *done,
 * room: of the output. The repeat may overlap itself (distance < repeat), so it is copied word by word. */
static int unfold(const uint64_t *from, size_t n, size_t *at, uint64_t *to, size_t room, size_t *done)
{
	uint64_t head = from[(*at)++];
	size_t literals = fold_literals(head), distance = fold_distance(head), repeat = fold_repeat(head), end;

	if (literals > n - *at || literals > room - *done)
		return -EBADMSG;
	memcpy(to + *done, from + *at, literals * sizeof(*to));
	*at += literals;
	*done += literals;
	if (repeat > room - *done || (repeat && (!distance || distance > *done)))
		return -EBADMSG;
	for (end = *done + repeat; *done < end; (*done)++)
		to[*done] = to[*done - distance];
	return 0;
}

int record__unfold(const void *data, size_t len, struct record_room *ret)
{
	const size_t fixed = sizeof(struct record_sample), room = (sizeof(ret->bytes) - fixed) / 8;
	struct record_sample *sample = (void *)ret->bytes;
	const struct record_header *header = data;
	size_t n, at = 0, done = 0;
	int err = 0;

	if (!record__is_folded(data, len) || (uintptr_t)data % 8 || header->size > len || header->size < fixed ||
	    header->size % 8)
		return -EBADMSG;
	n = (header->size - fixed) / 8;
	memcpy(sample, data, fixed);
	while (!err && at < n)
		err = unfold((const uint64_t *)((const char *)data + fixed), n, &at, (uint64_t *)(ret->bytes + fixed),
			     room, &done);
	sample->flags &= ~SAMPLE_FOLDED;
	sample->header.size = (uint32_t)(fixed + done * 8);
	return err;
}
