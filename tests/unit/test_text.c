/* SPDX-License-Identifier: MIT */
/* Decoding of Python strings. Expected bytes are those of CPython's str.encode("utf-8", "backslashreplace"). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "name/text.h"

#define CHARACTERS(type, ...) (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__})

/* From a block of exactly `len` bytes at an odd address, as captures pack them. */
static int decode(const void *data, size_t len, unsigned kind, bool ascii, struct buf *ret)
{
	uint8_t *copy = malloc(len + 1);
	int err;

	assert_non_null(copy);
	if (len)
		memcpy(copy + 1, data, len);
	err = text__from_unicode(copy + 1, len, kind, ascii, ret);
	free(copy);
	return err;
}

static void assert_text(const void *data, size_t len, unsigned kind, bool ascii,
			const char *expected, size_t expected_len)
{
	struct buf buf = {};

	assert_int_equal(buf__puts(&buf, ">"), 0);
	assert_int_equal(decode(data, len, kind, ascii, &buf), 0);
	assert_int_equal(buf.len, expected_len + 1);
	assert_int_equal(buf.data[0], '>');
	if (expected_len)
		assert_memory_equal(buf.data + 1, expected, expected_len);
	buf__free(&buf);
}

static void assert_refused(const void *data, size_t len, unsigned kind, bool ascii)
{
	struct buf buf = {};

	assert_int_equal(buf__puts(&buf, "kept"), 0);
	assert_int_equal(decode(data, len, kind, ascii, &buf), -EBADMSG);
	assert_int_equal(buf.len, 4);
	assert_memory_equal(buf.data, "kept", 4);
	buf__free(&buf);
}

#define TEXT(literal) literal, sizeof(literal) - 1

static void test_ascii(void **state)
{
	assert_text(TEXT("<lambda>"), 1, true, TEXT("<lambda>"));
	assert_text(TEXT("a\0\t\x1f\x7f"), 1, true, TEXT("a\0\t\x1f\x7f"));
	assert_text(NULL, 0, 1, true, TEXT(""));
	assert_text(NULL, 0, 4, false, TEXT(""));
}

static void test_latin_1(void **state)
{
	assert_text(TEXT("\x7f\x80\xbf\xc0\xe9\xff"), 1, false,
		    TEXT("\x7f\xc2\x80\xc2\xbf\xc3\x80\xc3\xa9\xc3\xbf"));
}

static void test_ucs2(void **state)
{
	assert_text(CHARACTERS(uint16_t, 'x', 0x7ff, 0x800, 0x20ac, 0xffff), 2, false,
		    TEXT("x\xdf\xbf\xe0\xa0\x80\xe2\x82\xac\xef\xbf\xbf"));
	/* A str holds no surrogate pairs: these are two characters. */
	assert_text(CHARACTERS(uint16_t, 0xd7ff, 0xd83d, 0xdcff, 0xe000), 2, false,
		    TEXT("\xed\x9f\xbf\\ud83d\\udcff\xee\x80\x80"));
}

static void test_ucs4(void **state)
{
	assert_text(CHARACTERS(uint32_t, 'x', 0xff, 0x20ac, 0xdfff, 0x10000, 0x1f40d, 0x10ffff), 4,
		    false,
		    TEXT("x\xc3\xbf\xe2\x82\xac\\udfff\xf0\x90\x80\x80\xf0\x9f\x90\x8d"
			 "\xf4\x8f\xbf\xbf"));
}

static void test_long_text_grows_the_buffer(void **state)
{
	uint16_t surrogates[5000];
	struct buf buf = {};

	for (size_t i = 0; i < 5000; i++)
		surrogates[i] = 0xdc80;
	assert_int_equal(decode(surrogates, sizeof surrogates, 2, false, &buf), 0);
	assert_int_equal(buf.len, 30000);
	for (size_t i = 0; i < buf.len; i += 6)
		assert_memory_equal(buf.data + i, "\\udc80", 6);
	buf__free(&buf);
}

static void test_what_no_str_holds(void **state)
{
	assert_refused(TEXT("abcd"), 0, false);
	assert_refused(TEXT("abcd"), 3, false);
	assert_refused(TEXT("abcd"), 7, false);
	assert_refused(TEXT("abcd"), 2, true);
	assert_refused(TEXT("abc\x80"), 1, true);
	assert_refused(TEXT("abc"), 2, false);
	assert_refused(TEXT("abcdef"), 4, false);
	assert_refused(CHARACTERS(uint32_t, 'x', 0x110000), 4, false);
	assert_refused(CHARACTERS(uint32_t, 0xffffffff), 4, false);
	assert_refused(TEXT(""), 0, false);
}

static void test_length_beyond_memory(void **state)
{
	struct buf buf = {};
	char one = 'x';

	assert_int_equal(text__from_unicode(&one, SIZE_MAX, 1, false, &buf), -ENOMEM);
	assert_int_equal(buf.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ascii),
		cmocka_unit_test(test_latin_1),
		cmocka_unit_test(test_ucs2),
		cmocka_unit_test(test_ucs4),
		cmocka_unit_test(test_long_text_grows_the_buffer),
		cmocka_unit_test(test_what_no_str_holds),
		cmocka_unit_test(test_length_beyond_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
