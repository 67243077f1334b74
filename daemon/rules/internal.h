/* SPDX-License-Identifier: MIT */
/* What the files of daemon/rules/ share. */
#ifndef CPROFD_RULES_INTERNAL_H
#define CPROFD_RULES_INTERNAL_H

#include "base/arena.h"
#include "rules/rules.h"

struct rules {
	struct arena strings;
	void **blocks;       /* arrays of patterns and groups */
	uint32_t n_blocks, blocks_capacity;
	struct rule rules[RULES_MAX];
	uint32_t n_rules;
	struct compiler compilers[RULES_COMPILERS_MAX];
	uint32_t n_compilers;
	/* A native pattern without a parenthesis: it may match a name that has no symbol, as libLLVM+0x1000. */
	bool bare_natives;
};

/* The text of `len` bytes, kept; NULL: out of memory. */
const char *rules__keep(struct rules *rules, const char *text, size_t len);
/* The array grown by one item, kept; NULL: out of memory. */
void *rules__grow(struct rules *rules, void *array, size_t item, uint32_t n);

/* Those between its stars. */
void pattern__pairs(const char *pattern, struct text_pairs *ret);

/* value.c: one side of a name, signature or defined line. */
struct line_reader;
int value__parse(struct line_reader *reader, struct choices *ret);

/* A line while it is read. */
struct line_reader {
	struct rules *rules;
	const char *start, *at, *end;
	const char *sentence;    /* what is wrong at `at` */
};
/* Sets the sentence; -EBADMSG. */
int line__fail(struct line_reader *reader, const char *sentence);
void line__skip_space(struct line_reader *reader);
/* May a name of Python have this byte? */
bool is_name(char c, bool first);

#endif
