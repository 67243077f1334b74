/* SPDX-License-Identifier: MIT */
/* Growing byte buffers: doubled when full, so that appending n bytes copies at most 2 n. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int buf__reserve(struct buf *buf, size_t more)
{
	size_t capacity = buf->capacity ? buf->capacity : 256;
	bool possible = more <= (size_t)-1 / 4 - buf->len;
	char *data;

	while (possible && capacity < buf->len + more)
		capacity *= 2;
	if (possible && capacity == buf->capacity)
		return 0;
	data = possible ? realloc(buf->data, capacity) : NULL;
	if (!data) {
		buf->failed = true;
		return -ENOMEM;
	}
	buf->data = data;
	buf->capacity = capacity;
	return 0;
}

int buf__append_more(struct buf *buf, const void *data, size_t len)
{
	int err = buf__reserve(buf, len);

	if (err)
		return err;
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	return 0;
}

int buf__lengthen(struct buf *buf, size_t len)
{
	size_t more = len > buf->len ? len - buf->len : 0;
	int err = more ? buf__reserve(buf, more) : 0;

	if (err || !more)
		return err;
	memset(buf->data + buf->len, 0, more);
	buf->len = len;
	return 0;
}

int buf__printf(struct buf *buf, const char *format, ...)
{
	va_list args;
	int len, err;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (len < 0) {
		buf->failed = true;
		return -EINVAL;
	}
	err = buf__reserve(buf, (size_t)len + 1);
	if (err)
		return err;
	va_start(args, format);
	vsnprintf(buf->data + buf->len, (size_t)len + 1, format, args);
	va_end(args);
	buf->len += (size_t)len;
	return 0;
}

void buf__consume(struct buf *buf, size_t len)
{
	memmove(buf->data, buf->data + len, buf->len - len);
	buf->len -= len;
}

void buf__clear(struct buf *buf)
{
	buf->len = 0;
	buf->failed = false;
}

void buf__free(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){};
}
