/* SPDX-License-Identifier: MIT */
/* Shortens names to a width, dropping what says least: template arguments first, then the middle. Counts
 * characters, not bytes; wide characters (CJK) count as one, and combining ones, too.
 *
 *     llvm::SmallVectorImpl<llvm::Value*>::push_back(llvm::Value*)
 *     llvm::SmallVectorImpl<...>::push_back(llvm::Value*)               with "..." as one character
 *     llvm::SmallVectorImpl<...>::pu...lvm::Value*) */
#include "report/fit.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/stream.h"
#include "base/style.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define NAME_MAX_BYTES 1024

/* Does a UTF-8 character begin here? Bytes after the first of a character are 10xxxxxx (RFC 3629). Invalid
 * UTF-8 is cut at a wrong place at worst. */
static bool begins(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

int fit__letters(const char *text)
{
	int letters = 0;

	for (; *text; text++)
		letters += begins(*text);
	return letters;
}

/* `at` is a '<': the end of these template arguments, or NULL. Not for operators (operator<), nor Python's <locals>. */
static const char *arguments_end(const char *name, const char *at)
{
	static const char operator[] = "operator";
	const size_t word = sizeof(operator) - 1;
	int depth = 0;

	/* Arguments follow a name directly: `vector<int>`, but not `a < b` and not `f.<locals>.g`. */
	if (at == name || !(isalnum((unsigned char)at[-1]) || at[-1] == '_') ||
	    ((size_t)(at - name) >= word && !memcmp(at - word, operator, word)))
		return NULL;
	for (; *at; at++) {
		depth += *at == '<';
		/* "->" of a trailing return type closes nothing. */
		depth -= *at == '>' && at[-1] != '-';
		if (!depth)
			return at;
	}
	return NULL;
}

/* Removes template arguments: "A<int>::f()" -> "A<...>::f()". What is left still says which function it is. False:
 * no room. */
static bool collapse(const char *name, char *out, size_t size)
{
	const char *at, *end;
	size_t len = 0;

	for (at = name; *at; at++) {
		/* The longest that one round appends: '<', the ellipsis, '>', and the NUL. */
		if (len + sizeof(ELLIPSIS) + 2 > size)
			return false;
		end = *at == '<' ? arguments_end(name, at) : NULL;
		out[len++] = *at;
		if (!end)
			continue;
		memcpy(out + len, ELLIPSIS, sizeof(ELLIPSIS) - 1);
		len += sizeof(ELLIPSIS) - 1;
		out[len++] = '>';
		at = end;
	}
	out[len] = '\0';
	return true;
}

/* Skips so many characters. */
static const char *skip(const char *text, int letters)
{
	while (*text && (letters > 0 || !begins(*text)))
		letters -= begins(*text++);
	return text;
}

bool fit__name(FILE *out, const char *name, int width)
{
	int letters = fit__letters(name), pad = width > 0 ? width : 0, head;
	char short_name[NAME_MAX_BYTES];
	bool whole;

	width = width > 0 ? width : -width;
	whole = letters <= width;
	if (!whole && collapse(name, short_name, sizeof(short_name))) {
		name = short_name;
		letters = fit__letters(name);
	}
	if (letters <= width) {
		fprintf(out, "%s%*s", name, pad > letters ? pad - letters : 0, "");
		return whole;
	}
	/* Keep both ends: overloads differ in their last arguments. */
	head = width * 2 / 3;
	fprintf(out, "%.*s" ELLIPSIS "%s", (int)(skip(name, head) - name), name, skip(name, letters - (width - head - 1)));
	return false;
}

void fit__path(FILE *out, const char *path, int width)
{
	/* Characters too many, if one is used for the ellipsis. */
	int over = fit__letters(path) - (width - 1);
	const char *slash;

	if (over <= 1) {
		fputs(path, out);
		return;
	}
	path = skip(path, over);
	/* The cut is moved to the next '/', so that no directory's name is shown in part; a file name that is
	 * itself too long is. */
	slash = strchr(path, '/');
	fprintf(out, ELLIPSIS "%s", slash && slash[1] ? slash : path);
}

/* The columns that one byte takes; *escape: within the escape sequence of a colour. */
static int columns_of(char c, bool *escape)
{
	bool within = *escape || c == '\033';

	*escape = within && c != 'm';
	return !within && begins(c);
}

/* Where a line has to be broken: the last blank before `width`, or NULL: it fits, or has none. `indent`: what the line
 * begins with is no place for a break. */
static const char *break_of(const char *line, const char *end, int width, int indent)
{
	const char *at, *blank = NULL;
	bool escape = false;
	int column = 0;

	for (at = line; at < end; at++) {
		if (*at == ' ' && column > indent && (column <= width || !blank))
			blank = at;
		column += columns_of(*at, &escape);
	}
	return column > width ? blank : NULL;
}

void fit__lines(FILE *out, const char *text, int width)
{
	while (*text) {
		const char *end = text + strcspn(text, "\n"), *blank;
		int indent = (int)strspn(text, " "), at = 0;

		/* No more than half of the line. */
		if (indent > width / 2)
			indent = width / 2;
		while ((blank = break_of(text, end, width - at, at ? 0 : indent))) {
			const char *rest = blank + strspn(blank, " ");

			while (blank > text && blank[-1] == ' ')
				blank--;
			fprintf(out, "%.*s\n%*s", (int)(blank - text), text, indent, "");
			text = rest;
			at = indent;
		}
		fprintf(out, "%.*s%s", (int)(end - text), text, *end ? "\n" : "");
		text = end + (*end != '\0');
	}
}

int fit__terminal(int width, int (*put)(void *of, FILE *out), void *of, FILE *out)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	FILE *whole;
	int err;

	if (!width)
		return put(of, out);
	whole = open_memstream(&text, &len);
	if (!whole)
		return -errno;
	style__like_stdout(whole);
	err = put(of, whole);
	style__like_stdout(NULL);
	if (fclose(whole))
		return -errno;
	errno = 0;
	fit__lines(out, text, width);
	return err ?: stream__flush(out);
}
