/* SPDX-License-Identifier: MIT */
/* Colours, for a terminal alone, and none where NO_COLOR is set (no-color.org). */
#include "base/style.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool coloured[2]; /* stdout, stderr */
static FILE *like_stdout;

static bool terminal_has_colours(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && *term && strcmp(term, "dumb") && isatty(fd);
}

void style__allow(enum style_when when)
{
	coloured[0] = when == STYLE_ALWAYS || (when == STYLE_AUTO && terminal_has_colours(STDOUT_FILENO));
	coloured[1] = when == STYLE_ALWAYS || (when == STYLE_AUTO && terminal_has_colours(STDERR_FILENO));
}

void style__like_stdout(FILE *out)
{
	like_stdout = out;
}

static bool is_coloured(const FILE *out)
{
	return out == stdout || (out && out == like_stdout) ? coloured[0] : out == stderr && coloured[1];
}

/* Only the eight basic colours: their shades are the user's choice, so they are readable on light and dark. */
void style__begin(FILE *out, enum style style)
{
	static const char *const codes[] = {
		[STYLE_HEAD] = "\033[1m",  [STYLE_DIM] = "\033[2m",   [STYLE_WARN] = "\033[33m",
		[STYLE_FAIL] = "\033[31m", [STYLE_MORE] = "\033[31m", [STYLE_LESS] = "\033[32m",
	};

	if (is_coloured(out))
		fputs(codes[style], out);
}

void style__end(FILE *out)
{
	if (is_coloured(out))
		fputs("\033[0m", out);
}
