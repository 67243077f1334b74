/* SPDX-License-Identifier: MIT */
/* A JSON parser for the event decoder. General parsers allocate each value; that was most of the time of reading a
 * recording. Here values are in one array, in the order of the text, and strings in one block; both are reused for the
 * next line.
 *
 * Stricter than RFC 8259: one object per text, no duplicate members, no NUL in a string, valid UTF-8, integers within
 * 64 bits. A number with a fraction or an exponent is a value of its own kind and is not converted.
 *
 * Owner: the owner of the reader; values and strings are valid until its next json_reader__read(). Threads: one.
 * Errors: -EBADMSG: not such a text; -ENOMEM. */
#pragma once

#include "base/buf.h"

enum json_kind { JSON_OF_NULL, JSON_OF_FALSE, JSON_OF_TRUE, JSON_OF_INTEGER, JSON_OF_REAL, JSON_OF_STRING, JSON_OF_ARRAY, JSON_OF_OBJECT };

struct json_value {
	uint8_t kind;
	bool safe; /* a string of nothing but printable ASCII, written without escapes; others may be, too */
	uint32_t values; /* number of values in the array that belong to it: itself and all inside of it */
	union {
		int64_t integer;
		const char *string; /* NUL-terminated */
		/* number of elements, or of members; a member is two values: its name, a string, and its value */
		uint32_t n;
	};
};
_Static_assert(sizeof(struct json_value) == 16, "a line has 100,000 of them");

/* `values`: struct json_value, in the order of the text. `strings`: one after another, with their NULs. */
struct json_reader {
	struct buf values, strings;
};

void json_reader__free(struct json_reader *reader); /* frees its members, not the struct */
/* *ret: the object, owned by the reader. O(len). */
int json_reader__read(struct json_reader *reader, const char *text, size_t len, const struct json_value **ret);

/* The first element of an array, or the first name of an object; only if n > 0. */
static inline const struct json_value *json_value__first(const struct json_value *of)
{
	return of + 1;
}

/* The value after it, at the same level. */
static inline const struct json_value *json_value__next(const struct json_value *value)
{
	return value + value->values;
}

static inline bool json_value__is(const struct json_value *value, enum json_kind kind)
{
	return value && value->kind == kind;
}

/* The member of this name; NULL: there is none, or `of` is not an object. */
const struct json_value *json_value__member(const struct json_value *of, const char *name);
