/* SPDX-License-Identifier: MIT */
/* Patterns of --function, --module, --exclude and --process. A function matches by its whole name or by the last parts
 * of a qualified name, a module by its name or the first parts up to a dot; with * and ? the whole name must
 * match.
 *
 *     run_pass          NativeLowering.run_pass, llvm::PassManager::run_pass(Module&)
 *     numba             numba, numba.core.typing, but not numbat
 *     libLLVM*          libLLVM-14.so.1, libLLVM.so.18.1
 *
 * Case counts. Patterns come from the user, names from the recording: pattern__glob() has no recursion, and
 * its time is bounded. */
#include "export/filter.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/safe_text.h"

/* The next character of UTF-8; of other bytes any number of 0x80 to 0xbf belong to the one before. */
static const char *after_character(const char *text)
{
	do
		text++;
	while (utf8__continues(*text));
	return text;
}

bool pattern__glob(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;

	while (*text) {
		if (*pattern == '*') { /* backtracking to the last star is enough */
			star = ++pattern;
			retry = text;
		} else if (*pattern == '?') {
			pattern++;
			text = after_character(text);
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++retry;
		} else {
			return false;
		}
	}
	/* The text is used up: what is left of the pattern may only be stars. */
	return !pattern[strspn(pattern, "*")];
}

static bool is_glob(const char *pattern)
{
	return strpbrk(pattern, "*?") != NULL;
}

/* The name's length without the arguments that C++ and JIT compilers append. */
static size_t bare_length(const char *name)
{
	/* From the second character: "(anonymous namespace)::f(int)" begins with a parenthesis that is no
	 * argument list. */
	const char *arguments = name[0] ? strchr(name + 1, '(') : NULL;

	return arguments ? (size_t)(arguments - name) : strlen(name);
}

/* The length of a word and `spaces` more, each with the space before it. */
static size_t words_length(const char *name, size_t spaces)
{
	size_t len = strcspn(name, " ");

	for (; spaces && name[len]; spaces--)
		len += 1 + strcspn(name + len + 1, " ");
	return len;
}

/* A word is tried as it is, and without its directory: train.py, gunicorn*, /srv/app/worker.py. A pattern with spaces
 * is tried with so many words in a row: a name does not say which of its spaces are inside of an argument. */
bool pattern__process(const char *pattern, int32_t pid, const char *name)
{
	char *end, word[PATH_MAX];
	const char *slash;
	size_t spaces = 0;

	if (*pattern && strtol(pattern, &end, 10) == pid && !*end)
		return true;
	if (pattern__glob(pattern, name))
		return true;
	for (const char *at = pattern; (at = strchr(at, ' ')); at++)
		spaces++;
	for (; *(name += strspn(name, " ")); name += strcspn(name, " ")) {
		snprintf(word, sizeof(word), "%.*s", (int)words_length(name, spaces), name);
		if (pattern__glob(pattern, word))
			return true;
		slash = memrchr(word, '/', strcspn(word, " "));
		if (slash && pattern__glob(pattern, slash + 1))
			return true;
	}
	return false;
}

bool pattern__function(const char *pattern, const char *name)
{
	size_t want = strlen(pattern), bare = bare_length(name);

	if (is_glob(pattern) || !strcmp(pattern, name))
		return is_glob(pattern) ? pattern__glob(pattern, name) : true;
	if (!want || want > bare || memcmp(name + bare - want, pattern, want))
		return false;
	/* The part before must end there: "pass" is no part of "run_pass". */
	return want == bare || strchr(".:", name[bare - want - 1]);
}

bool pattern__module(const char *pattern, const char *name)
{
	size_t want = strlen(pattern);

	if (is_glob(pattern))
		return pattern__glob(pattern, name);
	return want && !strncmp(pattern, name, want) && (!name[want] || name[want] == '.');
}
