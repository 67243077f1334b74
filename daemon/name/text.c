/* SPDX-License-Identifier: MIT */
/* Strings as CPython keeps them (PEP 393: 1, 2 or 4 bytes a character) become UTF-8. Surrogates, which UTF-8 has no
 * bytes for, become text like \udc80. */
#include "name/text.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define MAX_CODE_POINT 0x10ffffu

static uint32_t character(const uint8_t *at, unsigned kind)
{
	uint16_t ucs2;
	uint32_t ucs4;

	/* Captured characters are not aligned. */
	switch (kind) {
	case 1:
		return *at;
	case 2:
		memcpy(&ucs2, at, sizeof ucs2);
		return ucs2;
	default:
		memcpy(&ucs4, at, sizeof ucs4);
		return ucs4;
	}
}

static bool is_surrogate(uint32_t point)
{
	return point >= 0xd800 && point <= 0xdfff;
}

static size_t utf8_len(uint32_t point)
{
	if (is_surrogate(point))
		return sizeof("\\udc80") - 1;
	return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

static char *put_escape(char *out, uint32_t point)
{
	*out++ = '\\';
	*out++ = 'u';
	for (int shift = 12; shift >= 0; shift -= 4)
		*out++ = "0123456789abcdef"[point >> shift & 0xf];
	return out;
}

static char *put_utf8(char *out, uint32_t point)
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t len = utf8_len(point);

	if (is_surrogate(point))
		return put_escape(out, point);
	if (len == 1) {
		*out = (char)point;
		return out + 1;
	}
	for (size_t i = len - 1; i; i--, point >>= 6)
		out[i] = (char)(0x80 | (point & 0x3f));
	out[0] = (char)(lead[len] | point);
	return out + len;
}

/* Two passes: the first checks and measures, so that memory is reserved once and the second cannot fail. */
int text__from_unicode(const void *data, size_t len_bytes, unsigned kind, bool ascii,
		       struct buf *ret_utf8)
{
	const uint8_t *bytes = data;
	size_t need = 0;
	uint32_t all = 0;
	char *out;
	int err;

	if ((kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1) || len_bytes % kind)
		return -EBADMSG;
	/* The output has at most 3 bytes per input byte: 6 for a surrogate of 2, or 2 for 1. So this cannot overflow.
	 * */
	if (len_bytes > SIZE_MAX / 4)
		return -ENOMEM;
	for (size_t at = 0; at < len_bytes; at += kind) {
		uint32_t point = character(bytes + at, kind);

		if (point > MAX_CODE_POINT)
			return -EBADMSG;
		need += utf8_len(point);
		all |= point;
	}
	if (ascii && all & ~0x7fu)
		return -EBADMSG;
	err = buf__reserve(ret_utf8, need);
	if (err)
		return err;
	out = ret_utf8->data + ret_utf8->len;
	for (size_t at = 0; at < len_bytes; at += kind)
		out = put_utf8(out, character(bytes + at, kind));
	ret_utf8->len += need;
	return 0;
}
