/* SPDX-License-Identifier: MIT */
/* "_" is both the sign of an escape and a character of names, and is not escaped itself: "_28" is "(" or these three
 * characters. Two things decide: an escape stands for nothing that needs none (letters, digits, "_"), and Python's
 * names hold no other ASCII than <lambda>, <locals> and their like.
 *
 *    "_3clocals_3e"  ->  "<locals>"     "caf_c3_a9"  ->  "café" (UTF-8)     "a_2b"  ->  "a+" (types) */
#include "symbols/numba_text.h"

#include <stdint.h>
#include <string.h>

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The byte that "_xx" at text stands for, or -1. */
static int escaped(const char *text, size_t len)
{
	int high, low, c;

	if (len < 3 || text[0] != '_' || (high = digit(text[1])) < 0 || (low = digit(text[2])) < 0)
		return -1;
	c = high << 4 | low;
	return c < 0x20 || c == 0x7f || c == '_' || alnum((unsigned char)c) ? -1 : c;
}

/* A character beyond ASCII, as 2 to 4 escapes of its UTF-8 bytes. 0: it is none. Only well-formed UTF-8 (RFC 3629)
 * counts: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
static size_t wide(const char *text, size_t len, char ret[4])
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int c = escaped(text, len), next;
	uint32_t value;
	size_t n, i;

	if (c < 0xc2 || c > 0xf4)
		return 0;
	n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	value = (uint32_t)c & (0x7fu >> n);
	ret[0] = (char)c;
	for (i = 1; i < n; i++) {
		next = len > i * 3 ? escaped(text + i * 3, len - i * 3) : -1;
		if (next < 0x80 || next > 0xbf)
			return 0;
		value = value << 6 | ((uint32_t)next & 0x3f);
		ret[i] = (char)next;
	}
	return value < least[n] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : n;
}

int numba_text__identifier(const char *text, size_t len, struct buf *ret)
{
	static const char *const words[] = {"locals",  "lambda",  "listcomp", "dictcomp", "setcomp",
					    "genexpr", "dynamic", "module",   "string",	  "stdin"};
	size_t begin = ret->len, at, i, n;
	char c[4];
	int err;

	/* "<lambda>", and "<lambda>$3" of Numba before 0.55. */
	if (len > 6 && !memcmp(text, "_3c", 3))
		for (i = 0; i < sizeof(words) / sizeof(*words); i++) {
			n = strlen(words[i]);
			if (len < n + 6 || memcmp(text + 3, words[i], n) ||
			    memcmp(text + 3 + n, "_3e", 3))
				continue;
			err = buf__printf(ret, "<%s>", words[i]);
			if (err)
				return err;
			text += n + 6;
			len -= n + 6;
			break;
		}
	for (at = 0; at < len; at += n ? n * 3 : 1) {
		n = wide(text + at, len - at, c);
		err = n ? buf__append(ret, c, n) : buf__append(ret, text + at, 1);
		if (err) {
			ret->len = begin;
			return err;
		}
	}
	return 0;
}

bool numba_text__ends_in_number(const char *text, size_t len)
{
	size_t n = len;

	while (n && text[n - 1] >= '0' && text[n - 1] <= '9')
		n--;
	return n < len && (!n || (!alnum((unsigned char)text[n - 1]) && text[n - 1] != '_' &&
				  !((unsigned char)text[n - 1] & 0x80)));
}

/* The stack has room for 64 open brackets. Text that nests deeper is taken as balanced. */
bool numba_text__balanced(const char *text, size_t len)
{
	char open[64];
	size_t depth = 0, i;

	for (i = 0; i < len; i++) {
		char c = text[i], want = 0;

		if (c == '-' && i + 1 < len && text[i + 1] == '>') {
			i++;
			continue;
		}
		if (strchr("([{<", c) && c) {
			if (depth == sizeof(open))
				return true;
			open[depth++] = c;
			continue;
		}
		want = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : c == '>' ? '<' : 0;
		if (want && (!depth || open[--depth] != want))
			return false;
	}
	return !depth;
}

int numba_text__type(const char *text, size_t len, bool after_number, struct buf *ret)
{
	size_t begin = ret->len, at = 0, n;
	char wide_c[4];
	int err = 0, c;

	/* A part must not begin with a digit: "1.25)" is "1", "_25_29". */
	if (after_number && len > 1 && text[0] == '_' && text[1] >= '0' && text[1] <= '9')
		at = 1;
	for (; at < len && !err; at += n) {
		n = wide(text + at, len - at, wide_c);
		if (n) {
			err = buf__append(ret, wide_c, n);
			n *= 3;
			continue;
		}
		c = escaped(text + at, len - at);
		n = c > 0 && c < 0x80 ? 3 : 1;
		wide_c[0] = n == 3 ? (char)c : text[at];
		err = buf__append(ret, wide_c, 1);
	}
	if (err)
		ret->len = begin;
	return err;
}
