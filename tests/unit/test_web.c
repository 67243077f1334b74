/* SPDX-License-Identifier: MIT */
/* The page's server: who is answered (guard.c), and what a reader of the feed gets, whenever it comes and however
 * slowly it reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "events/events.h"
#include "base/nameless.h"
#include "web/web.h"

#define TOKEN "00112233445566778899aabbccddeeff00112233"
#define PAGE "/" TOKEN "/"

static unsigned judge(struct web_request request, const char **ret_name)
{
	const char *name;

	if (!request.method)
		request.method = "GET";
	if (!request.hosts)
		request.hosts = 1;
	return web__judge(&request, 8080, TOKEN, ret_name ?: &name);
}

static void test_who_is_answered(void **state)
{
	static const struct {
		unsigned status;
		struct web_request request;
	} cases[] = {
		{0, {.path = PAGE, .host = "127.0.0.1:8080"}},
		{0, {.path = PAGE "events", .host = "127.0.0.1:8080", .origin = "http://127.0.0.1:8080", .fetch_site = "same-origin"}},
		/* A link in a file, or typed. */
		{0, {.path = PAGE, .host = "127.0.0.1:8080", .fetch_site = "cross-site", .fetch_dest = "document"}},
		{0, {.path = PAGE, .host = "127.0.0.1:8080", .fetch_site = "none", .fetch_dest = "document"}},
		/* DNS rebinding, and names that only resemble ours. */
		{403, {.path = PAGE, .host = "evil.example:8080"}},
		{403, {.path = PAGE, .host = "127.0.0.1.evil.example:8080"}},
		{403, {.path = PAGE, .host = "127.0.0.1:80801"}},
		{403, {.path = PAGE, .host = "127.0.0.1"}},
		{403, {.path = PAGE, .host = "localhost:8080"}},
		{403, {.path = PAGE, .host = ""}},
		{403, {.path = PAGE}},
		{403, {.path = PAGE, .host = "127.0.0.1:8080", .hosts = 2}},
		/* Another origin. */
		{403, {.path = PAGE, .host = "127.0.0.1:8080", .origin = "http://evil.example"}},
		{403, {.path = PAGE, .host = "127.0.0.1:8080", .origin = "null"}},
		{403, {.path = PAGE, .host = "127.0.0.1:8080", .origin = "http://127.0.0.1:8081"}},
		{403, {.path = PAGE, .host = "127.0.0.1:8080", .origin = "https://127.0.0.1:8080"}},
		{403, {.path = PAGE "events", .host = "127.0.0.1:8080", .fetch_site = "cross-site", .fetch_dest = "empty"}},
		{403, {.path = PAGE "events", .host = "127.0.0.1:8080", .fetch_site = "same-site", .fetch_dest = "document"}},
		{403, {.path = PAGE, .host = "127.0.0.1:8080", .fetch_site = "cross-site", .fetch_dest = "iframe"}},
		/* No token, a wrong one, a part of it. */
		{404, {.path = "/", .host = "127.0.0.1:8080"}},
		{404, {.path = "", .host = "127.0.0.1:8080"}},
		{404, {.path = "/favicon.ico", .host = "127.0.0.1:8080"}},
		{404, {.path = "/" TOKEN, .host = "127.0.0.1:8080"}},
		{404, {.path = "//" TOKEN "/", .host = "127.0.0.1:8080"}},
		{404, {.path = "/00112233445566778899aabbccddeeff00112234/", .host = "127.0.0.1:8080"}},
		{404, {.path = "/10112233445566778899aabbccddeeff00112233/", .host = "127.0.0.1:8080"}},
		{404, {.path = "/00112233/", .host = "127.0.0.1:8080"}},
		{404, {.path = "/" TOKEN TOKEN "/", .host = "127.0.0.1:8080"}},
		/* Nothing is changed by a request. */
		{405, {.path = PAGE, .host = "127.0.0.1:8080", .method = "POST", .body = true}},
		{405, {.path = PAGE "save", .host = "127.0.0.1:8080", .method = "PUT"}},
		{405, {.path = PAGE, .host = "127.0.0.1:8080", .method = "get"}},
		{413, {.path = PAGE, .host = "127.0.0.1:8080", .body = true}},
	};
	const char *name;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned status = judge(cases[i].request, NULL);

		if (status != cases[i].status)
			fail_msg("case %zu: %u, not %u", i, status, cases[i].status);
	}
	assert_int_equal(judge((struct web_request){.path = PAGE "../../etc/passwd", .host = "127.0.0.1:8080"}, &name), 0);
	/* A name among a list of names, not a path. */
	assert_string_equal(name, "../../etc/passwd");
}

/* --- the feed --- */

static struct feed *new_feed(void)
{
	struct feed *feed;
	int fd;

	assert_int_equal(temporary__open(&fd), 0);
	assert_int_equal(feed__new(fd, &feed), 0);
	return feed;
}

static void put_line(struct feed *feed, struct buf *all, unsigned n)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "{\"line\":%u,\"square\":%u}\n", n, n * n);

	assert_int_equal(feed__lines(feed, line, (size_t)len), 0);
	assert_int_equal(buf__append(all, line, (size_t)len), 0);
}

/* Up to `most` bytes of what there is, in pieces of `piece`. */
static int take(struct feed_reader *reader, struct buf *got, size_t most, size_t piece)
{
	char text[4096];
	size_t len;
	int err = 0;

	while (most && !err) {
		err = feed_reader__read(reader, text, most < piece ? most : piece, &len);
		if (err || !len)
			break;
		buf__append(got, text, len);
		most -= len;
	}
	return err;
}

static void assert_same(const struct buf *got, const struct buf *want)
{
	assert_int_equal(got->len, want->len);
	assert_memory_equal(got->data, want->data, want->len);
}

static void test_readers(void **state)
{
	struct feed *feed = new_feed();
	struct feed_reader *readers[6] = {};
	struct buf got[6] = {}, all = {};
	/* Bytes a round: all at once; a bit less than comes; nearly nothing; all in small pieces. Two come late. */
	const size_t most[6] = {1 << 20, 300, 7, 1 << 20, 1 << 20, 50}, pieces[6] = {4096, 64, 7, 1, 4096, 13};
	unsigned round, line = 0, i;

	for (round = 0; round < 300; round++) {
		for (i = 0; i < 6; i++)
			if (!readers[i] && (i < 4 || round == 30 * i))
				assert_int_equal(feed_reader__new(feed, &readers[i]), 0);
		for (i = 0; i < 11; i++)
			put_line(feed, &all, line++);
		for (i = 0; i < 6; i++)
			if (readers[i])
				assert_int_equal(take(readers[i], &got[i], most[i], pieces[i]), 0);
		if (round % 7 == 3)
			assert_int_equal(feed__flush(feed), 0);
		assert_same(&got[0], &all); /* who reads all has all, flushed or not */
	}
	feed__end(feed);
	for (i = 0; i < 6; i++) {
		assert_int_equal(take(readers[i], &got[i], 1 << 24, 4096), -ENODATA);
		assert_same(&got[i], &all);
		feed_reader__free(readers[i]);
		buf__free(&got[i]);
	}
	buf__free(&all);
	feed__free(feed);
}

/* A flood is flushed by its size, and a reader that reads nothing holds none of it. */
static void test_flood(void **state)
{
	struct feed *feed = new_feed();
	struct feed_reader *reader;
	struct buf all = {}, got = {};
	unsigned i;

	assert_int_equal(feed_reader__new(feed, &reader), 0);
	for (i = 0; i < 200000; i++)
		put_line(feed, &all, i);
	feed__end(feed);
	assert_int_equal(take(reader, &got, 1 << 30, 4096), -ENODATA);
	assert_same(&got, &all);
	feed_reader__free(reader);
	feed__free(feed);
	buf__free(&all);
	buf__free(&got);
}

/* --- a snapshot is a recording --- */

struct kinds {
	struct event_sink sink;
	unsigned hellos, ledgers, ends;
};

static int count(struct event_sink *self, const struct event *event)
{
	struct kinds *kinds = (struct kinds *)self;

	kinds->hellos += event->kind == EVENT_HELLO;
	kinds->ledgers += event->kind == EVENT_LEDGER;
	kinds->ends += event->kind == EVENT_END;
	return 0;
}

static void assert_snapshot(struct feed *feed, unsigned ledgers)
{
	struct kinds kinds = {.sink.event = count};
	bool cut;
	int fd;

	assert_int_equal(feed__flush(feed), 0);
	assert_int_equal(feed__snapshot(feed, &fd), 0);
	assert_int_equal(recording__read(fd, false, &kinds.sink, &cut), 0);
	assert_false(cut);
	assert_int_equal(kinds.hellos, 1);
	assert_int_equal(kinds.ledgers, ledgers);
	assert_int_equal(kinds.ends, 1);
	close(fd);
}

static void put(struct feed *feed, const char *line)
{
	assert_int_equal(feed__lines(feed, line, strlen(line)), 0);
}

static void test_snapshot(void **state)
{
	struct feed *feed = new_feed();

	put(feed, "{\"ev\":\"hello\",\"major\":1,\"minor\":0}\n{\"ev\":\"session\",\"id\":1,\"pid\":1,\"rate\":999,\"monotonic\":1}\n");
	assert_snapshot(feed, 0);
	put(feed, "{\"ev\":\"ledger\",\"time\":2,\"samples\":0,\"whole\":0,\"losses\":{}}\n");
	assert_snapshot(feed, 1);
	put(feed, "{\"ev\":\"end\",\"time\":3,\"reason\":\"exited\",\"detail\":\"\"}\n");
	feed__end(feed);
	assert_snapshot(feed, 1);
	feed__free(feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_is_answered),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_snapshot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
