/* SPDX-License-Identifier: MIT */
/* Warns if a compiler ran but its rules found no compile (its version is new), or if a rule of the user's
 * file matched nothing (the file is wrong).
 *
 *     cprofd: my.rules:12: no function that was on a stack matches this rule
 *     cprofd: Numba was at work (compiler.py), but its rules found no compile
 *             a version that they do not know? `--rules FILE` takes others: docs/rules.md
 *
 * The engine has matched the rules during the session. Here they are parsed again and matched against the
 * names of functions alone, without values and callers: rule__could_match(). */
#include "cli/unmatched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/connection.h"

#define RULES_SHOWN 5u
/* A compiler counts as "at work" after this many functions of its files: importing it is not a compile. */
#define AT_WORK 3u
/* Least number of samples or units before a rule is blamed: the first ones may precede what the rule needs. */
#define ENOUGH 3u

struct unmatched {
	struct rules *rules;
	uint32_t builtin, first;             /* number of built-in compilers; first rule of --rules */
	bool matched[RULES_MAX];             /* rules of --rules that matched a function on a stack */
	uint32_t seen[RULES_COMPILERS_MAX];  /* functions seen in files that `loaded` names */
	bool found[RULES_COMPILERS_MAX];     /* a compile was found */
	struct rule_uses *uses;              /* of the rules of --rules */
};

struct unmatched *unmatched__new(const char *path)
{
	struct unmatched *unmatched = calloc(1, sizeof(*unmatched));
	struct rules_error error;
	int err = unmatched ? rules__new(&unmatched->rules) : -1;

	err = err ?: rules__builtin(unmatched->rules, &error);
	if (!err) {
		unmatched->first = rules__count(unmatched->rules);
		unmatched->builtin = rules__compilers(unmatched->rules);
		err = path ? user_rules__parse(path, unmatched->rules, &error) : 0;
		if (!err && path)
			unmatched->uses = rule_uses__new(unmatched->rules, unmatched->first);
	}
	return err ? unmatched__free(unmatched) : unmatched;
}

struct unmatched *unmatched__free(struct unmatched *unmatched)
{
	if (unmatched) {
		rule_uses__free(unmatched->uses);
		rules__free(unmatched->rules);
	}
	free(unmatched);
	return NULL;
}

static void take_function(struct unmatched *unmatched, const struct function_row *row)
{
	const bool python = row->kind == FUNCTION_PYTHON;
	struct text_pairs pairs;

	if (row->kind == FUNCTION_NOTE || row->kind == FUNCTION_KERNEL)
		return;
	/* text_pairs__of() prepares the name for many patterns (rules.h), which is worth it only if there are
	 * some. */
	if (unmatched->first < rules__count(unmatched->rules))
		text_pairs__of(row->name, &pairs);
	for (uint32_t i = unmatched->first; i < rules__count(unmatched->rules); i++)
		if (!unmatched->matched[i])
			unmatched->matched[i] = rule__could_match(rules__get(unmatched->rules, i), python ? row->file : NULL, row->name, &pairs);
	/* "<module>" is the body of a file: it runs when the file is imported, and proves no work. */
	for (uint32_t i = 0; python && strcmp(row->name, "<module>") && i < rules__compilers(unmatched->rules); i++)
		if (unmatched->seen[i] < AT_WORK)
			unmatched->seen[i] += patterns__any(&rules__compiler(unmatched->rules, i)->loaded, row->file);
}

void unmatched__event(struct unmatched *unmatched, const struct event *event)
{
	const struct unit_row *units = event->kind == EVENT_UNITS ? event->rows.rows : NULL;

	if (!unmatched)
		return;
	rule_uses__event(unmatched->uses, event);
	for (uint32_t i = 0; event->kind == EVENT_FUNCTIONS && i < event->rows.n; i++)
		take_function(unmatched, (const struct function_row *)event->rows.rows + i);
	for (uint32_t i = 0; units && i < event->rows.n; i++)
		for (uint32_t j = 0; units[i].kind == RULE_UNIT && j < rules__compilers(unmatched->rules); j++)
			if (!strcmp(rules__compiler(unmatched->rules, j)->name, units[i].compiler))
				unmatched->found[j] = true;
}

/* Explains a rule that matched functions but gave no unit, or only units without a name. True: something was
 * printed. */
static bool print_use(const struct unmatched *unmatched, uint32_t number)
{
	const struct rule *rule = rules__get(unmatched->rules, number);
	const char *source = rules__compiler(unmatched->rules, rule->compiler)->source;
	static const char *const kinds[RULE_KINDS] = {"compile", "phase", "pass"};
	struct rule_use use;

	rule_uses__get(unmatched->uses, number, &use);
	if (use.missed >= ENOUGH)
		say__failure(rule->kind == RULE_UNIT ? "variables that it `has`, callers that it is `from`? A rule above it of the same function?"
						     : "a compile around it? Variables that it `has`, callers that it is `from`?",
			     "%s:%" PRIu32 ": its function was on the stack of %" PRIu32 " samples, but no %s was found", source, rule->line,
			     use.missed, kinds[rule->kind]);
	else if (use.nameless >= ENOUGH && !use.named)
		say__failure("a variable of that name in this function? an attribute, and not a property?",
			     "%s:%" PRIu32 ": `name` gave nothing for any of its %" PRIu32 " %s", source, rule->line, use.nameless,
			     rule->kind == RULE_PASS ? "passes" : rule->kind == RULE_PHASE ? "phases" : "compiles");
	else
		return false;
	return true;
}

/* Prints what is wrong with the rules of one compiler in the user's file. */
static void print_rules(const struct unmatched *unmatched, uint32_t number)
{
	const struct compiler *compiler = rules__compiler(unmatched->rules, number);
	uint32_t i, missed = 0, said = 0;

	for (i = compiler->first; i < compiler->first + compiler->n_rules; i++)
		missed += !unmatched->matched[i];
	/* One line in place of many: most likely the names are spelled differently from what cprofd sees. */
	if (missed == compiler->n_rules) {
		say__failure("write functions as `cprofd report --by=function --native-frames --csv` prints them",
			     "%s: none of these rules matches a function that was on a stack", compiler->source);
		return;
	}
	for (i = compiler->first; i < compiler->first + compiler->n_rules && missed <= RULES_SHOWN; i++)
		if (!unmatched->matched[i])
			say("%s:%" PRIu32 ": no function that was on a stack matches this rule", compiler->source,
			    rules__get(unmatched->rules, i)->line);
	if (missed > RULES_SHOWN)
		say("%s: %" PRIu32 " of %" PRIu32 " rules match no function that was on a stack", compiler->source, missed, compiler->n_rules);
	for (i = compiler->first; i < compiler->first + compiler->n_rules && said < RULES_SHOWN; i++)
		if (unmatched->matched[i])
			said += print_use(unmatched, i);
}

/* A built-in compiler was at work, but no compile of it was found. */
static bool is_strange(const struct unmatched *unmatched, uint32_t number)
{
	return unmatched->seen[number] >= AT_WORK && !unmatched->found[number];
}

uint32_t unmatched__lines(const struct unmatched *unmatched)
{
	uint32_t i, lines = 0;

	for (i = 0; unmatched && i < unmatched->builtin; i++)
		if (!compiler__gone(rules__compiler(unmatched->rules, i)))
			lines += 3 * is_strange(unmatched, i);
	return lines;
}

void unmatched__print(const struct unmatched *unmatched)
{
	for (uint32_t i = 0; unmatched && i < rules__compilers(unmatched->rules); i++) {
		const struct compiler *compiler = rules__compiler(unmatched->rules, i);

		if (compiler__gone(compiler))
			continue;
		if (i >= unmatched->builtin)
			print_rules(unmatched, i);
		else if (is_strange(unmatched, i))
			say__failure("a version that they do not know? `--rules FILE` takes others: docs/rules.md",
				     "%s was at work (%s), but its rules found no compile", compiler->name, basename(compiler->loaded.patterns[0]));
	}
}
