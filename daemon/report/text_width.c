/* SPDX-License-Identifier: MIT */
/* Widths of the text's columns on a terminal: what names and paths get, what is left out, and where lines below a row
 * begin. Without a terminal (options.width 0) they are fixed, and nothing is left out. */
#include <stdlib.h>

#include "report/fit.h"
#include "report/internal.h"

/* A file with fewer columns is left out; names get no fewer. */
#define FILE_LEAST 10
#define NAME_LEAST 24
/* What stands below a row has so many columns. */
#define BELOW_ROOM 60

static int min(int a, int b)
{
	return a < b ? a : b;
}

bool text__is_narrow(const struct report *report, int width)
{
	return report->options->width && report->options->width < width;
}

struct fitted text__fit(const struct report *report, int at, int width, const char *name, const struct row_key *key)
{
	const int room = report->options->width - at > NAME_LEAST ? report->options->width - at : NAME_LEAST;
	const int line = *key->file ? 2 + (key->line ? snprintf(NULL, 0, ":%u", key->line) : 0) : 0;
	const int module = *key->module ? 2 + fit__letters(key->module) : 0;
	const int whole = fit__letters(name);
	struct fitted fitted = {width, TEXT_FILE_WIDTH, true};

	if (!report->options->width)
		return fitted;
	/* The module goes first, as the path says it, too. Then three fifths are the name's; if a path does not fit
	 * beside that, it stands behind the name itself, or goes. */
	fitted.module = module <= (line ? room * 2 / 5 - line - FILE_LEAST : room / 2);
	width = min(width, room - (line ? 0 : fitted.module * module));
	fitted.name = line ? min(width, room * 3 / 5) : width;
	if (line && room - fitted.name - line < FILE_LEAST)
		fitted.name = -min(width, whole);
	fitted.file = min(room - abs(fitted.name) - line - fitted.module * module, TEXT_FILE_WIDTH);
	if (line && fitted.file < FILE_LEAST)
		fitted = (struct fitted){-width, 0, false};
	return fitted;
}

int text__room(const struct report *report, int at, int width)
{
	return text__fit(report, at, width, "", &(struct row_key){.file = "", .module = ""}).name;
}

int text__below(const struct report *report, int at)
{
	const int most = report->options->width - BELOW_ROOM > 4 ? report->options->width - BELOW_ROOM : 4;

	return report->options->width ? min(at, most) : at;
}
