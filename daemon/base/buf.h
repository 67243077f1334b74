/* SPDX-License-Identifier: MIT */
/* A growing byte buffer. Zero-initialised is empty; owned by its holder.
 * After a failed append the buffer is unchanged and `failed` stays set. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

struct buf {
	char *data;
	size_t len, capacity;
	bool failed;
};

/* For a buffer that is used as an array. */
#define ITEM(buf, type, i) (((type *)(buf).data)[i])
#define LENGTH(buf, type) ((uint32_t)((buf).len / sizeof(type)))

int buf__append_more(struct buf *buf, const void *data, size_t len); /* grows it if necessary */
int buf__printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf__reserve(struct buf *buf, size_t more);
int buf__lengthen(struct buf *buf, size_t len); /* appends zeros until `len` bytes are there */
/* Item `i` of an array, which is lengthened to hold it. NULL: out of memory. Valid until it grows. */
static inline void *buf__at(struct buf *buf, size_t item, size_t i)
{
	return buf__lengthen(buf, (i + 1) * item) ? NULL : buf->data + i * item;
}
/* For a buffer that is used as a set of numbers, of bool: adds this one. *ret_first: it was not there. */
static inline int buf__mark(struct buf *marks, size_t i, bool *ret_first)
{
	bool *mark = buf__at(marks, sizeof(*mark), i);

	*ret_first = mark && !*mark;
	if (mark)
		*mark = true;
	return mark ? 0 : -ENOMEM;
}
/* Drops the first `len` bytes. */
void buf__consume(struct buf *buf, size_t len);
void buf__clear(struct buf *buf);  /* keeps the memory */
void buf__free(struct buf *buf);   /* leaves it empty */

/* Inline, because encoding an event is many appends of one to ten bytes. */
static inline int buf__append(struct buf *buf, const void *data, size_t len)
{
	if (len >= buf->capacity - buf->len)
		return buf__append_more(buf, data, len);
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	return 0;
}

static inline int buf__puts(struct buf *buf, const char *string)
{
	return buf__append(buf, string, strlen(string));
}
