#include "report/fit.h"

#include <stdbool.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"

/* A letter of UTF-8 begins here. */
static bool begins(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

static int letters_of(const char *text)
{
	int letters = 0;

	for (; *text; text++)
		letters += begins(*text);
	return letters;
}

void fit__name(FILE *out, const char *name, int width)
{
	const char *at, *cut = name;
	int letters = 0, pad = width > 0 ? width : 0;

	width = width > 0 ? width : -width;
	for (at = name; *at; at++) {
		letters += begins(*at);
		if (letters <= width - 1)
			cut = at + 1;
	}
	if (letters <= width)
		fprintf(out, "%s%*s", name, pad > letters ? pad - letters : 0, "");
	else
		fprintf(out, "%.*s" ELLIPSIS, (int)(cut - name), name);
}

void fit__path(FILE *out, const char *path, int width)
{
	int over = letters_of(path) - (width - 1);
	const char *slash;

	if (over <= 1) {
		fputs(path, out);
		return;
	}
	while (*path && (over > 0 || !begins(*path)))
		over -= begins(*path++);
	slash = strchr(path, '/');
	fprintf(out, ELLIPSIS "%s", slash && slash[1] ? slash : path);
}
