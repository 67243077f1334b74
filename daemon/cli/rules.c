/* SPDX-License-Identifier: MIT */
/* `cprofd rules list` prints the known compilers; `cprofd rules check FILE...` parses rule files and prints
 * the first error. No engine is needed: rules are data (rules/, docs/rules.md).
 *
 *     Numba          rules:  3 of units, 10 of phases,  9 of passes   rules/numba.rules */
#include <inttypes.h>
#include <string.h>

#include "base/safe_text.h"
#include "cli/connection.h"
#include "rules/rules.h"

void rules_error__say(const struct rules_error *error)
{
	/* Line 0: the file as a whole, such as one that cannot be read. */
	if (error->line)
		say("%s:%" PRIu32 ":%" PRIu32 ": %s", error->file, error->line, error->column, error->sentence);
	else
		say("%s: %s", error->file, error->sentence);
}

int rules__all(const char *path, struct rules **ret)
{
	struct rules_error error;

	if (rules__new(ret)) {
		say("out of memory");
		return CLI_COULD_NOT;
	}
	/* The user's file after the built-in ones, as it may replace compilers of theirs. */
	if (!rules__builtin(*ret, &error) && !(path && user_rules__parse(path, *ret, &error)))
		return CLI_DONE;
	rules_error__say(&error);
	rules__free(*ret);
	*ret = NULL;
	return CLI_COULD_NOT;
}

static int fail(const struct rules_error *error)
{
	rules_error__say(error);
	return CLI_COULD_NOT;
}

/* A compiler may be defined again in a later file: then the earlier one is gone, and only the later one is
 * printed. */
static void print_compiler(const struct rules *rules, uint32_t number)
{
	const struct compiler *compiler = rules__compiler(rules, number);
	uint32_t counts[RULE_ALL_KINDS] = {}, i;

	if (compiler__gone(compiler))
		return;
	for (i = 0; i < compiler->n_rules; i++)
		counts[rules__get(rules, compiler->first + i)->kind]++;
	printf("%-14s rules: %2" PRIu32 " of units, %2" PRIu32 " of phases, %2" PRIu32 " of passes, %2" PRIu32 " of lines   ", compiler->name,
	       counts[RULE_UNIT], counts[RULE_PHASE], counts[RULE_PASS], counts[RULE_LINE]);
	safe_text__put(stdout, compiler->source);
	putchar('\n');
}

static int run(const struct cli_options *options, struct rules *rules)
{
	const char *what = options->n_operands ? options->operands[0] : "";
	struct rules_error error;
	uint32_t before, i;

	if (!strcmp(what, "list") && options->n_operands == 1) {
		if (rules__builtin(rules, &error) || (options->rules && rules__file(rules, options->rules, &error)))
			return fail(&error);
		for (i = 0; i < rules__compilers(rules); i++)
			print_compiler(rules, i);
		return CLI_DONE;
	}
	if (strcmp(what, "check") || options->n_operands < 2) {
		say("which? `cprofd rules list`, or `cprofd rules check FILE`");
		return CLI_USAGE;
	}
	for (int n = 1; n < options->n_operands; n++) {
		/* A file may hold several compilers, and a directory several files: all that it has added are
		 * printed. */
		before = rules__compilers(rules);
		if (rules__file(rules, options->operands[n], &error))
			return fail(&error);
		for (i = before; i < rules__compilers(rules); i++)
			print_compiler(rules, i);
	}
	return CLI_DONE;
}

int rules__run(const struct cli_options *options)
{
	struct rules *rules;
	int status;

	if (rules__new(&rules)) {
		say("out of memory");
		return CLI_COULD_NOT;
	}
	status = run(options, rules);
	rules__free(rules);
	return status;
}
