/* SPDX-License-Identifier: MIT */
/* A function is named by its whole name or by the end of a qualified one, a module by its name or the begin of it
 * up to a dot, both by * and ?. */
#include "export/pattern.h"

#include <stddef.h>
#include <string.h>

bool pattern__glob(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;

	while (*text) {
		if (*pattern == '*') { /* the last star alone is ever tried again */
			star = ++pattern;
			retry = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++retry;
		} else {
			return false;
		}
	}
	return !pattern[strspn(pattern, "*")];
}

static bool is_glob(const char *pattern)
{
	return strpbrk(pattern, "*?") != NULL;
}

/* The name without the arguments that C++ and JIT compilers write behind it. */
static size_t bare_length(const char *name)
{
	const char *arguments = name[0] ? strchr(name + 1, '(') : NULL;

	return arguments ? (size_t)(arguments - name) : strlen(name);
}

bool pattern__function(const char *pattern, const char *name)
{
	size_t want = strlen(pattern), bare = bare_length(name);

	if (is_glob(pattern) || !strcmp(pattern, name))
		return is_glob(pattern) ? pattern__glob(pattern, name) : true;
	if (!want || want > bare || memcmp(name + bare - want, pattern, want))
		return false;
	return want == bare || strchr(".:", name[bare - want - 1]);
}

bool pattern__module(const char *pattern, const char *name)
{
	size_t want = strlen(pattern);

	if (is_glob(pattern))
		return pattern__glob(pattern, name);
	return want && !strncmp(pattern, name, want) && (!name[want] || name[want] == '.');
}
