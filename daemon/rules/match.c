/* SPDX-License-Identifier: MIT */
/* Matching: which rule applies to a frame, and what name the rule gives it. Pure; called for each new
 * function of a session (units/), so hundreds of thousands of times against some hundred patterns.
 *
 *     native *Pass::run(llvm::Function&*     llvm::InstCombinePass::run(llvm::Function&, ...)   a demangled symbol
 *     function compile_extra                 compile_extra                      a Python function's qualified name
 *
 * The first rule that matches wins, in the order of parsing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rules/internal.h"

/* "*" matches any bytes, or none; everything else stands for itself. The part before the first star is
 * compared directly, the rest star by star. */
bool pattern__matches(const char *pattern, const char *text)
{
	const char *found;
	size_t len, left;

	for (; *pattern != '*'; pattern++, text++) {
		if (*pattern != *text)
			return false;
		if (!*pattern)
			return true;
	}
	/* The text between two stars is matched at its first occurrence: that leaves the most text for the rest. */
	for (left = strlen(text);; pattern += len) {
		pattern += strspn(pattern, "*");
		len = strcspn(pattern, "*");
		if (!pattern[len]) /* the rest must be the end of the text; empty after a final star */
			return left >= len && !memcmp(text + left - len, pattern, len);
		found = memmem(text, left, pattern, len);
		if (!found)
			return false;
		left -= (size_t)(found - text) + len;
		text = found + len;
	}
}

bool patterns__any(const struct patterns *patterns, const char *text)
{
	for (uint32_t i = 0; i < patterns->n; i++)
		if (pattern__matches(patterns->patterns[i], text))
			return true;
	return false;
}

/* Before 3.11, code objects only have the last part of the qualified name. `whole`: the name is known to be all
 * of it. */
static bool function_matches(const struct patterns *functions, const char *name, bool whole)
{
	for (uint32_t i = 0; i < functions->n; i++) {
		const char *pattern = functions->patterns[i], *last = whole ? NULL : strrchr(pattern, '.');

		if (pattern__matches(pattern, name) || (last && pattern__matches(last + 1, name)))
			return true;
	}
	return false;
}

static bool is_dotted(const char *name)
{
	return strchr(name, '.');
}

bool rule__is_caller(const struct rule *rule, const char *name)
{
	return function_matches(&rule->callers, name, is_dotted(name));
}

static bool has(const struct rule_variables *variables, const char *name)
{
	for (uint32_t i = 0; i < variables->n; i++)
		if (!strcmp(variables->names[i], name))
			return true;
	return false;
}

static bool has_all(const struct rule *rule, const struct rule_variables *variables)
{
	/* Not known: the rule gets the benefit of the doubt. units/captures.c asks again when they are. */
	if (!variables || !variables->names)
		return true;
	for (uint32_t i = 0; i < rule->has.n; i++)
		if (!has(variables, rule->has.patterns[i]))
			return false;
	return true;
}

/* The name first: it rejects nearly all functions. */
static bool matches_python(const struct rule *rule, const char *file, const char *name, bool whole)
{
	return function_matches(&rule->functions, name, whole) && patterns__any(&rule->files, file) &&
	       !patterns__any(&rule->nots, name);
}

/* Sets the bit of a pair of bytes. Any hash will do, if a text and a pattern use the same. */
static void add_pair(struct text_pairs *pairs, uint8_t a, uint8_t b)
{
	const uint8_t hash = (uint8_t)((a * 0x9du + b * 0x3bu) >> 2);

	pairs->bits[hash >> 6] |= 1ull << (hash & 63);
}

void text_pairs__of(const char *text, struct text_pairs *ret)
{
	*ret = (struct text_pairs){};
	for (; text[0] && text[1]; text++)
		add_pair(ret, (uint8_t)text[0], (uint8_t)text[1]);
}

void pattern__pairs(const char *pattern, struct text_pairs *ret)
{
	*ret = (struct text_pairs){};
	for (; pattern[0] && pattern[1]; pattern++)
		if (pattern[0] != '*' && pattern[1] != '*')
			add_pair(ret, (uint8_t)pattern[0], (uint8_t)pattern[1]);
}

/* True if no needed pair is missing. A Bloom filter: it may say yes wrongly, never no. */
static bool has_pairs(const struct text_pairs *has, const struct text_pairs *needs)
{
	uint64_t lacks = 0;

	for (unsigned i = 0; i < 4; i++)
		lacks |= needs->bits[i] & ~has->bits[i];
	return !lacks;
}

/* `pairs`: of the name; NULL: not computed. */
static bool matches_native(const struct rule *rule, const char *name, const struct text_pairs *pairs)
{
	for (uint32_t i = 0; i < rule->natives.n; i++)
		if ((!pairs || has_pairs(pairs, &rule->native_pairs[i])) &&
		    pattern__matches(rule->natives.patterns[i], name))
			return !patterns__any(&rule->nots, name);
	return false;
}

bool rule__could_match(const struct rule *rule, const char *file, const char *name, const struct text_pairs *pairs)
{
	return file ? matches_python(rule, file, name, is_dotted(name)) : matches_native(rule, name, pairs);
}

/* Tries all rules in order. Callers keep the answer for each function. */
uint32_t rules__python(const struct rules *rules, const char *file, const char *name,
		       const struct rule_variables *variables)
{
	const bool whole = is_dotted(name) || (variables && variables->qualified);

	for (uint32_t i = 0; i < rules->n_rules; i++) {
		const struct rule *rule = &rules->rules[i];

		if (matches_python(rule, file, name, whole) && has_all(rule, variables) &&
		    !compiler__gone(&rules->compilers[rule->compiler]))
			return i;
	}
	return RULE_NONE;
}

uint32_t rules__native(const struct rules *rules, const char *name)
{
	struct text_pairs pairs;

	/* Most new functions are addresses in a library without symbols. A demangled C++ function has its
	 * arguments in parentheses. */
	if (!rules->bare_natives && !strchr(name, '('))
		return RULE_NONE;
	text_pairs__of(name, &pairs);
	for (uint32_t i = 0; i < rules->n_rules; i++) {
		const struct rule *rule = &rules->rules[i];

		if (matches_native(rule, name, &pairs) && !compiler__gone(&rules->compilers[rule->compiler]))
			return i;
	}
	return RULE_NONE;
}

const struct compiler *rules__compiler_named(const struct rules *rules, const char *name)
{
	for (uint32_t i = 0; i < rules->n_compilers; i++)
		if (!compiler__gone(&rules->compilers[i]) && !strcmp(rules->compilers[i].name, name))
			return &rules->compilers[i];
	return NULL;
}

bool rules__is_own(const struct rules *rules, uint32_t compiler, const char *file)
{
	return compiler < rules->n_compilers &&
	       patterns__any(&rules->compilers[compiler].own, file);
}

/* --- parts of a name: namespace::Class<A, B>::function(arguments) const, or module.Class.function --- */

struct span {
	const char *start, *end;
};

/* The name without its arguments. (Parts of a name are then separated by `:` and `.` outside of brackets,
 * from the end backwards.)
 *
 *     llvm::PassModel<A, B (C)>::run(llvm::Function&) const   ->   llvm::PassModel<A, B (C)>::run */
static struct span without_arguments(const char *name)
{
	const char *at = name, *end = name + strlen(name);
	int depth = 0;

	for (; *at; at++) {
		if (*at == '<' || *at == '{')
			depth++;
		/* "operator>" closes nothing. */
		else if ((*at == '>' || *at == '}') && depth)
			depth--;
		else if (*at == '(' && !depth && at > name) {
			if (!strncmp(at, "(anonymous namespace)", 21))
				at += 20;
			else
				return (struct span){name, at};
		}
	}
	return (struct span){name, end};
}

/* The last part of `whole`; *ret_rest: what is before it. Brackets are skipped as a whole: their contents may
 * have dots and colons. */
static struct span last_part(struct span whole, struct span *ret_rest)
{
	const char *at = whole.end;
	int depth = 0;

	while (at > whole.start) {
		char c = at[-1];

		if (c == '>' || c == ')' || c == '}')
			depth++;
		else if ((c == '<' || c == '(' || c == '{') && depth)
			depth--;
		else if (!depth && (c == ':' || c == '.'))
			break;
		at--;
	}
	ret_rest->start = ret_rest->end = whole.start;
	if (at > whole.start) {
		ret_rest->end = at - 1;
		/* "::" is two bytes. */
		if (ret_rest->end > whole.start && *ret_rest->end == ':' && ret_rest->end[-1] == ':')
			ret_rest->end--;
	}
	return (struct span){at, whole.end};
}

static struct span without_template(struct span part)
{
	const char *at;

	for (at = part.start; at < part.end; at++)
		if (*at == '<' && at > part.start)
			return (struct span){part.start, at};
	return part;
}

/* The number-th template argument (from 1), without its namespaces and its own template arguments:
 * "RunPass<Module, a::Opt<int> >", 2 -> "Opt" */
static struct span template_argument(struct span part, uint32_t number)
{
	const char *at = memchr(part.start, '<', (size_t)(part.end - part.start)), *start;
	struct span rest, found;
	int depth = 0;

	if (!at)
		return (struct span){part.start, part.start};
	/* Commas inside of an argument's own brackets do not end it. */
	for (start = ++at; at < part.end; at++) {
		if (*at == '<' || *at == '(') {
			depth++;
		} else if (depth && (*at == '>' || *at == ')')) {
			depth--;
		} else if (!depth && (*at == ',' || *at == '>')) {
			if (!--number) {
				found = last_part((struct span){start, at}, &rest);
				return without_template(found);
			}
			start = at + 1;
			if (*start == ' ')
				start++;
		}
	}
	return (struct span){part.end, part.end};
}

/* In a::Opt<X>::run(...), `run` is the function, `Opt` the class, and X its first template argument. */
static struct span part_of(const struct source *source, const char *name)
{
	struct span rest, part = last_part(without_arguments(name), &rest), nothing;

	if (source->kind == SOURCE_FUNCTION)
		return without_template(part);
	part = last_part(rest, &nothing);
	return source->kind == SOURCE_CLASS ? without_template(part)
					    : template_argument(part, source->number);
}

bool source__is_local(const struct source *source)
{
	return source->kind == SOURCE_VALUE && source->n == 1;
}

/* Choices are stored in a row: `a | b + c | d` is a, b (joined), c, d. */
uint32_t choices__next(const struct choices *choices, uint32_t i)
{
	while (i < choices->n && choices->sources[i].joined)
		i++;
	return i + 1;
}

bool choices__have_text(const struct choices *choices)
{
	uint32_t i, end;
	bool text;

	for (i = 0; i < choices->n; i = end) {
		end = choices__next(choices, i);
		for (text = true; i < end; i++)
			text = text && choices->sources[i].kind != SOURCE_VALUE;
		if (text)
			return true;
	}
	return false;
}

int source__text(const struct source *source, const char *frame, char *ret, size_t size)
{
	struct span part = {};

	if (source->kind == SOURCE_TEXT)
		part = (struct span){source->text, source->text + strlen(source->text)};
	else if (source->kind != SOURCE_VALUE)
		part = part_of(source, frame);
	if (part.start >= part.end)
		return -ENODATA;
	snprintf(ret, size, "%.*s", (int)(part.end - part.start), part.start);
	return 0;
}

/* Appends the sources of a choice; one that fails discards the choice, and the next one begins. */
int rule__text(const struct choices *choices, const char *frame, char *ret, size_t size)
{
	size_t len = 0;
	uint32_t i = 0;

	while (i < choices->n) {
		const struct source *source = &choices->sources[i];

		if (source__text(source, frame, ret + len, size - len)) {
			i = choices__next(choices, i);
			len = 0;
			continue;
		}
		len += strlen(ret + len);
		i++;
		if (!source->joined)
			return 0;
	}
	return -ENODATA;
}

bool rules__values(const struct choices *choices)
{
	for (uint32_t i = 0; i < choices->n; i++)
		if (choices->sources[i].kind == SOURCE_VALUE)
			return true;
	return false;
}

/* In place. A group's name wins over stripping. */
void compiler__polish(const struct compiler *compiler, char *name)
{
	size_t len = strlen(name), end;

	for (uint32_t i = 0; i < compiler->n_groups; i++)
		if (patterns__any(&compiler->groups[i].patterns, name)) {
			/* A group's name may be longer than the original name: it is truncated to the buffer. */
			snprintf(name, RULES_WORD_MAX, "%s", compiler->groups[i].name);
			return;
		}
	/* Only one ending is removed, the first in the compiler's order that fits; never the whole name. */
	for (uint32_t i = 0; i < compiler->strips.n; i++) {
		end = strlen(compiler->strips.patterns[i]);
		if (len > end && !strcmp(name + len - end, compiler->strips.patterns[i])) {
			name[len - end] = '\0';
			return;
		}
	}
}
