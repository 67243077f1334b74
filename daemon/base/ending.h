/* SPDX-License-Identifier: MIT */
/* Does a text end in `end`? */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && !strcmp(text + len - n, end);
}
