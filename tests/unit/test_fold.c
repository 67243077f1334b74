/* SPDX-License-Identifier: MIT */
/* collect unfolds what the sampler folded to the same words, and refuses what no sampler would write. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collect/collect.h"
#include "cprofd/fold.h"
#include "records.h"

static struct fold own;
static struct fold_words from;
static struct record_room folded, whole;

static uint64_t random_word(void)
{
	static uint64_t state = 1;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Folds n words of `from`, and unfolds them: how many they were between; 0: no gain. */
static uint32_t there_and_back(uint32_t n)
{
	struct record_sample *sample = (void *)folded.bytes;
	uint32_t between = (uint32_t)fold(&own, &from, n), size = (uint32_t)sizeof(*sample) + between * 8;

	if (!between)
		return 0;
	*sample = (struct record_sample){.header = {.kind = RECORD_SAMPLE, .size = size, .time = n}, .flags = SAMPLE_FOLDED | SAMPLE_GIL};
	memcpy(sample + 1, own.out, between * 8);
	assert_int_equal(record__check(folded.bytes, size), -EBADMSG);
	assert_int_equal(record__unfold(folded.bytes, size, &whole), 0);
	sample = (void *)whole.bytes;
	assert_int_equal(sample->header.size, sizeof(*sample) + n * 8);
	assert_int_equal(sample->header.time, n);
	assert_int_equal(sample->flags, SAMPLE_GIL);
	assert_memory_equal(sample + 1, from.word, n * 8);
	return between;
}

/* `before` other words, a cycle of `length` up to the n-th, and what follows. */
static void cycle(uint32_t before, uint32_t length, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < FOLD_WORDS; i++)
		from.word[i] = i < before + length || i >= n ? random_word() : from.word[i - length];
}

static void cycles_are_there_once(void **state)
{
	static const uint32_t lengths[] = {1, 2, 3, 7, 12, 100, 1000}, sizes[] = {3000, 10007, FOLD_WORDS - 1, FOLD_WORDS};
	uint32_t i, j;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			cycle(40, lengths[i], sizes[j]);
			/* Where two words of a cycle share a place in the table, the cycle is seen some words later. */
			assert_in_range(there_and_back(sizes[j]), 40 + lengths[i], 40 + lengths[i] + 8 + lengths[i] / 50);
			cycle(0, lengths[i], sizes[j] - 17);
			assert_in_range(there_and_back(sizes[j]), lengths[i], lengths[i] + 17 + 8 + lengths[i] / 50);
		}
	}
}

/* What lies behind the words, from a record before, goes on repeating. */
static void ends_with_the_words(void **state)
{
	uint32_t n;

	cycle(5, 3, FOLD_WORDS);
	for (n = 9; n < 300; n++)
		there_and_back(n);
	assert_int_equal(fold(&own, &from, 0), 0);
	assert_int_equal(fold(&own, &from, FOLD_WORDS + 1), 0);
}

/* Frames as a compiler's recursion has them: calls of a few functions in any order, from a few places. */
static void any_order(void **state)
{
	uint32_t round, i, n, length;

	for (round = 0; round < 300; round++) {
		n = 100 + (uint32_t)(random_word() % 8000);
		for (i = 0; i < n; i += length) {
			uint64_t function = random_word() % (1 + round % 40);

			length = 1 + (uint32_t)(function % 7);
			for (uint32_t k = 0; k < length && i + k < n; k++)
				from.word[i + k] = function << 16 | k << 4 | (k ? 0 : random_word() % (1 + round % 3));
		}
		there_and_back(n);
	}
}

static void no_gain(void **state)
{
	uint32_t i;

	for (i = 0; i < FOLD_WORDS; i++)
		from.word[i] = random_word();
	assert_int_equal(there_and_back(FOLD_OUT), 0);
	assert_int_equal(there_and_back(100), 0);
	/* What needs more room than there is. */
	for (i = FOLD_OUT + 10; i < FOLD_WORDS; i++)
		from.word[i] = 7;
	assert_int_equal(there_and_back(FOLD_WORDS), 0);
}

static int refused(const uint64_t *words, size_t n)
{
	struct record_sample *sample = (void *)folded.bytes;
	uint32_t size = (uint32_t)(sizeof(*sample) + n * 8);

	*sample = (struct record_sample){.header = {.kind = RECORD_SAMPLE, .size = size}, .flags = SAMPLE_FOLDED};
	if (n)
		memcpy(sample + 1, words, n * 8);
	return record__unfold(folded.bytes, size, &whole);
}

static void hostile(void **state)
{
	const uint32_t room = (SAMPLE_RECORD_MAX - sizeof(struct record_sample)) / 8;
	struct record_sample *sample = (void *)folded.bytes;

	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(1, 1, room - 1), 5}, 2), 0);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(1, 1, room), 5}, 2), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(1, 1, UINT32_MAX), 5}, 2), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(1, 0, 1), 5}, 2), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(1, 2, 1), 5}, 2), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(0, 1, 1)}, 1), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(2, 0, 0), 5}, 2), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(0xffff, 0, 0), 5}, 2), -EBADMSG);
	assert_int_equal(refused((uint64_t[]){FOLD_HEAD(1, 1, room - 1), 5, FOLD_HEAD(1, 0, 0), 6}, 4), -EBADMSG);
	assert_int_equal(refused(NULL, 0), 0);
	sample->header.size += 8; /* more than there is */
	assert_int_equal(record__unfold(folded.bytes, sizeof(*sample), &whole), -EBADMSG);
	sample->header.size = sizeof(*sample) - 8;
	assert_int_equal(record__unfold(folded.bytes, sizeof(*sample), &whole), -EBADMSG);
	sample->header.size = sizeof(*sample) + 4;
	assert_int_equal(record__unfold(folded.bytes, sizeof(*sample) + 8, &whole), -EBADMSG);
	assert_int_equal(record__unfold(folded.bytes, sizeof(*sample) - 1, &whole), -EBADMSG);
	sample->header.size = sizeof(*sample);
	sample->flags = 0;
	assert_int_equal(record__unfold(folded.bytes, sizeof(*sample), &whole), -EBADMSG);
}

/* --- through the collector --- */

struct seen {
	struct collect_sink sink;
	unsigned previews, samples;
	uint64_t last;
};

static void same(const struct record_sample *sample)
{
	assert_int_equal(sample->header.size, ((const struct record_header *)whole.bytes)->size);
	assert_memory_equal(sample, whole.bytes, sample->header.size);
}

static int on_preview(struct collect_sink *self, const struct sample *sample)
{
	((struct seen *)self)->previews++;
	same(sample->record);
	return 0;
}

static int on_sample(struct collect_sink *self, const struct sample *sample)
{
	((struct seen *)self)->samples++;
	same(sample->record);
	return 0;
}

static void the_sink_gets_them_whole(void **state)
{
	static struct rec rec;
	static uint64_t pc[12000];
	static struct py_frame frames[4000];
	struct seen seen = {.sink = {.preview = on_preview, .sample = on_sample}};
	struct record_task task = rec_task(1, 1, 0, 1, "deep");
	struct record_sample *sample = rec_sample(&rec, 5, &task, 1);
	struct collect_counts counts;
	struct collector *collector;
	uint32_t i, n, between;

	for (i = 0; i < 12000; i++)
		pc[i] = i % 3 ? 0x7f0000000100 + i % 3 * 64 : 0x7f0000000000;
	for (i = 0; i < 4000; i++)
		frames[i] = (struct py_frame){.code = 77, .offset = 24, .flags = PY_FRAME_ENTRY};
	rec_frames(&rec, 0, frames, 4000);
	rec_native(&rec, 0, pc, 12000);
	memcpy(whole.bytes, rec.data, rec.size);
	n = (rec.size - (uint32_t)sizeof(*sample)) / 8;
	memcpy(from.word, sample + 1, n * 8);
	between = (uint32_t)fold(&own, &from, n);
	assert_in_range(between, 1, 40);
	memcpy(sample + 1, own.out, between * 8);
	sample->flags |= SAMPLE_FOLDED;
	sample->header.size = (uint32_t)sizeof(*sample) + between * 8;
	assert_int_equal(collector__new(&seen.sink, &collector), 0);
	for (i = 0; i < 100; i++)
		assert_int_equal(collector__record(collector, rec.data, sample->header.size), 0);
	assert_in_range(collector__held(collector), 1, 100 * 512);
	assert_int_equal(collector__preview(collector, UINT64_MAX), 0);
	assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
	assert_int_equal(seen.previews, 100);
	assert_int_equal(seen.samples, 100);
	/* Parts of one that was unfolded are checked as all are. */
	((uint64_t *)(sample + 1))[2] = UINT64_MAX;
	assert_int_equal(collector__record(collector, rec.data, sample->header.size), 0);
	collector__counts(collector, &counts);
	assert_int_equal(counts.records, 100);
	assert_int_equal(counts.bad, 1);
	collector__free(collector);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cycles_are_there_once), cmocka_unit_test(ends_with_the_words),	    cmocka_unit_test(any_order),
		cmocka_unit_test(no_gain),		 cmocka_unit_test(hostile), cmocka_unit_test(the_sink_gets_them_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
