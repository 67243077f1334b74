/* SPDX-License-Identifier: MIT */
/* The JSON reader against jansson: texts by hand, and 200,000 random mutations of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "events/json_read.h"

static const char *const texts[] = {
	"{}",
	" { \"a\" : 1 , \"b\" : [ ] } \n",
	"{\"ev\":\"samples\",\"t\":[1,-2,3],\"wall\":[0,9223372036854775807,-9223372036854775808],\"x\":{\"y\":[[1,\"two\",true],[false,null]]}}",
	"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"f\\u00e9\\n\\\"\\\\\\/\\b\\f\\r\\t\",\"\xc3\xa9\xf0\x9f\x90\x8d\",-1],[\"\\ud83d\\udc0d\",\"\",0]]}",
	"{\"a\":1.5,\"b\":-0,\"c\":1e5,\"d\":-1.25E-3,\"e\":0.0}",
	"{\"a\":1,\"a\":2}",
	"{\"a\":{\"b\":1,\"b\":1}}",
	"{\"a\":9223372036854775808}",
	"{\"a\":-9223372036854775809}",
	"{\"a\":123456789012345678901234567890}",
	"{\"a\":01}",
	"{\"a\":-}",
	"{\"a\":1.}",
	"{\"a\":.5}",
	"{\"a\":1e}",
	"{\"a\":+1}",
	"{\"a\":\"\\u0000\"}",
	"{\"a\":\"\\ud800\"}",
	"{\"a\":\"\\udc00\"}",
	"{\"a\":\"\\ud800\\u0041\"}",
	"{\"a\":\"\\u12g4\"}",
	"{\"a\":\"\\x\"}",
	"{\"a\":\"\x01\"}",
	"{\"a\":\"\xff\"}",
	"{\"a\":\"\xc0\x80\"}",
	"{\"a\":\"\xed\xa0\x80\"}",
	"{\"a\":\"\xf4\x90\x80\x80\"}",
	"{\"a\":\"cut",
	"{\"a\":[1,]}",
	"{\"a\":[,1]}",
	"{\"a\":1,}",
	"{a:1}",
	"{\"a\" 1}",
	"{\"a\":tru}",
	"{\"a\":True}",
	"{}x",
	"{} {}",
	"",
	" ",
	"{",
	"{\"a\":[[[[[[]]]]]]}",
	"{\"01\":1,\"02\":2,\"03\":3,\"04\":4,\"05\":5,\"06\":6,\"07\":7,\"08\":8,\"09\":9,\"10\":1,\"11\":1,\"12\":1,\"13\":1,\"14\":1,\"15\":1,\"16\":1,"
	"\"17\":1,\"18\":1,\"19\":1,\"20\":1,\"21\":1,\"22\":1,\"23\":1,\"24\":1,\"25\":1,\"26\":1,\"27\":1,\"28\":1}",
	"{\"01\":1,\"02\":2,\"03\":3,\"04\":4,\"05\":5,\"06\":6,\"07\":7,\"08\":8,\"09\":9,\"10\":1,\"11\":1,\"12\":1,\"13\":1,\"14\":1,\"15\":1,\"16\":1,"
	"\"17\":1,\"18\":1,\"19\":1,\"20\":1,\"21\":1,\"22\":1,\"23\":1,\"24\":1,\"25\":1,\"26\":1,\"27\":1,\"03\":1}",
};
#define TEXTS (sizeof(texts) / sizeof(*texts))

static void same(const struct json_value *value, const json_t *truth)
{
	const struct json_value *at = json_value__first(value);
	const json_t *element;
	size_t i;

	switch (json_typeof(truth)) {
	case JSON_OBJECT:
		assert_int_equal(value->kind, JSON_OF_OBJECT);
		assert_int_equal(value->n, json_object_size(truth));
		for (i = 0; i < value->n; i++, at = json_value__next(at + 1)) {
			assert_int_equal(at->kind, JSON_OF_STRING);
			element = json_object_get(truth, at->string);
			assert_non_null(element);
			same(at + 1, element);
			assert_ptr_equal(json_value__member(value, at->string), at + 1);
		}
		assert_ptr_equal(at, json_value__next(value));
		return;
	case JSON_ARRAY:
		assert_int_equal(value->kind, JSON_OF_ARRAY);
		assert_int_equal(value->n, json_array_size(truth));
		for (i = 0; i < value->n; i++, at = json_value__next(at))
			same(at, json_array_get(truth, i));
		assert_ptr_equal(at, json_value__next(value));
		return;
	case JSON_STRING:
		assert_int_equal(value->kind, JSON_OF_STRING);
		assert_string_equal(value->string, json_string_value(truth));
		break;
	case JSON_INTEGER:
		assert_int_equal(value->kind, JSON_OF_INTEGER);
		assert_true(value->integer == json_integer_value(truth));
		break;
	case JSON_REAL:
		assert_int_equal(value->kind, JSON_OF_REAL);
		break;
	case JSON_TRUE:
		assert_int_equal(value->kind, JSON_OF_TRUE);
		break;
	case JSON_FALSE:
		assert_int_equal(value->kind, JSON_OF_FALSE);
		break;
	case JSON_NULL:
		assert_int_equal(value->kind, JSON_OF_NULL);
		break;
	}
	assert_int_equal(value->values, 1);
}

/* True: it is an object. */
static bool like_jansson(struct json_reader *reader, const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1); /* of its size: who reads behind it is found */
	const struct json_value *value;
	json_error_t why;
	json_t *truth;
	int err;

	memcpy(copy, text, len);
	truth = json_loadb(copy, len, JSON_REJECT_DUPLICATES, &why);
	err = json_reader__read(reader, copy, len, &value);
	free(copy);
	/* A real beyond a double's range is no value to jansson; here it is not converted. */
	if (!err && !truth && json_error_code(&why) == json_error_numeric_overflow)
		return false;
	if (err || !truth || !json_is_object(truth)) {
		if (err != -EBADMSG || (truth && json_is_object(truth)))
			fail_msg("%.*s: %d, jansson: %s", (int)len, text, err, truth ? "good" : why.text);
		json_decref(truth);
		return false;
	}
	same(value, truth);
	json_decref(truth);
	return true;
}

static void by_hand(void **state)
{
	struct json_reader reader = {};
	unsigned good = 0;

	for (size_t i = 0; i < TEXTS; i++)
		good += like_jansson(&reader, texts[i], strlen(texts[i]));
	assert_int_equal(good, 7);
	assert_false(like_jansson(&reader, "{\"a\":\"b\0c\"}", 11));
	assert_false(like_jansson(&reader, "{}\0", 3));
	assert_false(like_jansson(&reader, "[1]", 3));
	json_reader__free(&reader);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void by_chance(void **state)
{
	static const char often[] = "{}[]\",:\\u0123456789eE.+-tfn \xc3\xa9\xf0\x80";
	struct json_reader reader = {};
	uint32_t seed = 1, good = 0;
	char text[1024];

	for (unsigned round = 0; round < 200000; round++) {
		const char *from = texts[next_random(&seed) % TEXTS];
		size_t len = strlen(from);

		memcpy(text, from, len);
		for (unsigned n = next_random(&seed) % 3; n && len; n--) {
			const size_t at = next_random(&seed) % len;

			switch (next_random(&seed) % 3) {
			case 0:
				text[at] = often[next_random(&seed) % (sizeof(often) - 1)];
				break;
			case 1:
				memmove(text + at, text + at + 1, --len - at);
				break;
			case 2:
				memmove(text + at + 1, text + at, len++ - at);
				break;
			}
		}
		good += like_jansson(&reader, text, len);
	}
	assert_true(good > 10000);
	json_reader__free(&reader);
}

static void deep(void **state)
{
	struct json_reader reader = {};
	const struct json_value *value;
	static char text[200000];

	memset(text, '[', sizeof(text));
	memcpy(text, "{\"a\":", 5);
	assert_int_equal(json_reader__read(&reader, text, sizeof(text), &value), -EBADMSG);
	json_reader__free(&reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(by_chance), cmocka_unit_test(deep)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
