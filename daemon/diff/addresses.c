/* SPDX-License-Identifier: MIT */
/* Names that hold an address are others in each run, though the function is the same:
 *
 *     handler_0x7f21c0a81d30    JIT code at 0x7f3b5c0010    CPUDispatcher(<function f at 0x7f21c0a81d30>)    sub_401a30
 *
 * In rows of a comparison an ellipsis stands for the digits. Kept are offsets in a file (libffi.so.8+0x6250), which are the
 * same in each run, short numbers (flags_0x10), and numbers without 0x, such as of lambdas: they tell functions of one
 * program apart. Pure. */
#include <ctype.h>
#include <string.h>

#include "diff/internal.h"

#define ELLIPSIS "\xe2\x80\xa6"
/* So many digits after 0x, and after the names that disassemblers give, make an address: programs lie above 0x10000. */
#define DIGITS_LEAST 5

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t digits_of(const char *at)
{
	return strspn(at, "0123456789abcdefABCDEF");
}

/* Where the digits of an address begin, if what introduces one begins at `at`; NULL: it does not. */
static const char *address_at(const char *name, const char *at)
{
	static const char *const before[] = {"0x", "sub_", "FUN_", "fcn."};
	size_t i, len, digits;

	for (i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		len = strlen(before[i]);
		if (strncmp(at, before[i], len))
			continue;
		digits = digits_of(at + len);
		if (digits < DIGITS_LEAST || isalnum((unsigned char)at[len + digits]))
			return NULL;
		/* An offset; another word's end, or a word of such letters (sub_facade). */
		if (!i ? at > name && at[-1] == '+' : (at > name && is_word(at[-1])) || strcspn(at + len, "0123456789") >= digits)
			return NULL;
		return at + len;
	}
	return NULL;
}

int diff__put_name(struct buf *out, const char *name)
{
	const char *at, *digits;
	int err = 0;

	for (at = name; *at && !err; at++) {
		digits = address_at(name, at);
		if (!digits)
			continue;
		err = buf__append(out, name, (size_t)(digits - name)) ?: buf__puts(out, ELLIPSIS);
		name = digits + digits_of(digits);
		at = name - 1;
	}
	return err ?: buf__append(out, name, strlen(name) + 1);
}
