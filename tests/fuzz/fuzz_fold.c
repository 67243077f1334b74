/* SPDX-License-Identifier: MIT */
/* The bytes are words: folded and unfolded they are the same; and words that somebody says are folded are unfolded within bounds. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "cprofd/fold.h"

static struct record_room record, whole;
static struct fold own;
static struct fold_words words;

static int unfold(const void *from, uint32_t n)
{
	struct record_sample *sample = (void *)record.bytes;

	*sample = (struct record_sample){.header = {.kind = RECORD_SAMPLE, .size = (uint32_t)sizeof(*sample) + n * 8}, .flags = SAMPLE_FOLDED};
	memcpy(sample + 1, from, n * 8);
	return record__unfold(sample, sample->header.size, &whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct record_sample *sample = (const void *)whole.bytes;
	uint32_t n = (uint32_t)(size / 8), folded;

	if (!n || n > FOLD_OUT)
		return 0;
	memcpy(words.word, data, n * 8);
	if (!unfold(words.word, n) && (sample->header.size > SAMPLE_RECORD_MAX || sample->header.size % 8))
		abort();
	folded = (uint32_t)fold(&own, &words, n);
	if (folded > n)
		abort();
	if (folded && (unfold(own.out, folded) || sample->header.size != sizeof(*sample) + n * 8 ||
		       memcmp(sample + 1, words.word, n * 8)))
		abort();
	return 0;
}
