/* SPDX-License-Identifier: MIT */
/* UTF-8 is decoded by hand: overlong forms, surrogates and what is beyond U+10FFFF are invalid (Unicode 15, table
 * 3-7). */
#include "base/safe_text.h"

#include <endian.h>

size_t utf8__character(const char *text, size_t len, uint32_t *ret)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t need, i;

	if (s[0] < 0x80) {
		*ret = s[0];
		return 1;
	}
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	need = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (len < need || s[1] < low || s[1] > high)
		return 0;
	*ret = s[0] & (0x7fu >> need);
	for (i = 1; i < need; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*ret = *ret << 6 | (s[i] & 0x3f);
	}
	return need;
}

bool character__is_unsafe(uint32_t character)
{
	/* Past C1: Unicode's Bidi_Control, line and paragraph separators, invisible operators, annotations, what no XML may hold, tags. */
	static const struct {
		uint32_t first, last;
	} ranges[] = {{0, 0x1f},	  {0x7f, 0x9f},	    {0x61c, 0x61c},   {0x200b, 0x200b}, {0x200e, 0x200f},
		      {0x2028, 0x202e},	  {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe007f}};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && character >= ranges[i].first; i++)
		if (character <= ranges[i].last)
			return true;
	return false;
}

#define EACH_BYTE(c) (UINT64_MAX / 255 * (c))

/* The uppermost bit of each byte of `word` that is 0. Only the first one is sure: the subtraction may borrow from the
 * bytes above it. */
static uint64_t zeros(uint64_t word)
{
	return (word - EACH_BYTE(1)) & ~word & EACH_BYTE(0x80);
}

/* The uppermost bit of each byte that ends the span, as in zeros(). */
static uint64_t ends(uint64_t word, bool quoted)
{
	const uint64_t below = (word - EACH_BYTE(' ')) & ~word & EACH_BYTE(0x80);
	const uint64_t above = (((word & EACH_BYTE(0x7f)) + EACH_BYTE(1)) | word) & EACH_BYTE(0x80);

	return below | above | (quoted ? zeros(word ^ EACH_BYTE('"')) | zeros(word ^ EACH_BYTE('\\')) : 0);
}

size_t ascii__span(const char *text, size_t len, bool quoted)
{
	uint64_t word, found;
	size_t at = 0;

	for (; len - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, text + at, sizeof(word));
		found = ends(le64toh(word), quoted);
		if (found)
			return at + (unsigned)__builtin_ctzll(found) / 8;
	}
	while (at < len && text[at] >= ' ' && text[at] < 0x7f && !(quoted && (text[at] == '"' || text[at] == '\\')))
		at++;
	return at;
}

size_t safe_text__span(const char *text, size_t len)
{
	uint32_t character;
	size_t at = 0, n;

	while ((at += ascii__span(text + at, len - at, false)) < len) {
		n = utf8__character(text + at, len - at, &character);
		if (!n || character__is_unsafe(character))
			break;
		at += n;
	}
	return at;
}

static int append_escape(struct buf *out, uint32_t character)
{
	if (character == '\n' || character == '\t')
		return buf__puts(out, character == '\n' ? "\\n" : "\\t");
	return buf__printf(out, character < 0x100 ? "\\x%02x" : character < 0x10000 ? "\\u%04x" : "\\U%08x", character);
}

int safe_text__append(struct buf *out, const char *text, size_t len)
{
	int err = 0;

	while (len && !err) {
		size_t n = safe_text__span(text, len);
		uint32_t character;

		err = buf__append(out, text, n);
		text += n;
		len -= n;
		if (!len || err)
			break;
		n = utf8__character(text, len, &character);
		err = append_escape(out, n ? character : (unsigned char)*text);
		text += n ? n : 1;
		len -= n ? n : 1;
	}
	return err;
}

void safe_text__put(FILE *out, const char *text)
{
	_cleanup_(buf__free) struct buf safe = {};
	size_t len = strlen(text), n = safe_text__span(text, len);

	fwrite(text, 1, n, out);
	if (n < len && !safe_text__append(&safe, text + n, len - n))
		fwrite(safe.data, 1, safe.len, out);
}

void text__copy(char *to, size_t size, const char *text)
{
	size_t len = strlen(text);

	if (len >= size)
		for (len = size - 1; len && utf8__continues(text[len]);)
			len--;
	memcpy(to, text, len);
	to[len] = '\0';
}
