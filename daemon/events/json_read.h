/* SPDX-License-Identifier: MIT */
/* JSON text -> values, for the decoder of events: most of reading a recording was a general parser's allocations, one a number.
 * Here values lie in one array, in the order of the text, and strings in one block; both are used again for the next line.
 *
 * As strict as RFC 8259 and more: one object a text, no member twice, no NUL in a string, valid UTF-8, integers within 64 bits.
 * A number with a fraction or an exponent is a value of its own kind, and is not converted.
 *
 * Owner: who has the reader; values and strings live until its next json_reader__read(). Threads: one.
 * Errors: -EBADMSG: no such text; -ENOMEM. */
#ifndef CPROFD_EVENTS_JSON_READ_H
#define CPROFD_EVENTS_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum json_kind { JSON_OF_NULL, JSON_OF_FALSE, JSON_OF_TRUE, JSON_OF_INTEGER, JSON_OF_REAL, JSON_OF_STRING, JSON_OF_ARRAY, JSON_OF_OBJECT };

struct json_value {
	uint8_t kind;
	uint32_t values; /* how many there are of it in the array: itself, and all that is in it */
	union {
		int64_t integer;
		const char *string; /* NUL-terminated */
		uint32_t n;         /* elements; members, of which each is its name, a string, and its value */
	};
};
_Static_assert(sizeof(struct json_value) == 16, "a line has 100,000 of them");

struct json_reader {
	struct buf values, strings;
};

void json_reader__free(struct json_reader *reader); /* what it holds */
int json_reader__read(struct json_reader *reader, const char *text, size_t len, const struct json_value **ret);

/* Of an array, or of an object (its first name), if it has any. */
static inline const struct json_value *json_value__first(const struct json_value *of)
{
	return of + 1;
}

/* What stands behind it. */
static inline const struct json_value *json_value__next(const struct json_value *value)
{
	return value + value->values;
}

static inline bool json_value__is(const struct json_value *value, enum json_kind kind)
{
	return value && value->kind == kind;
}

/* NULL: there is none, or it is no object. */
const struct json_value *json_value__member(const struct json_value *of, const char *name);

#endif
