/* SPDX-License-Identifier: MIT */
/* Parses the right side of `name`, `signature` and `defined`: choices separated by |, each of one or more
 * sources joined by +.
 *
 *     name self.func_id.func_qualname | @class + "." + @function
 *          ^ VALUE, three steps         ^ CLASS   ^ TEXT ^ FUNCTION     three sources, joined
 *
 * What the frame's own name says: @function, @class, @template:N. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "rules/internal.h"

int line__fail(struct line_reader *reader, const char *sentence)
{
	if (!reader->sentence)
		reader->sentence = sentence;
	return -EBADMSG;
}

void line__skip_space(struct line_reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t'))
		reader->at++;
}

bool is_name(char c, bool first)
{
	/* Non-ASCII identifiers are accepted byte by byte. */
	return c == '_' || isalpha((unsigned char)c) || (c & 0x80) ||
	       (!first && isdigit((unsigned char)c));
}

/* Skips `c` if it comes next. */
static bool take(struct line_reader *reader, char c)
{
	if (reader->at >= reader->end || *reader->at != c)
		return false;
	reader->at++;
	return true;
}

/* There are no escapes: a text has no quotation mark in it. */
static int parse_text(struct line_reader *reader, struct source *ret)
{
	const char *start = ++reader->at;

	while (reader->at < reader->end && *reader->at != '"')
		reader->at++;
	if (reader->at >= reader->end)
		return line__fail(reader, "a text begins here that has no closing \"");
	if (reader->at - start > (long)RULES_WORD_MAX)
		return line__fail(reader, "this text is too long");
	ret->kind = SOURCE_TEXT;
	ret->text = rules__keep(reader->rules, start, (size_t)(reader->at - start));
	reader->at++;
	return ret->text ? 0 : -ENOMEM;
}

static int parse_own(struct line_reader *reader, struct source *ret)
{
	static const struct {
		const char *word;
		enum source_kind kind;
	} words[] = {
		{"@function", SOURCE_FUNCTION}, {"@class", SOURCE_CLASS}, {"@template:", SOURCE_TEMPLATE}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = strlen(words[i].word);

		if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, words[i].word, len))
			continue;
		reader->at += len;
		ret->kind = words[i].kind;
		if (ret->kind != SOURCE_TEMPLATE)
			return 0;
		if (reader->at >= reader->end || *reader->at < '1' || *reader->at > '9')
			return line__fail(reader, "the number of the template's argument is missing: 1 to 9");
		ret->number = (uint32_t)(*reader->at++ - '0');
		return 0;
	}
	return line__fail(reader, "is none of @function, @class, @template:N");
}

/* .@symbol, the end of a path. */
static int parse_symbol(struct line_reader *reader, struct source *ret)
{
	static const char word[] = "@symbol";

	if ((size_t)(reader->end - reader->at) < sizeof(word) - 1 || memcmp(reader->at, word, sizeof(word) - 1))
		return line__fail(reader, "only @symbol can end a path");
	reader->at += sizeof(word) - 1;
	ret->symbol = true;
	return 0;
}

/* local.attribute.* The first step is a local variable, so it cannot be `*`. */
static int parse_path(struct line_reader *reader, struct source *ret)
{
	ret->kind = SOURCE_VALUE;
	do {
		struct step_row *step = &ret->steps[ret->n];
		const char *start = reader->at;

		if (ret->n && start < reader->end && *start == '@')
			return parse_symbol(reader, ret);
		if (ret->n == RULES_STEPS_MAX)
			return line__fail(reader, "more steps than a path may have");
		if (ret->n && take(reader, '*')) {
			step->kind = STEP_ITEMS;
		} else {
			while (reader->at < reader->end && is_name(*reader->at, reader->at == start))
				reader->at++;
			if (reader->at == start)
				return line__fail(reader, ret->n ? "here an attribute or * is missing"
								 : "here a local, @..., or \"text\" is missing");
			step->kind = STEP_NAME;
			step->name = rules__keep(reader->rules, start, (size_t)(reader->at - start));
			if (!step->name)
				return -ENOMEM;
		}
		ret->n++;
	} while (take(reader, '.'));
	return 0;
}

static int parse_source(struct line_reader *reader, struct source *ret)
{
	line__skip_space(reader);
	if (reader->at < reader->end && *reader->at == '"')
		return parse_text(reader, ret);
	if (reader->at < reader->end && *reader->at == '@')
		return parse_own(reader, ret);
	return parse_path(reader, ret);
}

/* All sources lie in one array; `joined` says which of them belong to one choice:
 *
 *     choices = source { ("+" | "|") source }
 *     source  = "text" | @word | local { "." attribute | ".*" } [ ".@symbol" ]
 */
int value__parse(struct line_reader *reader, struct choices *ret)
{
	struct source *source;
	int err;

	do {
		if (ret->n == RULES_CHOICES_MAX)
			return line__fail(reader, "more choices, or parts of them, than there may be");
		line__skip_space(reader);
		source = &ret->sources[ret->n];
		err = parse_source(reader, source);
		if (err)
			return err;
		ret->n++;
		line__skip_space(reader);
		source->joined = take(reader, '+');
	} while (source->joined || take(reader, '|'));
	/* A frequent expectation, with an answer of its own: a rule never runs code of the target. */
	if (reader->at < reader->end && (*reader->at == '(' || *reader->at == '['))
		return line__fail(reader, "values are only read, nothing is called; "
					  "`.*` is each item of a tuple, list or dictionary");
	return reader->at == reader->end ? 0 : line__fail(reader, "here the line should end, or | or + follow");
}
