/* SPDX-License-Identifier: MIT */
/* Rules for more compilers, as texts that a client sends with the request `rules` (docs/rules.md):
 *
 *    {"req":"rules","id":16,"file":"my.rules","text":"compiler mine\nunit\nfunction build\nname kernel.name\n"}
 *
 * They hold for the sessions that this client attaches afterwards, together with those of the program. The texts are
 * kept, not what was parsed: each session has a set of rules of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"
#include "serve/engine.h"

#define TEXTS_MAX 64u

struct user_text {
	char *file, *text;
};

struct user_rules {
	struct user_text texts[TEXTS_MAX];
	uint32_t n;
	size_t bytes;
};

/* A set of the program's rules and these. ret_error: place and sentence, if a text is wrong. */
static int build(const struct user_rules *user, struct rules **ret, struct rules_error *ret_error)
{
	struct rules *rules;
	int err = rules__new(&rules);

	if (err)
		return err;
	err = rules__builtin(rules, ret_error);
	for (uint32_t i = 0; user && !err && i < user->n; i++)
		err = rules__parse(rules, user->texts[i].file, user->texts[i].text, strlen(user->texts[i].text), ret_error);
	if (err) {
		rules__free(rules);
		return err;
	}
	*ret = rules;
	return 0;
}

int user_rules__build(const struct user_rules *user, struct rules **ret)
{
	struct rules_error error;

	return build(user, ret, &error);
}

/* All texts are parsed together, as each session will do it: what is wrong only beside the others is refused here, too.
 * After a refusal the texts of before stay. */
int user_rules__add(struct user_rules **user, const char *file, const char *text, struct refusal *ret_refusal)
{
	struct rules_error error = {};
	struct user_rules *own = *user;
	struct user_text *to;
	struct rules *rules;
	int err;

	if (!own)
		own = *user = calloc(1, sizeof(*own));
	if (own && (own->n == TEXTS_MAX || own->bytes + strlen(text) > RULES_TEXT_MAX)) {
		refusal__set(ret_refusal, "LIMIT", "put them into fewer files", "more than %u texts of rules, or %u bytes",
			     TEXTS_MAX, RULES_TEXT_MAX);
		return -EDQUOT;
	}
	to = own ? &own->texts[own->n] : NULL;
	if (to)
		*to = (struct user_text){strdup(file), strdup(text)};
	if (!to || !to->file || !to->text) {
		err = -ENOMEM;
	} else {
		own->n++;
		err = build(own, &rules, &error);
		if (!err) {
			rules__free(rules);
			own->bytes += strlen(text);
			return 0;
		}
		own->n--;
	}
	if (to) {
		free(to->file);
		free(to->text);
	}
	if (*error.sentence)
		refusal__set(ret_refusal, "BAD_RULES", "`cprofd rules check` reads a file of rules without a session",
			     "%.100s:%" PRIu32 ":%" PRIu32 ": %s", error.file, error.line, error.column, error.sentence);
	else
		refusal__set(ret_refusal, "NO_MEMORY", "", "these rules: %s", strerror(-err));
	return err;
}

void user_rules__free(struct user_rules *user)
{
	for (uint32_t i = 0; user && i < user->n; i++) {
		free(user->texts[i].file);
		free(user->texts[i].text);
	}
	free(user);
}
