/* SPDX-License-Identifier: MIT */
/* Text of others (names of a target, of a recording, of a file) for a terminal or a text file.
 *
 * What a terminal takes for a command, and what changes how the text beside it looks, becomes a visible escape: C0 and DEL
 * (\x1b), C1 (\x9b), line separators, marks of the direction of writing and tags (\u202e); of invalid UTF-8 each byte (\xff).
 * A newline and a tab are \n and \t: a name is never several lines or cells. A backslash stays as it is, so the way back is
 * not unique: JSON has the exact names, with the same characters escaped in JSON's way (events/json.h). Pure. */
#ifndef CPROFD_SAFE_TEXT_H
#define CPROFD_SAFE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

/* The character at `text` of `len` > 0 bytes; returns its length, or 0: it is no UTF-8 (The Unicode Standard, table 3-7: no
 * overlong forms, no surrogates, nothing past U+10FFFF). */
size_t utf8__character(const char *text, size_t len, uint32_t *ret);
/* Not to be shown as it is. */
bool character__is_unsafe(uint32_t character);

/* So many bytes at the begin are safe as they are. */
size_t safe_text__span(const char *text, size_t len);
static inline bool safe_text__is(const char *text)
{
	size_t len = strlen(text);

	return safe_text__span(text, len) == len;
}
/* Not terminated. -ENOMEM. */
int safe_text__append(struct buf *out, const char *text, size_t len);
void safe_text__put(FILE *out, const char *text);
/* snprintf(to, size, "%s", text), but nothing is cut within a character. */
void text__copy(char *to, size_t size, const char *text);

#endif
