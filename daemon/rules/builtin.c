/* SPDX-License-Identifier: MIT */
/* The built-in rules: the files of rules/, which the Makefile turns into text (rules.inc):
 * {"rules/numba.rules", "compiler Numba\n" "own ...\n"}, one entry for each file. A mistake in one of them is
 * found by a unit test, and by every start of cprofd. */
#include <string.h>

#include "rules/rules.h"

static const struct {
	const char *file, *text;
} texts[] = {
#include "rules.inc"
	{NULL, NULL},
};

int rules__builtin(struct rules *rules, struct rules_error *ret_error)
{
	int err = 0;

	for (size_t i = 0; !err && texts[i].file; i++)
		err = rules__parse(rules, texts[i].file, texts[i].text, strlen(texts[i].text), ret_error);
	return err;
}
