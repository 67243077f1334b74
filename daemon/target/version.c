/* SPDX-License-Identifier: MIT */
/* Finds and parses the version text of Py_GetVersion() in the data of a Python (version.h). CPython writes it into a
 * static buffer when it starts:
 *
 *    3.8.18 (default, Aug 24 2023, 10:51:20) \n[GCC 12.2.0]
 *    3.9.18+ (heads/3.9:1d4f2a, ...) [GCC 12.2.0]
 *
 * The whole form is checked, as data is full of digits with dots. */
#include "target/version.h"

#include <stdio.h>
#include <string.h>

static bool digits(const char **at, const char *end, unsigned max, unsigned *ret)
{
	const char *from = *at;
	unsigned value = 0;

	while (*at < end && **at >= '0' && **at <= '9' && value <= max)
		value = value * 10 + (unsigned)(*(*at)++ - '0');
	*ret = value;
	return *at > from && value <= max;
}

static bool take(const char **at, const char *end, char ch)
{
	if (*at >= end || **at != ch)
		return false;
	(*at)++;
	return true;
}

/* PY_VERSION " (" build ") " ["\n"] "[" compiler: Python/getversion.c */
static bool parse(const char *at, const char *end, uint32_t *ret)
{
	unsigned major, minor, micro, level = 0xf, serial = 0;
	const char *close;

	if (!digits(&at, end, 9, &major) || !take(&at, end, '.') || !digits(&at, end, 99, &minor) ||
	    !take(&at, end, '.') || !digits(&at, end, 99, &micro))
		return false;
	if (take(&at, end, 'a'))
		level = 0xa;
	else if (take(&at, end, 'b'))
		level = 0xb;
	else if (take(&at, end, 'r') && take(&at, end, 'c'))
		level = 0xc;
	if (level != 0xf && !digits(&at, end, 15, &serial))
		return false;
	take(&at, end, '+');
	if (!take(&at, end, ' ') || !take(&at, end, '('))
		return false;
	/* The build's text is short; a hostile one must not make this quadratic. */
	if (end - at > 96)
		end = at + 96;
	/* The build's text has no ')' before its end. */
	close = memchr(at, ')', (size_t)(end - at));
	if (!close)
		return false;
	at = close + 1;
	if (!take(&at, end, ' '))
		return false;
	take(&at, end, '\n');
	if (!take(&at, end, '['))
		return false;
	*ret = major << 24 | minor << 16 | micro << 8 | level << 4 | serial;
	return true;
}

/* memchr() for the dots is what makes it fast: some MB of data are searched. */
bool version__find(const char *data, size_t len, uint32_t *ret_hex)
{
	const char *at = data, *end = data + len, *dot;

	/* A digit and a dot, at the begin of a string: the byte before must be 0. */
	for (; at < end && (dot = memchr(at, '.', (size_t)(end - at))); at = dot + 1) {
		if (dot - data < 1 || dot[-1] < '2' || dot[-1] > '9')
			continue;
		if (dot - data >= 2 && dot[-2])
			continue;
		if (parse(dot - 1, end, ret_hex))
			return true;
	}
	return false;
}

/* `levels`: of PY_VERSION_HEX, its low byte's high half (Include/patchlevel.h); final has no suffix. */
void version__format(uint32_t hex, bool free_threaded, char ret[32])
{
	static const char *const levels[16] = {[0xa] = "a", [0xb] = "b", [0xc] = "rc"};
	const char *level = levels[hex >> 4 & 0xf];
	char pre[16] = "";

	if (level)
		snprintf(pre, sizeof(pre), "%s%u", level, hex & 0xf);
	snprintf(ret, 32, "%u.%u.%u%s%s", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff, pre,
		 free_threaded ? "t" : "");
}
