/* SPDX-License-Identifier: MIT */
/* Output through stdio, with its errors as -errno. */
#pragma once

#include <errno.h>
#include <stdio.h>

static inline int stream__error(void)
{
	return errno ? -errno : -EIO;
}

static inline int stream__write(FILE *out, const char *data, size_t len)
{
	/* Set by a failing write alone: an old value must not be returned. */
	errno = 0;
	return fwrite(data, 1, len, out) == len ? 0 : stream__error();
}

/* For who has set errno to 0 before the first output. */
static inline int stream__flush(FILE *out)
{
	return fflush(out) || ferror(out) ? stream__error() : 0;
}
