/* SPDX-License-Identifier: MIT */
/* Everything that goes to stderr: the prefix "cprofd: ", colours, --quiet, the progress line, and numbers as words
 * ("7,931", "1.20 s"). */
#include <inttypes.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/safe_text.h"
#include "cli/cli.h"

/* progress_shown: the cursor is at the end of a progress line, which the next message must overwrite. */
static bool progress_shown, quiet;

bool say__shows_progress(void)
{
	static int known = -1;

	if (known < 0)
		known = isatty(STDERR_FILENO);
	return known && !quiet;
}

void say__quietly(void)
{
	quiet = true;
}

bool say__is_quiet(void)
{
	return quiet;
}

int say__columns(int fd)
{
	const char *given = getenv("COLUMNS");
	struct winsize size;
	int columns = given ? atoi(given) : 0;

	if (!isatty(fd))
		return 0;
	if (columns > 0)
		return columns;
	return ioctl(fd, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

int say__width(void)
{
	int columns = say__columns(STDERR_FILENO);

	/* A terminal that is narrower than 80 wraps; tables with fewer columns would be unreadable. */
	if (columns < SAY_WIDTH)
		return SAY_WIDTH;
	return columns < SAY_WIDTH_MAX ? columns : SAY_WIDTH_MAX;
}

/* "\033[K" erases to the end of the line (ECMA-48, EL). Only printed on a terminal, as only there a progress
 * line is. */
void say__clear_progress(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
}

/* `style`: of the prefix; NULL: none. The text may quote a target, a recording or a file, so the whole line is made
 * safe for a terminal. */
__attribute__((format(printf, 3, 0))) static void put_line(const char *begin, const enum style *style, const char *format, va_list args)
{
	_cleanup_free_ char *line = NULL;

	/* Out of memory: the bare format is better than silence. */
	if (vasprintf(&line, format, args) < 0)
		line = NULL;
	say__clear_progress();
	if (style)
		style__begin(stderr, *style);
	fputs(begin, stderr);
	if (style)
		style__end(stderr);
	safe_text__put(stderr, line ? line : format);
	fputc('\n', stderr);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line("cprofd: ", NULL, format, args);
	va_end(args);
}

void say__more(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line("        ", NULL, format, args);
	va_end(args);
}

void say__note(const char *format, ...)
{
	va_list args;

	if (quiet)
		return;
	say__clear_progress();
	va_start(args, format);
	put_line("cprofd: ", NULL, format, args);
	va_end(args);
}

/* Printed even with --quiet unless the caller tests for it: where a file is, is a result. */
void say__done(const char *hint, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_line("cprofd: ", NULL, format, args);
	va_end(args);
	if (hint && *hint)
		say__more("%s", hint);
}

void say__failure(const char *hint, const char *format, ...)
{
	const enum style style = STYLE_FAIL;
	va_list args;

	va_start(args, format);
	put_line("cprofd: ", &style, format, args);
	va_end(args);
	if (hint && *hint)
		say__more("%s", hint);
}

void say__progress(const char *format, ...)
{
	struct winsize size;
	char line[256];
	va_list args;

	if (!say__shows_progress())
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	/* A wrapped line could not be overwritten by "\r": cut it. */
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 &&
	    size.ws_col < sizeof(line))
		line[size.ws_col - 1] = '\0';
	fputc('\r', stderr);
	safe_text__put(stderr, line);
	fputs("\033[K", stderr);
	fflush(stderr);
	progress_shown = true;
}

/* Eight buffers in turn, so that one printf() can print several words__*(). 40 bytes hold the longest: 2^64
 * with commas has 26 digits and commas. */
static char *next_buffer(size_t *ret_size)
{
	static char buffers[8][40];
	static unsigned next;

	*ret_size = sizeof(buffers[0]);
	return buffers[next++ % 8];
}

/* A comma before each group of three digits, counted from the right. */
const char *words__count(uint64_t n)
{
	size_t size, len, i;
	char digits[24], *out = next_buffer(&size), *p = out;

	len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = '\0';
	return out;
}

/* Three significant digits with the largest unit that keeps the value at 1 or more. The bounds (0.9995, 9.995,
 * 99.95) are where rounding would add a digit. What is whole has no decimals: "999 ns", not "999.00 ns". */
static const char *scaled(uint64_t n, const char *const *units)
{
	bool whole = n < 1000;
	double value = (double)n;
	size_t size;
	char *out = next_buffer(&size);

	for (; !whole && value >= 999.5 && units[1]; units++)
		value /= 1000;
	snprintf(out, size,
		 !whole && value < 9.995  ? "%.2f %s"
		 : !whole && value < 99.95 ? "%.1f %s"
					   : "%.0f %s",
		 value, *units);
	return out;
}

const char *words__duration(uint64_t ns)
{
	return scaled(ns, (const char *const[]){"ns", "us", "ms", "s", NULL});
}

const char *words__bytes(uint64_t bytes)
{
	return scaled(bytes, (const char *const[]){"B", "kB", "MB", "GB", NULL});
}
