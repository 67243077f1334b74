/* SPDX-License-Identifier: MIT */
/* The codec of events: the output is valid JSON (by jansson) and decodes to equal events, and every violation of the
 * protocol is refused. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "events_util.h"
#include "events/json.h"

#define SETUP                                                                                      \
	"{\"ev\":\"epoch\",\"number\":1,\"time\":5}\n"                                             \
	"{\"ev\":\"process\",\"id\":0,\"pid\":10,\"time\":5}\n"                                    \
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":10,\"time\":5}\n"                       \
	"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"f\",\"f.py\",1,\"\",0]]}\n"                \
	"{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,2,7,3]]}\n"                                   \
	"{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0],[1,0]]}\n"

static int feed(struct event_decoder *decoder, const char *lines, struct event_sink *sink)
{
	int err = 0;

	while (*lines && !err) {
		size_t len = strcspn(lines, "\n");

		err = event_decoder__line(decoder, lines, len, sink);
		lines += len + (lines[len] == '\n');
	}
	return err;
}

/* Decodes `lines` after SETUP; the last error. */
static int decode(const char *lines)
{
	struct echo echo = ECHO_INIT;
	struct event_decoder *decoder;
	int err;

	assert_int_equal(event_decoder__new(&decoder), 0);
	assert_int_equal(feed(decoder, SETUP, &echo.sink), 0);
	err = feed(decoder, lines, &echo.sink);
	event_decoder__free(decoder);
	buf__free(&echo.lines);
	return err;
}

static void refuses(void **state)
{
	static const char *const bad[] = {
		"",
		"x",
		"[]",
		"1",
		"null",
		"{",
		"{}",
		"{\"ev\":1}",
		"{\"ev\":\"end\"}",
		"{\"ev\":\"end\",\"time\":-1}",
		"{\"ev\":\"end\",\"time\":1.0}",
		"{\"ev\":\"end\",\"time\":\"1\"}",
		"{\"ev\":\"end\",\"time\":9223372036854775808}",
		"{\"ev\":\"end\",\"time\":1,\"time\":2}",
		"{\"ev\":\"end\",\"time\":1,\"reason\":5}",
		"{\"ev\":\"end\",\"time\":1}}",
		"{\"ev\":\"end\",\"time\":1,\"reason\":\"\xff\"}",
		"{\"ev\":\"epoch\",\"number\":4294967296,\"time\":1}",
		"{\"ev\":\"process\",\"id\":2,\"pid\":1,\"time\":1}", /* a hole in the ids */
		"{\"ev\":\"process\",\"id\":1,\"pid\":2147483648,\"time\":1}",
		"{\"ev\":\"thread\",\"id\":1,\"process\":1,\"tid\":1,\"time\":1}", /* no such
										      process */
		"{\"ev\":\"thread\",\"id\":5,\"process\":0,\"tid\":1,\"time\":1}",
		"{\"ev\":\"thread_end\",\"id\":1,\"time\":1}",
		"{\"ev\":\"process_end\",\"id\":1,\"time\":1}",
		"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"g\",\"\",0]]}", /* does not go on
										   from 1 */
		"{\"ev\":\"functions\",\"first\":2,\"rows\":[]}",
		"{\"ev\":\"functions\",\"first\":1}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":{}}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[[\"g\",\"\"]]}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[[null,\"\",0]]}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[[\"g\",\"\",0,\"\",256]]}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[{}]}",
		"{\"ev\":\"frames\",\"first\":1,\"rows\":[[1,0,0,0]]}", /* no such function */
		"{\"ev\":\"frames\",\"first\":1,\"rows\":[[0,-2147483649,0,0]]}",
		"{\"ev\":\"stacks\",\"first\":3,\"rows\":[[3,0]]}", /* its own parent */
		"{\"ev\":\"stacks\",\"first\":3,\"rows\":[[0,1]]}",
		"{\"ev\":\"stacks\",\"first\":2,\"rows\":[[0,0]]}",
		"{\"ev\":\"samples\"}",
		"{\"ev\":\"samples\",\"t\":5}",
		"{\"ev\":\"samples\",\"t\":[-1]}",
		"{\"ev\":\"samples\",\"t\":[5,-6]}",
		"{\"ev\":\"samples\",\"t\":[9223372036854775807,1]}",
		"{\"ev\":\"samples\",\"t\":[1,1],\"wall\":[1]}",
		"{\"ev\":\"samples\",\"t\":[1],\"cpu\":[true]}",
		"{\"ev\":\"samples\",\"t\":[1],\"thread\":[1]}",
		"{\"ev\":\"samples\",\"t\":[1],\"stack\":[3]}",
		"{\"ev\":\"samples\",\"t\":[1],\"stack\":[-1]}",
		"{\"ev\":\"samples\",\"t\":[1],\"cpu\":1}",
		"{\"ev\":\"samples\",\"t\":[1],\"class\":[4294967296]}",
		"{\"ev\":\"unit_ends\",\"id\":[]}",
		"{\"ev\":\"unit_ends\",\"t\":[1]}",
		"{\"ev\":\"unit_ends\",\"t\":[1],\"id\":[1]}", /* no such unit */
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"c\",\"f\",\"\",1,0]]}\n{\"ev\":\"unit_ends\",\"t\":[1,1],\"id\":[1]}",
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"c\",\"f\",\"\",1,0]]}\n{\"ev\":\"unit_ends\",\"t\":[1],\"id\":[0]}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"losses\":[]}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"losses\":{\"x\":-1}}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"native\":-1}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"native\":\"1\"}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"stops\":{}}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"stops\":[1]}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"stops\":[[\"a\",\"b\",1]]}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"stops\":[[\"a\",1,1,1]]}",
		"{\"ev\":\"ledger\",\"time\":1,\"samples\":1,\"whole\":1,\"stops\":[[\"a\",\"b\",1,-1]]}",
		"{\"ev\":\"hello\",\"major\":1,\"minor\":0,\"features\":[1]}",
		"{\"ev\":\"hello\",\"major\":1,\"minor\":0,\"features\":\"x\"}",
		/* after an epoch nothing is known */
		"{\"ev\":\"epoch\",\"number\":2,\"time\":9}\n{\"ev\":\"samples\",\"t\":[10]}",
	};
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (decode(bad[i][0] ? bad[i] : " ") != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(decode("{\"ev\":\"hello\",\"major\":2,\"minor\":0}"), -EPROTONOSUPPORT);
}

static void takes(void **state)
{
	static const char *const good[] = {
		"{\"ev\":\"dance\",\"partner\":[1,{}]}",
		"{\"ev\":\"end\",\"time\":9223372036854775807,\"new\":{\"key\":[]}}\r",
		"{\"ev\":\"process\",\"id\":0,\"pid\":10,\"time\":5,\"name\":\"renamed\"}",
		"{\"ev\":\"process\",\"id\":1,\"pid\":11,\"time\":5}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[[\"g\",\"\",0,\"m\",1,\"later "
		"minor\"]]}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[]}",
		"{\"ev\":\"hello\",\"major\":1,\"minor\":0}",
		"{\"ev\":\"hello\",\"major\":1,\"minor\":99}",
		"{\"ev\":\"unit_ends\",\"t\":[]}",
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"c\",\"f\",\"\",1,0]]}\n{\"ev\":\"unit_ends\",\"t\":[5,-2],\"id\":[1,1]}",
		"{\"ev\":\"functions\",\"first\":1,\"rows\":[[\"g\",\"\",0,\"m\",4],"
		"[\"h\",\"\",0,\"m\",5],[\"of a later minor\",\"\",0,\"m\",200]]}",
		"{\"ev\":\"stacks\",\"first\":3,\"rows\":[[2,0],[3,0],[0,0]]}",
		"{\"ev\":\"samples\",\"t\":[]}",
		"{\"ev\":\"samples\",\"t\":[7,-3],\"stack\":[2,0],\"new\":[\"a\"]}",
		"{\"ev\":\"epoch\",\"number\":2,\"time\":9}\n{\"ev\":\"stacks\",\"first\":1,"
		"\"rows\":[]}",
	};
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (decode(good[i]))
			fail_msg("refused: %s", good[i]);
}

static void samples_are_columns_of_deltas(void **state)
{
	const struct sample_row rows[] = {{.time = 1000, .wall = 7, .thread = 1},
					  {.time = 1010, .wall = 8},
					  {.time = 1005, .stack = 3}};
	const struct event event = {.kind = EVENT_SAMPLES, .samples = {3, rows}};
	struct buf out = {};

	assert_int_equal(event__encode(&event, &out), 0);
	assert_int_equal(buf__append(&out, "", 1), 0);
	assert_string_equal(out.data, "{\"ev\":\"samples\",\"t\":[1000,10,-5],\"wall\":[7,8,0],"
				      "\"thread\":[1,0,0],\"stack\":[0,0,3]}\n");
	buf__free(&out);
}

#define UNITS "{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"C\",\"f\",\"\",5],[1,0,1,\"C\",\"p\",\"\",6,2]]}\n"
#define LINES "{\"ev\":\"lines\",\"first\":1,\"rows\":[[0,1,\"a.py\",5],[1,2,\"b.py\",6]]}\n"

struct keep {
	struct event_sink sink;
	struct sample_row rows[4];
	uint32_t n;
};

static int keep_samples(struct event_sink *self, const struct event *event)
{
	struct keep *keep = (struct keep *)self;

	if (event->kind == EVENT_SAMPLES) {
		keep->n = event->samples.n;
		memcpy(keep->rows, event->samples.rows, keep->n * sizeof(keep->rows[0]));
	}
	return 0;
}

static void samples_come_back(void **state)
{
	struct keep keep = {.sink = {keep_samples}};
	const struct sample_row want[] = {
		{INT64_MAX, INT64_MAX, INT64_MAX, 0, 2, UINT32_MAX, 2, UINT32_MAX, UINT32_MAX, 0, 2, 5, INT64_MAX, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, INT64_MAX, 0, 2, 0, 0},
		{12, 11, 10, 0, 1, 9, 1, 7, 3, 0, 1, 0, 6, 1, 0, 0},
	};
	const struct event event = {.kind = EVENT_SAMPLES, .samples = {3, want}};
	struct event_decoder *decoder;
	struct buf out = {};
	size_t i;

	assert_int_equal(event_decoder__new(&decoder), 0);
	assert_int_equal(feed(decoder, SETUP, &keep.sink), 0);
	assert_int_equal(event__encode(&event, &out), 0);
	assert_int_equal(event_decoder__line(decoder, out.data, out.len, &keep.sink), -EBADMSG); /* no units yet */
	assert_int_equal(feed(decoder, UNITS, &keep.sink), 0);
	assert_int_equal(event_decoder__line(decoder, out.data, out.len, &keep.sink), -EBADMSG); /* no lines yet */
	assert_int_equal(feed(decoder, LINES, &keep.sink), 0);
	assert_int_equal(event_decoder__line(decoder, out.data, out.len, &keep.sink), 0);
	assert_int_equal(keep.n, 3);
	for (i = 0; i < 3; i++) { /* there is padding in a row */
		assert_memory_equal(&keep.rows[i], &want[i],
				    offsetof(struct sample_row, cause) + sizeof(uint32_t));
		assert_int_equal(keep.rows[i].others, want[i].others);
		assert_int_equal(keep.rows[i].given, want[i].given);
		assert_int_equal(keep.rows[i].line, want[i].line);
	}
	event_decoder__free(decoder);
	buf__free(&out);
}

static void numbers_beyond_63_bits_are_refused(void **state)
{
	const struct sample_row row = {.time = 1ull << 63};
	const struct event samples = {.kind = EVENT_SAMPLES, .samples = {1, &row}};
	const struct event end = {.kind = EVENT_END, .end = {.time = UINT64_MAX}};
	struct buf out = {};

	assert_int_equal(buf__puts(&out, "before"), 0);
	assert_int_equal(event__encode(&samples, &out), -ERANGE);
	assert_int_equal(event__encode(&end, &out), -ERANGE);
	assert_int_equal(out.len, 6);
	buf__free(&out);
}

/* Any bytes: jansson, a JSON reader that checks UTF-8, must take the string. */
static void any_bytes_are_a_string(void **state)
{
	static const struct {
		const char *in, *out;
	} known[] = {
		{"", ""},
		{"a\"b\\c\n\t\x01\x7f", "a\"b\\c\n\t\x01\x7f"},
		{"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x8d",
		 "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x8d"},
		{"a\xff"
		 "b",
		 "a\xef\xbf\xbd"
		 "b"},
		{"\xc3", "\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{NULL, ""},
	};
	unsigned seed = 1;
	size_t i, j;

	for (i = 0; i < 20000; i++) {
		char bytes[33] = {};
		struct buf out = {};
		json_t *json;

		for (j = 0; j < sizeof(bytes) - 1; j++) /* mostly lead and continuation bytes */
			bytes[j] = (char)(rand_r(&seed) % 4 ? 0x80 + rand_r(&seed) % 0x80
							    : 1 + rand_r(&seed) % 0xff);
		assert_int_equal(json__string(&out, i < sizeof(known) / sizeof(known[0])
							    ? known[i].in
							    : bytes),
				 0);
		json = json_loadb(out.data, out.len, JSON_DECODE_ANY, NULL);
		if (!json)
			fail_msg("not JSON: %.*s", (int)out.len, out.data);
		if (i < sizeof(known) / sizeof(known[0]))
			assert_string_equal(json_string_value(json), known[i].out);
		json_decref(json);
		buf__free(&out);
	}
}

static void long_strings_are_cut_between_characters(void **state)
{
	size_t len = EVENTS_STRING_MAX + 100, i;
	char *text = malloc(len + 1);
	struct buf out = {};
	json_t *json;

	text[0] = 'x'; /* puts a 3-byte character across the limit */
	for (i = 1; i + 3 <= len; i += 3)
		memcpy(text + i, "\xe2\x82\xac", 3);
	text[i] = 0;
	assert_int_equal(json__string(&out, text), 0);
	json = json_loadb(out.data, out.len, JSON_DECODE_ANY, NULL);
	assert_non_null(json);
	i = json_string_length(json);
	assert_true(i <= EVENTS_STRING_MAX + 3 && i > EVENTS_STRING_MAX - 3);
	assert_string_equal(json_string_value(json) + i - 3, "\xe2\x80\xa6");
	json_decref(json);
	buf__free(&out);
	free(text);
}

static void integers(void **state)
{
	static const int64_t values[] = {0, 1, -1, 9, 10, INT64_MAX, INT64_MIN};
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct buf out = {};
		char want[32];

		assert_int_equal(json__i64(&out, values[i]), 0);
		assert_int_equal(buf__append(&out, "", 1), 0);
		snprintf(want, sizeof(want), "%lld", (long long)values[i]);
		assert_string_equal(out.data, want);
		buf__free(&out);
	}
}

/* 300,000 rows: too many for a line; they arrive in several, in order. */
static void big_batches_are_split(void **state)
{
	uint32_t n = 300000, i;
	struct function_row *rows = calloc(n, sizeof(*rows));
	const struct event event = {.kind = EVENT_FUNCTIONS, .rows = {0, n, rows}};
	struct echo echo = ECHO_INIT;
	struct event_decoder *decoder;
	struct buf out = {};
	size_t at = 0, lines = 0;

	for (i = 0; i < n; i++)
		rows[i] = (struct function_row){"a_function_with_some_name",
						"/some/where/in/the/tree.py", i, "", 0};
	assert_int_equal(event__encode(&event, &out), 0);
	assert_int_equal(event_decoder__new(&decoder), 0);
	while (at < out.len) {
		size_t len = (size_t)((char *)memchr(out.data + at, '\n', out.len - at) -
				      (out.data + at)) +
			     1;

		assert_true(len <= EVENTS_LINE_MAX);
		assert_int_equal(event_decoder__line(decoder, out.data + at, len, &echo.sink), 0);
		at += len;
		lines++;
	}
	assert_true(lines >= 300000 / EVENTS_ROWS_MAX);
	assert_int_equal(echo.lines.len, out.len);
	assert_memory_equal(echo.lines.data, out.data, out.len);
	event_decoder__free(decoder);
	buf__free(&out);
	buf__free(&echo.lines);
	free(rows);
}

static void sink_errors_are_handed_up(void **state)
{
	struct echo echo = ECHO_INIT;
	struct event_decoder *decoder;

	echo.fail = -ENOSPC;
	assert_int_equal(event_decoder__new(&decoder), 0);
	assert_int_equal(feed(decoder, "{\"ev\":\"end\",\"time\":1}", &echo.sink), -ENOSPC);
	event_decoder__free(decoder);
	assert_null(event_decoder__free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses),
		cmocka_unit_test(takes),
		cmocka_unit_test(samples_are_columns_of_deltas),
		cmocka_unit_test(samples_come_back),
		cmocka_unit_test(numbers_beyond_63_bits_are_refused),
		cmocka_unit_test(any_bytes_are_a_string),
		cmocka_unit_test(long_strings_are_cut_between_characters),
		cmocka_unit_test(integers),
		cmocka_unit_test(big_batches_are_split),
		cmocka_unit_test(sink_errors_are_handed_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
