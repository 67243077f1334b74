/* SPDX-License-Identifier: MIT */
/* Escapes text for HTML and for <script>, and formats numbers. Text from the target may be anything: a file
 * name such as `"><script>`, or bytes that are not UTF-8 (those were replaced when the JSON was made). */
#include <string.h>

#include "base/safe_text.h"
#include "html/html.h"

/* Bidirectional control characters, which could make text look like another (CVE-2021-42574): U+200E, U+200F,
 * U+202A to U+202E, U+2066 to U+2069. A NUL ends each comparison, so nothing behind the text is read. */
static bool is_bidi_control(const unsigned char *at)
{
	return at[0] == 0xe2 && ((at[1] == 0x80 && (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xaa && at[2] <= 0xae))) ||
				 (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
}

/* For element content and attributes in double quotes. Control characters, and those that could deceive a reader,
 * become U+FFFD. */
void html__text(struct buf *out, const char *text)
{
	const char *plain = text; /* [plain, text) is copied as it is */
	const char *instead;

	for (; *text; text++) {
		const bool bidi = is_bidi_control((const unsigned char *)text);

		switch (*text) {
		case '&':
			instead = "&amp;";
			break;
		case '<':
			instead = "&lt;";
			break;
		case '>':
			instead = "&gt;";
			break;
		case '"':
			instead = "&quot;";
			break;
		case '\'':
			instead = "&#39;";
			break;
		default:
			if (!bidi && (unsigned char)*text >= ' ' && *text != 0x7f)
				continue;
			instead = UTF8_REPLACEMENT;
		}
		buf__append(out, plain, (size_t)(text - plain));
		buf__puts(out, instead);
		/* The rest of its three bytes; the loop itself adds one. */
		text += bidi ? 2 : 0;
		plain = text + 1;
	}
	buf__append(out, plain, (size_t)(text - plain));
}

/* Names up to this length fit into any table and need no tooltip. */
#define SHORT_NAME 40u

/* `plain`: for an attribute, which can have no markup. */
static void put_whole_name(struct buf *out, const char *name, const char *signature, bool plain)
{
	html__text(out, name);
	if (!signature)
		return;
	buf__puts(out, plain ? "(" : "<span class=\"signature\">(");
	html__text(out, signature);
	buf__puts(out, plain ? ")" : ")</span>");
}

void html__name(struct buf *out, const char *name, const char *signature)
{
	buf__puts(out, "<span class=\"name\"");
	if (strlen(name) + (signature ? strlen(signature) : 0) > SHORT_NAME) {
		buf__puts(out, " title=\"");
		put_whole_name(out, name, signature, true);
		buf__puts(out, "\"");
	}
	buf__puts(out, ">");
	put_whole_name(out, name, signature, false);
	buf__puts(out, "</span>");
}

/* JSON has < and > only inside strings, where they are escaped: an HTML parser would recognise "</script>" even
 * there. */
void html__data(struct buf *out, const char *json, size_t len)
{
	const char *end = json + len, *plain = json;

	for (; json < end; json++) {
		if (*json != '<' && *json != '>')
			continue;
		buf__append(out, plain, (size_t)(json - plain));
		/* The same character for a JSON parser. */
		buf__puts(out, *json == '<' ? "\\u003c" : "\\u003e");
		plain = json + 1;
	}
	buf__append(out, plain, (size_t)(end - plain));
}

/* Three significant digits. */
static void put_digits(struct buf *out, double value, const char *unit)
{
	buf__printf(out, "%.*f\u00a0%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, unit);
}

void html__duration(struct buf *out, uint64_t ns)
{
	/* The bounds are where three digits would round up to 1000 of the smaller unit. */
	if (ns >= 999500000)
		put_digits(out, (double)ns / 1e9, "s");
	else if (ns >= 999500)
		put_digits(out, (double)ns / 1e6, "ms");
	else if (ns >= 1000)
		put_digits(out, (double)ns / 1e3, "\u00b5s");
	else
		buf__printf(out, "%llu\u00a0ns", (unsigned long long)ns);
}

void html__percent(struct buf *out, double share)
{
	buf__printf(out, "%.*f\u00a0%%", share < 0.9995 ? 1 : 0, 100 * share);
}

void html__count(struct buf *out, uint64_t count)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), i;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf__puts(out, ",");
		buf__append(out, &digits[i], 1);
	}
}

/* Shows the last three components of the path: they say more than the first. */
void html__location(struct buf *out, const char *file, uint64_t line)
{
	const char *tail = file + strlen(file);
	int slashes = 0;

	if (!*file)
		return;
	/* Goes back to behind the third slash from the end. */
	while (tail > file && !(tail[-1] == '/' && ++slashes == 3))
		tail--;
	buf__puts(out, "<span class=\"at\" title=\"");
	html__text(out, file);
	buf__puts(out, "\">");
	html__text(out, tail);
	if (line)
		buf__printf(out, ":%llu", (unsigned long long)line);
	buf__puts(out, "</span>");
}

const char *get__text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* Also of what was written with a fraction. Doubles are exact up to 2^53 ns, 104 days. */
uint64_t get__number(const json_t *object, const char *key)
{
	double value = json_number_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

double get__share(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}
