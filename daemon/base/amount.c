/* SPDX-License-Identifier: MIT */
#include "base/amount.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST ((double)(1ull << 62))

/* strtod() takes "inf", "nan", hexadecimals, a sign and blanks, too: hence the test of the characters. */
bool amount__number(const char *text, double *ret, const char **ret_end)
{
	char *end;
	size_t len = strspn(text, "0123456789.");

	if (!isdigit((unsigned char)*text) && *text != '.')
		return false;
	errno = 0;
	*ret = strtod(text, &end);
	*ret_end = end;
	return !errno && end == text + len && isfinite(*ret);
}

bool amount__parse(const char *text, const struct amount_unit *units, uint64_t *ret)
{
	const char *end;
	double value;

	if (!amount__number(text, &value, &end))
		return false;
	while (units->name && strcmp(units->name, end))
		units++;
	value *= (double)units->factor;
	if (!units->name || value >= MOST)
		return false;
	*ret = (uint64_t)(value + 0.5);
	return true;
}

bool amount__bytes(const char *text, uint64_t *ret)
{
	static const struct amount_unit units[] = {
		{"", 1}, {"k", 1000}, {"K", 1000}, {"M", 1000000}, {"G", 1000000000}, {"T", 1000000000000},
		{"Ki", 1ull << 10}, {"Mi", 1ull << 20}, {"Gi", 1ull << 30}, {"Ti", 1ull << 40}, {},
	};
	char bare[32];
	size_t len = strlen(text);

	if (!len || len >= sizeof(bare))
		return false;
	memcpy(bare, text, len + 1);
	if (bare[len - 1] == 'B')
		bare[len - 1] = '\0';
	return amount__parse(bare, units, ret);
}

bool amount__ns(const char *text, uint64_t *ret)
{
	static const struct amount_unit units[] = {
		{"", 1000000000}, {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}, {},
	};

	return amount__parse(text, units, ret);
}
