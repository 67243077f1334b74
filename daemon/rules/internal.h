/* SPDX-License-Identifier: MIT */
/* Shared by the files of daemon/rules/. */
#pragma once

#include "base/arena.h"
#include "rules/rules.h"

/* One set. Arrays of fixed size: rules and compilers are found by index, and pointers to them stay valid. */
struct rules {
	/* Strings, and arrays of patterns and groups: also those of a text that was refused. */
	struct arena strings;
	struct rule rules[RULES_MAX];
	uint32_t n_rules;
	struct compiler compilers[RULES_COMPILERS_MAX];
	uint32_t n_compilers;
	/* Some native pattern has no parenthesis, so names without symbols (libLLVM+0x1000) must be tried, too. */
	bool bare_natives;
};

/* A copy of `len` bytes and a NUL, owned by the rules; NULL: out of memory. */
const char *rules__keep(struct rules *rules, const char *text, size_t len);

/* Pairs of bytes that any match must have: those without a star. */
void pattern__pairs(const char *pattern, struct text_pairs *ret);

/* value.c: parses the right side of a line `name`, `signature` or `defined`. */
struct line_reader;
int value__parse(struct line_reader *reader, struct choices *ret);

/* A cursor in the line that is being parsed, which does not end with a NUL. Where a parse function fails, it
 * leaves `at` at the character that the error is about. */
struct line_reader {
	struct rules *rules;
	const char *start, *at, *end;
	const char *sentence;    /* what is wrong at `at` */
};
/* Sets the sentence (the first one stays); -EBADMSG. */
int line__fail(struct line_reader *reader, const char *sentence);
void line__skip_space(struct line_reader *reader);
/* Can this byte be part of a Python identifier? */
bool is_name(char c, bool first);
