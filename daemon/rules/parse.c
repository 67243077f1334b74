/* SPDX-License-Identifier: MIT */
/* Parses the rules of one compiler, line by line. A line is a keyword and its arguments; the table `words`
 * has a function for each keyword.
 *
 *     compiler Numba
 *     stage "typing" *type_inference typing
 *
 *     unit
 *     file *compiler.py
 *     function compile_extra
 *     has typingctx
 *     name func.__qualname__
 *     signature args.*.name
 *
 * A rule begins with `unit`, `phase`, `pass` or `line` and lasts until the next one. Errors have the line and column
 * of what is wrong. An engine parses what a client sends, which may be anything: all counts are limited
 * (rules.h), and nothing is recursive. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/internal.h"

#define ALIGNMENT 8u /* of arrays */

/* State of one text. `compiler` and `rule` are those that the next line adds to. */
struct parser {
	struct line_reader line;
	struct compiler *compiler; /* NULL: no line `compiler` yet */
	struct rule *rule;         /* NULL: before the first rule */
	/* of the line, from 1 */
	uint32_t number;
};

const char *const rule_kind_names[RULE_ALL_KINDS] = {"unit", "phase", "pass", "line"};

int rules__new(struct rules **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct rules *rules__free(struct rules *rules)
{
	if (rules)
		arena__free(&rules->strings);
	free(rules);
	return NULL;
}

uint32_t rules__count(const struct rules *rules) { return rules->n_rules; }
const struct rule *rules__get(const struct rules *rules, uint32_t i) { return &rules->rules[i]; }
uint32_t rules__compilers(const struct rules *rules) { return rules->n_compilers; }

const struct compiler *rules__compiler(const struct rules *rules, uint32_t i)
{
	return &rules->compilers[i];
}

bool compiler__gone(const struct compiler *compiler) { return !compiler->n_rules; }

const char *rules__keep(struct rules *rules, const char *text, size_t len)
{
	char *copy = arena__take(&rules->strings, len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

/* `n`: items in use. The capacity is not stored: it is the next power of two. What an array grew out of stays in the
 * arena, as small as these are. */
static void *rules__grow(struct rules *rules, void *array, size_t item, uint32_t n)
{
	char *grown;

	if (n & (n - 1))
		return array;
	grown = arena__take(&rules->strings, item * (n ? 2 * n : 1) + ALIGNMENT - 1);
	if (!grown)
		return NULL;
	grown += -(uintptr_t)grown & (ALIGNMENT - 1);
	return n ? memcpy(grown, array, item * n) : grown;
}

/* --- one function for each keyword --- */

/* `start` to `end`: the text of the pattern in the line. */
static int add_pattern(struct parser *parser, struct patterns *patterns, const char *start, const char *end)
{
	struct line_reader *line = &parser->line;
	const char **grown;

	line->at = start;
	if (start == end)
		return line__fail(line, "here a pattern is missing");
	if (end - start > (long)RULES_WORD_MAX)
		return line__fail(line, "this is longer than a pattern may be");
	if (patterns->n == RULES_PATTERNS_MAX)
		return line__fail(line, "more patterns than there may be");
	grown = rules__grow(line->rules, patterns->patterns, sizeof(*grown), patterns->n);
	if (!grown)
		return -ENOMEM;
	patterns->patterns = grown;
	grown[patterns->n] = rules__keep(line->rules, start, (size_t)(end - start));
	return grown[patterns->n++] ? 0 : -ENOMEM;
}

/* Patterns separated by spaces. */
static int read_words(struct parser *parser, struct patterns *patterns)
{
	struct line_reader *line = &parser->line;
	int err;

	do {
		const char *start = line->at, *end = start;

		if (start < line->end && *start == '#')
			return line__fail(line, "a comment is a line of its own");
		while (end < line->end && *end != ' ' && *end != '\t')
			end++;
		err = add_pattern(parser, patterns, start, end);
		if (err)
			return err;
		line->at = end;
		line__skip_space(line);
	} while (line->at < line->end);
	return 0;
}

/* One pattern, which may contain spaces, as C++ names do. */
static int read_line(struct parser *parser, struct patterns *patterns)
{
	return add_pattern(parser, patterns, parser->line.at, parser->line.end);
}

static int word_compiler(struct parser *parser)
{
	struct line_reader *line = &parser->line;
	struct rules *rules = line->rules;

	if (parser->compiler)
		return line__fail(line, "a file is about one compiler, and this is the second");
	if (rules->n_compilers == RULES_COMPILERS_MAX)
		return line__fail(line, "more compilers than there may be");
	if (line->at == line->end)
		return line__fail(line, "the compiler's name is missing");
	if (line->end - line->at > 64)
		return line__fail(line, "this is longer than a compiler's name may be");
	parser->compiler = &rules->compilers[rules->n_compilers];
	/* Filled in in place, but counted only at the end of the text: a refused one leaves nothing behind. */
	*parser->compiler = (struct compiler){.first = rules->n_rules};
	parser->compiler->name = rules__keep(rules, line->at, (size_t)(line->end - line->at));
	return parser->compiler->name ? 0 : -ENOMEM;
}

/* Is the rule complete? Called when the next one begins, and at the end. */
static int check_rule(struct parser *parser)
{
	const struct rule *rule = parser->rule;
	struct line_reader *line = &parser->line;

	if (!rule)
		return 0;
	if (!rule->functions.n && !rule->natives.n)
		return line__fail(line, "the rule above this line has neither `function` nor `native`");
	if (rule->functions.n && !rule->files.n)
		return line__fail(line, "the rule above this line has a `function`, but no `file`");
	if (rule->callers.n && !rule->functions.n)
		return line__fail(line, "the rule above this line has a `from`, but no `function`");
	if (rule->kind == RULE_LINE && (!rule->functions.n || !rule->name.n || !rule->signature.n))
		return line__fail(line, "the `line` above needs a `function`, `source` and `number`");
	if (!rule->name.n)
		return line__fail(line, "the rule above this line has no `name`");
	if (!rule->functions.n && (rule->has.n || !choices__have_text(&rule->name)))
		return line__fail(line, "the rule above this line is of native frames, which have no variables: "
					"no `has`; a `name` of @... or \"text\"");
	return 0;
}

/* The compiler that is being parsed has the number `n_compilers`, which is raised when the text was accepted. */
static int begin_rule(struct parser *parser, enum rule_kind kind)
{
	struct line_reader *line = &parser->line;
	struct rules *rules = line->rules;
	int err = check_rule(parser);

	if (err)
		return err;
	if (line->at != line->end)
		return line__fail(line, "here the line should end");
	if (rules->n_rules == RULES_MAX)
		return line__fail(line, "more rules than there may be");
	parser->rule = &rules->rules[rules->n_rules++];
	*parser->rule = (struct rule){
		.kind = kind, .compiler = rules->n_compilers, .line = parser->number};
	parser->compiler->n_rules++;
	return 0;
}

static int word_unit(struct parser *parser) { return begin_rule(parser, RULE_UNIT); }
static int word_phase(struct parser *parser) { return begin_rule(parser, RULE_PHASE); }
static int word_pass(struct parser *parser) { return begin_rule(parser, RULE_PASS); }
static int word_line(struct parser *parser) { return begin_rule(parser, RULE_LINE); }

static int word_own(struct parser *parser) { return read_words(parser, &parser->compiler->own); }
static int word_loaded(struct parser *parser) { return read_words(parser, &parser->compiler->loaded); }
static int word_strip(struct parser *parser) { return read_words(parser, &parser->compiler->strips); }

/* "name" pattern pattern ... */
static int read_group(struct parser *parser, struct rule_group **groups, uint32_t *n, uint32_t max)
{
	struct line_reader *line = &parser->line;
	struct rule_group *grown;
	const char *start = line->at + 1, *end;

	end = line->at < line->end && *line->at == '"' ?
		      memchr(start, '"', (size_t)(line->end - start)) : NULL;
	if (!end || end == start)
		return line__fail(line, "here a name is missing, in \"\"");
	if (end - start >= (long)RULES_WORD_MAX / 2)
		return line__fail(line, "this is longer than such a name may be");
	if (*n == max)
		return line__fail(line, "more of these than there may be");
	grown = rules__grow(line->rules, *groups, sizeof(*grown), *n);
	if (!grown)
		return -ENOMEM;
	*groups = grown;
	grown += (*n)++;
	*grown = (struct rule_group){.name = rules__keep(line->rules, start, (size_t)(end - start))};
	line->at = end + 1;
	line__skip_space(line);
	return grown->name ? read_words(parser, &grown->patterns) : -ENOMEM;
}

static int word_group(struct parser *parser)
{
	struct compiler *compiler = parser->compiler;

	return read_group(parser, &compiler->groups, &compiler->n_groups, RULES_PATTERNS_MAX);
}

static int word_stage(struct parser *parser)
{
	struct compiler *compiler = parser->compiler;

	return read_group(parser, &compiler->stages, &compiler->n_stages, RULES_STAGES_MAX);
}

static int word_file(struct parser *parser) { return read_words(parser, &parser->rule->files); }
static int word_function(struct parser *parser) { return read_words(parser, &parser->rule->functions); }

static int word_native(struct parser *parser)
{
	struct rules *rules = parser->line.rules;
	struct rule *rule = parser->rule;
	const uint32_t i = rule->natives.n;
	/* Its own array beside the patterns, of the same length. */
	struct text_pairs *grown = rules__grow(rules, rule->native_pairs, sizeof(*grown), i);
	int err = grown ? read_line(parser, &rule->natives) : -ENOMEM;

	if (grown)
		rule->native_pairs = grown;
	if (err)
		return err;
	pattern__pairs(rule->natives.patterns[i], &grown[i]);
	/* Such a pattern may match a name without arguments: then rules__native() has to test these, too. */
	rules->bare_natives |= !strchr(rule->natives.patterns[i], '(');
	return 0;
}

static int word_not(struct parser *parser) { return read_line(parser, &parser->rule->nots); }

/* Names of variables are compared as they are, so a pattern would never match. */
static int word_has(struct parser *parser)
{
	struct line_reader *line = &parser->line;
	const char *at;

	for (at = line->at; at < line->end; at++)
		if (*at != ' ' && *at != '\t' && !is_name(*at, at == line->at || at[-1] == ' ' || at[-1] == '\t')) {
			line->at = at;
			return line__fail(line, "only names of variables, separated by spaces");
		}
	return read_words(parser, &parser->rule->has);
}

static int word_from(struct parser *parser) { return read_words(parser, &parser->rule->callers); }

/* A word with nothing after it. */
static int set_flag(struct parser *parser, bool *flag)
{
	if (parser->line.at != parser->line.end)
		return line__fail(&parser->line, "here the line should end");
	*flag = true;
	return 0;
}

static int word_once(struct parser *parser)
{
	if (parser->rule->kind != RULE_PHASE)
		return line__fail(&parser->line, "only a phase can be `once`");
	return set_flag(parser, &parser->rule->once);
}

static int word_apart(struct parser *parser)
{
	if (parser->rule->kind != RULE_PHASE)
		return line__fail(&parser->line, "only a phase can be `apart`");
	return set_flag(parser, &parser->rule->apart);
}

static int word_traces(struct parser *parser)
{
	if (parser->rule->kind != RULE_UNIT)
		return line__fail(&parser->line, "only a unit `traces`");
	return set_flag(parser, &parser->rule->traces);
}

static int word_lasting(struct parser *parser) { return set_flag(parser, &parser->rule->lasting); }

static int read_choices(struct parser *parser, struct choices *choices)
{
	if (choices->n)
		return line__fail(&parser->line, "this was given above already: separate choices by |");
	return value__parse(&parser->line, choices);
}

static int word_name(struct parser *parser)
{
	if (parser->rule->kind == RULE_LINE)
		return line__fail(&parser->line, "a line has no name, but a `source` and a `number`");
	return read_choices(parser, &parser->rule->name);
}

static int word_source(struct parser *parser)
{
	if (parser->rule->kind != RULE_LINE)
		return line__fail(&parser->line, "only a line has a `source`");
	return read_choices(parser, &parser->rule->name);
}

/* `number a + b`: the sum, not one text behind the other. So the + becomes a part of the text, for whoever reads that
 * (units/lines.c). */
static int word_number(struct parser *parser)
{
	struct choices *choices = &parser->rule->signature;
	struct source *at;
	int err;

	if (parser->rule->kind != RULE_LINE)
		return line__fail(&parser->line, "only a line has a `number`");
	err = read_choices(parser, choices);
	for (uint32_t i = 0; !err && i < choices->n; i++) {
		if (!choices->sources[i].joined)
			continue;
		if (choices->n == RULES_CHOICES_MAX)
			return line__fail(&parser->line, "more numbers than can be added");
		at = &choices->sources[++i];
		memmove(at + 1, at, (choices->n++ - i) * sizeof(*at));
		*at = (struct source){.kind = SOURCE_TEXT, .text = "+", .joined = true};
	}
	return err;
}

static int word_signature(struct parser *parser)
{
	if (parser->rule->kind == RULE_LINE)
		return line__fail(&parser->line, "a line has no signature, only a unit or a phase has");
	if (parser->rule->kind == RULE_PASS)
		return line__fail(&parser->line, "a pass has no signature, only a unit or a phase has");
	return read_choices(parser, &parser->rule->signature);
}

static int word_defined(struct parser *parser)
{
	if (parser->rule->kind != RULE_UNIT)
		return line__fail(&parser->line, "only a unit has a place where it is defined");
	return read_choices(parser, &parser->rule->defined);
}

/* Where a keyword may stand: once at the top; before the first rule; anywhere; in a rule. */
enum where { FIRST, COMPILER, ANYWHERE, RULE };
static const struct {
	const char *word;
	enum where where;
	int (*take)(struct parser *parser);
} words[] = {
	{"compiler", FIRST, word_compiler},
	{"own", COMPILER, word_own},
	{"loaded", COMPILER, word_loaded},
	{"strip", COMPILER, word_strip},
	{"group", COMPILER, word_group},
	{"stage", COMPILER, word_stage},
	{"unit", ANYWHERE, word_unit},
	{"phase", ANYWHERE, word_phase},
	{"pass", ANYWHERE, word_pass},
	{"line", ANYWHERE, word_line},
	{"file", RULE, word_file},
	{"function", RULE, word_function},
	{"native", RULE, word_native},
	{"not", RULE, word_not},
	{"has", RULE, word_has},
	{"from", RULE, word_from},
	{"once", RULE, word_once},
	{"apart", RULE, word_apart},
	{"lasting", RULE, word_lasting},
	{"traces", RULE, word_traces},
	{"name", RULE, word_name},
	{"signature", RULE, word_signature},
	{"defined", RULE, word_defined},
	{"source", RULE, word_source},
	{"number", RULE, word_number},
};

static int parse_line(struct parser *parser)
{
	struct line_reader *line = &parser->line;
	const char *start, *at;
	size_t i, len;

	if (line->end > line->start && line->end[-1] == '\r') /* CRLF line ends */
		line->end--;
	/* They would end up in names that are printed. */
	for (at = line->start; at < line->end; at++)
		if ((unsigned char)*at < ' ' && *at != '\t') {
			line->at = at;
			return line__fail(line, "this byte is a control character");
		}
	line__skip_space(line);
	start = line->at;
	if (start == line->end || *start == '#')
		return 0;
	/* Blanks at the end would become part of a pattern. */
	while (line->end > start && (line->end[-1] == ' ' || line->end[-1] == '\t'))
		line->end--;
	while (line->at < line->end && *line->at != ' ' && *line->at != '\t')
		line->at++;
	len = (size_t)(line->at - start);
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) != len || memcmp(words[i].word, start, len))
			continue;
		line__skip_space(line);
		/* A second `compiler` is found by word_compiler(). */
		if (words[i].where != FIRST && !parser->compiler) {
			line->at = start;
			return line__fail(line, "the first word of a file is `compiler NAME`");
		}
		if (words[i].where == COMPILER && parser->rule) {
			line->at = start;
			return line__fail(line, "this belongs to the compiler, before its first rule");
		}
		if (words[i].where == RULE && !parser->rule) {
			line->at = start;
			return line__fail(line, "this belongs in a rule: `unit`, `phase`, `pass` or `line` begin one");
		}
		return words[i].take(parser);
	}
	line->at = start;
	return line__fail(line, "no such word; there are: compiler own loaded strip group stage unit phase pass line "
				"file function native not has from once apart lasting traces name signature defined "
				"source number");
}

/* A compiler of the same name that was parsed before is removed: a user's file replaces a built-in one. Its
 * rules stay in the array, where other indices point; a compiler without rules is skipped. */
static void replace(struct rules *rules, const struct compiler *fresh)
{
	for (uint32_t i = 0; i < rules->n_compilers; i++)
		if (!strcmp(rules->compilers[i].name, fresh->name))
			rules->compilers[i].n_rules = 0;
}

/* The last line needs no '\n'. After an error, number and position of the line say where it is. */
static int parse_text(struct parser *parser, const char *text, size_t len)
{
	struct line_reader *line = &parser->line;
	const char *end = text + len;
	int err = 0;

	/* For an error before the first line: column 1. */
	line->start = line->at = line->end = text;
	if (len > RULES_TEXT_MAX)
		return line__fail(line, "the text is longer than 1 MiB");
	while (!err && text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		line->start = line->at = text;
		line->end = stop ? stop : end;
		parser->number++;
		err = parse_line(parser);
		text = stop ? stop + 1 : end;
	}
	if (!err)
		line->at = line->end; /* errors about missing things point to the end */
	if (!err && !parser->compiler)
		err = line__fail(line, "there is no `compiler NAME` in it");
	if (!err && !parser->rule)
		err = line__fail(line, "there is no rule in it");
	return err ?: check_rule(parser);
}

int rules__parse(struct rules *rules, const char *file, const char *text, size_t len,
		 struct rules_error *ret_error)
{
	struct parser parser = {.line = {.rules = rules}};
	uint32_t n_rules = rules->n_rules;
	int err = parse_text(&parser, text, len);

	if (!err) {
		parser.compiler->source = rules__keep(rules, file, strlen(file));
		err = parser.compiler->source ? 0 : -ENOMEM;
	}
	if (err) {
		/* The text counts as a whole or not at all. A compiler of the same name from before is still
		 * there. */
		rules->n_rules = n_rules;
		*ret_error = (struct rules_error){.line = parser.number,
						  .column = (uint32_t)(parser.line.at - parser.line.start) + 1};
		snprintf(ret_error->file, sizeof(ret_error->file), "%s", file);
		snprintf(ret_error->sentence, sizeof(ret_error->sentence), "%s",
			 err == -ENOMEM ? "out of memory" : parser.line.sentence);
		return err;
	}
	/* Before the new one is counted, or replace() would find it, too. */
	replace(rules, parser.compiler);
	rules->n_compilers++;
	return 0;
}
