#include "events/json.h"

#include <string.h>

#include "events/events.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define ELLIPSIS "\xe2\x80\xa6"	   /* U+2026 */

/* Length of the UTF-8 sequence at `s`, 0 when it is not one (The Unicode
 * Standard, table 3-7: no overlong forms, no surrogates, nothing past U+10FFFF). */
static size_t utf8_len(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t len, i;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		len = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		len = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	/* The terminating NUL fails each test, so nothing behind it is read. */
	if (s[1] < low || s[1] > high)
		return 0;
	for (i = 2; i < len; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return len;
}

static int append_escaped(struct buf *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

	if (c == '"' || c == '\\')
		escape[1] = (char)c;
	else if (c == '\n')
		escape[1] = 'n';
	else if (c == '\t')
		escape[1] = 't';
	else
		return buf__append(out, escape, 6);
	return buf__append(out, escape, 2);
}

int json__string(struct buf *out, const char *string)
{
	const unsigned char *s = (const unsigned char *)(string ? string : ""), *start = s;
	const unsigned char *plain = s; /* [plain, s) is copied as it is */
	int err = buf__append(out, "\"", 1);

	while (!err && *s) {
		size_t len = utf8_len(s);

		if (s - start + (len ? len : 1) > EVENTS_STRING_MAX)
			break;
		if (len && *s >= 0x20 && *s != '"' && *s != '\\' && *s != 0x7f) {
			s += len;
			continue;
		}
		err = buf__append(out, plain, (size_t)(s - plain));
		if (!err)
			err = len ? append_escaped(out, *s) : buf__puts(out, REPLACEMENT);
		plain = ++s;
	}
	if (!err)
		err = buf__append(out, plain, (size_t)(s - plain));
	if (!err && *s)
		err = buf__puts(out, ELLIPSIS);
	return err ? err : buf__append(out, "\"", 1);
}

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
