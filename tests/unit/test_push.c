/* SPDX-License-Identifier: MIT */
/* The spool of `push`: requests come out as they went in, in their order, and where there is no room the oldest ones are
 * dropped and counted, but for the one that is being sent. What servers answer. tests/live/otlp.py has the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "push/push.h"

#define SIZE 1000u

static void fill(struct buf *request, uint32_t number)
{
	buf__clear(request);
	assert_int_equal(buf__lengthen(request, SIZE), 0);
	memset(request->data, (int)number, SIZE);
}

static void put(struct spool *spool, uint32_t number, uint32_t kept, struct push_counts *counts, int expected)
{
	struct buf request = {};

	fill(&request, number);
	assert_int_equal(spool__put(spool, &request, number, kept, counts), expected);
	buf__free(&request);
}

static void first(struct spool *spool, uint32_t number)
{
	struct buf request = {}, wanted = {};
	struct spool_entry entry;

	assert_int_equal(spool__first(spool, &request, &entry), 0);
	fill(&wanted, number);
	assert_int_equal(entry.samples, number);
	assert_int_equal(entry.len, SIZE);
	assert_memory_equal(request.data, wanted.data, SIZE);
	buf__free(&request);
	buf__free(&wanted);
}

static void in_order(void **state)
{
	struct push_counts counts = {};
	struct spool spool;
	struct stat status;
	uint32_t in = 0, out = 0;

	assert_int_equal(spool__open(&spool, 100 * SIZE), 0);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < round % 5; i++)
			put(&spool, ++in, 0, &counts, 0);
		for (int i = 0; i < 2 && spool__n(&spool); i++) {
			first(&spool, ++out);
			spool__remove(&spool, 0);
		}
		assert_int_equal(spool.bytes, spool__n(&spool) * SIZE);
	}
	while (spool__n(&spool)) {
		first(&spool, ++out);
		spool__remove(&spool, 0);
	}
	assert_int_equal(in, out);
	assert_int_equal(counts.dropped, 0);
	assert_int_equal(fstat(spool.fd, &status), 0);
	assert_int_equal(status.st_size, 0);
	spool__close(&spool);
}

static void no_room(void **state)
{
	struct push_counts counts = {};
	struct spool spool;

	assert_int_equal(spool__open(&spool, 3 * SIZE + 10), 0);
	for (uint32_t i = 1; i <= 3; i++)
		put(&spool, i, 1, &counts, 0);
	/* 1 is being sent. */
	put(&spool, 4, 1, &counts, 0);
	assert_int_equal(counts.dropped, 1);
	assert_int_equal(counts.dropped_samples, 2);
	first(&spool, 1);
	spool__remove(&spool, 0);
	first(&spool, 3);
	spool__remove(&spool, 0);
	first(&spool, 4);
	spool__close(&spool);
	/* Not even one. */
	assert_int_equal(spool__open(&spool, SIZE - 1), 0);
	put(&spool, 1, 0, &counts, -ENOSPC);
	assert_int_equal(counts.dropped, 1);
	spool__close(&spool);
}

static void answers(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		uint64_t rejected;
		const char *words;
	} rows[] = {
		{"", 0, 0, ""},
		{"\x0a\x02\x08\x07", 4, 7, ""},
		/* The words first, a number of two bytes, and a field that nobody knows. */
		{"\x18\x01\x0a\x08\x12\x03" "old\x08\xac\x02", 12, 300, "old"},
		/* Less than none. */
		{"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, 0, ""},
		/* Cut, longer than it is, no message at all. */
		{"\x0a\x08\x12\x03ol", 6, 0, ""},
		{"\x0a\x04\x08\x07", 4, 0, ""},
		{"<html>", 6, 0, ""},
	};
	struct push_answer answer;
	char text[200] = "\x0a\xb3\x01\x08\x05\x12\xae\x01";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		push_answer__read(rows[i].bytes, rows[i].len, &answer);
		assert_int_equal(answer.rejected, rows[i].rejected);
		assert_int_equal(answer.len, strlen(rows[i].words));
		assert_memory_equal(answer.words, rows[i].words, answer.len);
	}
	/* Words of 174 bytes: both lengths have two. */
	memset(text + 8, 'x', 174);
	push_answer__read(text, 8 + 174, &answer);
	assert_int_equal(answer.rejected, 5);
	assert_int_equal(answer.len, 174);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(no_room),
		cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
