/* SPDX-License-Identifier: MIT */
/* Captured strings of any bytes: what is appended is valid UTF-8, and an error
 * appends nothing. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "name/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* RFC 3629's table of well-formed sequences, read as it stands there. */
static size_t sequence_len(const uint8_t *at, size_t left)
{
	static const struct {
		uint8_t first, last, low, high, len;
	} rows[] = {
		{0x00, 0x7f, 0, 0, 1},	     {0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (*at < rows[i].first || *at > rows[i].last)
			continue;
		if (rows[i].len > left)
			return 0;
		if (rows[i].len > 1 && (at[1] < rows[i].low || at[1] > rows[i].high))
			return 0;
		for (size_t tail = 2; tail < rows[i].len; tail++) {
			if ((at[tail] & 0xc0) != 0x80)
				return 0;
		}
		return rows[i].len;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf buf = {};
	unsigned kind;
	bool ascii;
	int err;

	if (size < 2)
		return 0;
	kind = data[0] % 6;
	ascii = data[1] & 1;
	data += 2;
	size -= 2;
	err = text__from_unicode(data, size, kind, ascii, &buf);
	require(err == 0 || err == -EBADMSG);
	require(!err || !buf.len);
	if (ascii && !err)
		require(buf.len == size && (!size || !memcmp(buf.data, data, size)));
	for (size_t at = 0, len; at < buf.len; at += len) {
		len = sequence_len((const uint8_t *)buf.data + at, buf.len - at);
		require(len != 0);
	}
	buf__free(&buf);
	return 0;
}
