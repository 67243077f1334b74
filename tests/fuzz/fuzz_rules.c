/* SPDX-License-Identifier: MIT */
/* The bytes are a text of rules; after a line of only "%" come names of frames, one a line. */
#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"

static void ask(const struct rules *rules, const char *name)
{
	uint32_t found[] = {rules__python(rules, name, name, NULL), rules__native(rules, name)};
	char text[RULES_WORD_MAX];
	size_t i;

	for (i = 0; i < 2; i++) {
		const struct rule *rule;

		if (found[i] == RULE_NONE)
			continue;
		if (found[i] >= rules__count(rules))
			abort();
		rule = rules__get(rules, found[i]);
		if (!rule__text(&rule->name, name, text, sizeof(text)))
			compiler__polish(rules__compiler(rules, rule->compiler), text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *names = memmem(text, size, "\n%\n", 3), *end = text + size;
	size_t len = names ? (size_t)(names - text) : size;
	struct rules_error error = {};
	struct rules *rules;
	int err;

	if (rules__new(&rules))
		return 0;
	err = rules__parse(rules, "fuzz", text, len, &error);
	if (err && (!error.sentence[0] || rules__count(rules) || rules__compilers(rules)))
		abort();
	for (names = names ? names + 3 : end; !err && names < end;) {
		const char *stop = memchr(names, '\n', (size_t)(end - names));
		char name[1024];

		len = (size_t)((stop ? stop : end) - names);
		if (len < sizeof(name)) {
			memcpy(name, names, len);
			name[len] = '\0';
			ask(rules, name);
		}
		names = stop ? stop + 1 : end;
	}
	rules__free(rules);
	return 0;
}
