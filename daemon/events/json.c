/* SPDX-License-Identifier: MIT */
/* Writes strings and numbers as JSON. Invalid UTF-8 becomes U+FFFD: a reader must never fail because of a name that a
 * target chose. */
#include "events/json.h"

#include <string.h>

#include "base/safe_text.h"
#include "events/events.h"

#define ELLIPSIS "\xe2\x80\xa6"	   /* U+2026 */

/* Only characters that cannot stand in a string as they are, or that a terminal would interpret. */
static int append_escaped(struct buf *out, uint32_t c)
{
	if (c == '"' || c == '\\')
		return buf__append(out, (char[]){'\\', (char)c}, 2);
	if (c == '\n' || c == '\t')
		return buf__puts(out, c == '\n' ? "\\n" : "\\t");
	if (c >= 0x10000) /* RFC 8259, 7: as a pair of surrogates */
		return buf__printf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
	return buf__printf(out, "\\u%04x", c);
}

/* One byte, that is copied as it is. */
static bool is_usual(char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

int json__string(struct buf *out, const char *string)
{
	const char *s = string ? string : "", *start = s, *end = s + strlen(s);
	const char *usual_end = end - start > EVENTS_STRING_MAX ? start + EVENTS_STRING_MAX : end;
	const char *plain = s; /* [plain, s) is copied as it is */
	int err = buf__append(out, "\"", 1);

	while (!err && s < end) {
		uint32_t c;
		size_t len;

		while (s < usual_end && is_usual(*s))
			s++;
		if (s == end)
			break;
		len = utf8__character(s, (size_t)(end - s), &c);
		/* Cut between characters, and measured in the original's bytes. */
		if ((size_t)(s - start) + (len ? len : 1) > EVENTS_STRING_MAX)
			break;
		/* The usual case: it is copied with its neighbours in one piece. */
		if (len && c != '"' && c != '\\' && !character__is_unsafe(c)) {
			s += len;
			continue;
		}
		err = buf__append(out, plain, (size_t)(s - plain));
		err = err ?: len ? append_escaped(out, c) : buf__puts(out, UTF8_REPLACEMENT);
		s += len ? len : 1;
		plain = s;
	}
	err = err ?: buf__append(out, plain, (size_t)(s - plain));
	if (!err && s < end)
		err = buf__puts(out, ELLIPSIS);
	return err ? err : buf__append(out, "\"", 1);
}

/* Not printf(), which is slow: most of a stream is numbers. */
int json__u64(struct buf *out, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	return buf__append(out, digits + at, sizeof(digits) - at);
}

int json__i64(struct buf *out, int64_t value)
{
	int err = value < 0 ? buf__append(out, "-", 1) : 0;

	return err ? err : json__u64(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

int json__key(struct buf *out, const char *key)
{
	/* The byte before says whether this is the first member: no state to carry along. A string that ends
	 * in '{' ends in '"' as JSON. */
	const char *comma = out->len && !strchr("{[", out->data[out->len - 1]) ? "," : "";

	return buf__puts(out, comma) ?: buf__append(out, "\"", 1) ?: buf__puts(out, key) ?: buf__append(out, "\":", 2);
}

int json__member(struct buf *out, const char *key, const char *value)
{
	return json__key(out, key) ?: json__string(out, value);
}

int json__number(struct buf *out, const char *key, uint64_t value)
{
	return json__key(out, key) ?: json__u64(out, value);
}
