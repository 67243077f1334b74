/* SPDX-License-Identifier: MIT */
/* Names made safe for a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_text.h"
#include "base/safe_text.h"
#include "events/json.h"

static void escapes_are_visible(void **state)
{
	static const struct {
		const char *text, *safe;
	} cases[] = {
		{"plain \xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80", "plain \xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80"},
		{"\x1b]0;x\x07", "\\x1b]0;x\\x07"},
		{"a\nb\tc\rd\x7f", "a\\nb\\tc\\x0dd\\x7f"},
		{"\xc2\x9b" "31m", "\\x9b31m"},
		{"\xe2\x80\xae" "abc", "\\u202eabc"},
		{"\xe2\x81\xa6\xe2\x80\xa8\xd8\x9c\xef\xbb\xbf", "\\u2066\\u2028\\u061c\\ufeff"},
		{"\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", "\\ufffe\\uffff\xef\xbf\xbd"},
		{"\xf3\xa0\x81\x81", "\\U000e0041"},
		{"\xff\xc3", "\\xff\\xc3"},
		{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
		{"\xc0\x9b", "\\xc0\\x9b"},
		{"", ""},
	};
	struct buf out = {};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf__clear(&out);
		assert_int_equal(safe_text__append(&out, cases[i].text, strlen(cases[i].text)), 0);
		assert_int_equal(buf__append(&out, "", 1), 0);
		assert_string_equal(out.data, cases[i].safe);
		assert_int_equal(safe_text__is(cases[i].text), !strcmp(cases[i].text, cases[i].safe));
		assert_true(safe_text__is(out.data));
	}
	buf__clear(&out);
	assert_int_equal(safe_text__append(&out, "a\0b", 3), 0);
	assert_memory_equal(out.data, "a\\x00b", 6);
	buf__free(&out);
}

/* Random bytes: what comes out is safe, and what was safe comes out as it went in. */
static void anything_becomes_safe(void **state)
{
	struct buf out = {};
	char bytes[12];

	srandom(1);
	for (int round = 0; round < 200000; round++) {
		size_t len = (size_t)random() % sizeof(bytes);

		for (size_t i = 0; i < len; i++)
			bytes[i] = (char)(random() % 3 ? random() : 0x80 + random() % 0x40);
		buf__clear(&out);
		assert_int_equal(safe_text__append(&out, bytes, len), 0);
		assert_int_equal(safe_text__span(out.data ? out.data : "", out.len), out.len);
	}
	buf__free(&out);
}

static size_t plain_span(const char *text, size_t len, bool quoted)
{
	size_t at = 0;

	while (at < len && text[at] >= 0x20 && text[at] <= 0x7e && !(quoted && strchr("\"\\", text[at])))
		at++;
	return at;
}

/* Eight bytes at once find the same as one by one, at any offset, with each byte and each pair of neighbours. */
static void runs_end_where_they_must(void **state)
{
	char bytes[24];

	memset(bytes, 'x', sizeof(bytes));
	for (unsigned pair = 0; pair < 1u << 16; pair++) {
		size_t at = pair % 21;

		bytes[at] = (char)(pair >> 8);
		bytes[at + 1] = (char)pair;
		for (size_t from = 0; from < 3; from++)
			for (int quoted = 0; quoted < 2; quoted++)
				assert_int_equal(ascii__span(bytes + from, sizeof(bytes) - from, quoted),
						 plain_span(bytes + from, sizeof(bytes) - from, quoted));
		bytes[at] = bytes[at + 1] = 'x';
	}
}

/* JSON has the same characters, exactly. */
static void json_is_exact(void **state)
{
	struct buf out = {};

	assert_int_equal(json__string(&out, "\x1b\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\x7f\xc3\xa4"), 0);
	assert_int_equal(buf__append(&out, "", 1), 0);
	assert_string_equal(out.data, "\"\\u001b\\u009b\\u202e\\udb40\\udc41\\u007f\xc3\xa4\"");
	buf__free(&out);
}

static void cut_between_characters(void **state)
{
	char four[4];

	text__copy(four, sizeof(four), "ab\xc3\xa4");
	assert_string_equal(four, "ab");
	text__copy(four, sizeof(four), "a\xc3\xa4z");
	assert_string_equal(four, "a\xc3\xa4");
	text__copy(four, sizeof(four), "abc");
	assert_string_equal(four, "abc");
}

static void any_text_is_a_json_string(void **state)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
		{"", ""},
		{"plain \xc3\xa4\x1b", "plain \xc3\xa4\x1b"},
		{"/tmp/\xe4/\xc3\xa4", "/tmp/" UTF8_REPLACEMENT "/\xc3\xa4"},
		{"cut \xe4\xb8", "cut " UTF8_REPLACEMENT UTF8_REPLACEMENT},
		{"\xed\xa0\x80", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = json__text(cases[i].text);

		assert_string_equal(json_string_value(json), cases[i].json);
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes_are_visible),
		cmocka_unit_test(anything_becomes_safe), cmocka_unit_test(runs_end_where_they_must),
		cmocka_unit_test(json_is_exact),
		cmocka_unit_test(cut_between_characters),
		cmocka_unit_test(any_text_is_a_json_string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
