/* SPDX-License-Identifier: MIT */
/* Untrusted text (names from a target, a recording, a file) made safe for a terminal or a text file.
 *
 * Characters that a terminal executes, or that change how nearby text looks, become visible escapes: C0 and DEL (\x1b),
 * C1 (\x9b), line separators, bidirectional controls, tags (\u202e), U+FFFE and U+FFFF, which no XML may hold, and each byte of invalid UTF-8 (\xff). Newline
 * and tab become \n and \t, so a name is never several lines or cells. A backslash stays as it is, so this cannot be
 * reversed: JSON output has the exact names, with the same characters escaped in JSON's way (events/json.h). Pure. */
#pragma once

#include <stdio.h>

#include "base/buf.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, the replacement character */

/* Decodes the character at `text`, `len` > 0 bytes. Returns its length; 0: not valid UTF-8 (The Unicode Standard, table
 * 3-7: no overlong forms, no surrogates, nothing past U+10FFFF). */
size_t utf8__character(const char *text, size_t len, uint32_t *ret);
/* Is it a byte of a character that began before it? */
static inline bool utf8__continues(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Must this character be escaped? */
bool character__is_unsafe(uint32_t character);

/* Number of bytes at the begin that are printable ASCII; `quoted`: the bytes " and \ end it, too. */
size_t ascii__span(const char *text, size_t len, bool quoted);
/* Number of bytes at the begin that are safe as they are. */
size_t safe_text__span(const char *text, size_t len);
static inline bool safe_text__is(const char *text)
{
	size_t len = strlen(text);

	return safe_text__span(text, len) == len;
}
/* Not terminated. -ENOMEM. */
int safe_text__append(struct buf *out, const char *text, size_t len);
void safe_text__put(FILE *out, const char *text);
/* As snprintf(to, size, "%s", text), but it never truncates inside a character. */
void text__copy(char *to, size_t size, const char *text);
