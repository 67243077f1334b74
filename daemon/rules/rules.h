/* SPDX-License-Identifier: MIT */
/* Rules: what a compiler looks like from outside, as data. docs/rules.md is the language.
 *
 * A set of rules is parsed from texts, one a compiler; a text is taken whole or not at all. What is asked of it is
 * pure: which rule opens with this Python frame, or with this native one, and by what name.
 * Owner: whoever called rules__new(); all strings live as long as the set. Nothing changes after the last parse, so
 * that threads may share it then. Bounded: RULES_* below, and time linear in the text; matching a name is at most
 * (length of pattern) x (length of name), both bounded.
 * Errors: -errno; -EBADMSG with the file, line, column and sentence in struct rules_error.
 */
#ifndef CPROFD_RULES_H
#define CPROFD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RULES_TEXT_MAX (1u << 20) /* bytes of one text */
#define RULES_MAX 1024u           /* of all compilers */
#define RULES_COMPILERS_MAX 64u
#define RULES_PATTERNS_MAX 32u    /* of one kind, of one rule or compiler */
#define RULES_WORD_MAX 512u       /* bytes of a pattern or a literal */
#define RULES_STEPS_MAX 8u        /* func_ir.func_id.func_qualname has three */
#define RULES_CHOICES_MAX 8u      /* a | b + c | d: four */
#define RULES_STAGES_MAX 4u

/* The order is that of nesting, and the number is what events say (docs/protocol.md). */
enum rule_kind { RULE_UNIT, RULE_PHASE, RULE_PASS, RULE_KINDS };
extern const char *const rule_kind_names[RULE_KINDS];

struct patterns {
	const char **patterns; /* "*": any bytes, also none */
	uint32_t n;
};

/* Which pairs of neighbouring bytes a text has, by a hash of 8 bits: what a pattern needs and a name lacks is no match,
 * and the look costs a nanosecond. Most functions of a compiler are none of a rule's. */
struct text_pairs {
	uint64_t bits[4];
};
void text_pairs__of(const char *text, struct text_pairs *ret);

enum step_kind {
	STEP_NAME,      /* a local, then attributes */
	STEP_ITEMS,     /* *: what follows of each item, joined by ", " */
};
struct step_row {
	enum step_kind kind;
	const char *name;
};

enum source_kind {
	SOURCE_TEXT,     /* "literal" */
	SOURCE_FUNCTION, /* @function: the last part of the frame's own qualified name */
	SOURCE_CLASS,    /* @class: the part before it */
	SOURCE_TEMPLATE, /* @template:N, from 1: of the class, without namespaces */
	SOURCE_VALUE,    /* local.attribute.* of the frame */
};
struct source {
	enum source_kind kind;
	const char *text;      /* TEXT */
	uint32_t number;       /* TEMPLATE */
	bool symbol;           /* VALUE: .@symbol: of its text the symbol in it, as people write it */
	bool joined;           /* with the next one, which is a part of the same choice: b + c */
	uint32_t n;            /* VALUE */
	struct step_row steps[RULES_STEPS_MAX];
};
/* The first that gives something. n 0: it was not said. */
struct choices {
	struct source sources[RULES_CHOICES_MAX];
	uint32_t n;
};

struct rule {
	enum rule_kind kind;
	uint32_t compiler, line; /* where it begins in its text */
	bool once;               /* of a phase: its unit has it once; where it begins again, another unit began */
	/* Of a phase: its time is none of the phase that it is in. While it goes on that one does not. */
	bool apart;
	struct patterns files, functions, natives, nots, has;
	struct text_pairs *native_pairs; /* that each of `natives` needs */
	/* Only where the next Python frame outwards is of one of these functions; n 0: anywhere. */
	struct patterns callers;
	struct choices name, signature, defined;
};

/* A name that passes are shown by: of those that match. Or a stage of a compile: its phases. */
struct rule_group {
	const char *name;
	struct patterns patterns;
};

struct compiler {
	const char *name, *source; /* source: the file that it was read from */
	struct patterns own;       /* files of the compiler, which are never what triggered a compile */
	struct patterns strips;    /* ends of names that are left out */
	struct patterns loaded;    /* files that show it is there: a rule that never matches then is told */
	struct rule_group *groups;
	struct rule_group *stages; /* what a cache may hold the outcome of: typing, object code */
	uint32_t n_groups, n_stages, first, n_rules;
};

struct rules_error {
	uint32_t line, column;     /* from 1; 0: of the text as a whole */
	char file[256], sentence[160];
};

struct rules;
int rules__new(struct rules **ret);
struct rules *rules__free(struct rules *rules); /* NULL */

/* Adds the compiler of this text; one of the same name that was there is replaced, so that a user's file wins. */
int rules__parse(struct rules *rules, const char *file, const char *text, size_t len,
		 struct rules_error *ret_error);
/* builtin.c: those of the program. */
int rules__builtin(struct rules *rules, struct rules_error *ret_error);
/* file.c: a file, or every *.rules of a directory, in the order of their names. */
int rules__file(struct rules *rules, const char *path, struct rules_error *ret_error);
/* The same, handed to `each` without being parsed. */
typedef int rules_text(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error);
int rules__each_text(const char *path, rules_text *each, void *ctx, struct rules_error *ret_error);

uint32_t rules__count(const struct rules *rules);
const struct rule *rules__get(const struct rules *rules, uint32_t i);
uint32_t rules__compilers(const struct rules *rules);
const struct compiler *rules__compiler(const struct rules *rules, uint32_t i);
/* A replaced compiler has no rules any more; this one tells. */
bool compiler__gone(const struct compiler *compiler);

#define RULE_NONE UINT32_MAX
/* Names of a code object's variables, as many as are known; NULL names: nothing is. */
struct rule_variables {
	const char *const *names;
	uint32_t n;
};
/* The rule of a Python frame, RULE_NONE: none. `name` is qualified (3.11+) or not. */
uint32_t rules__python(const struct rules *rules, const char *file, const char *name,
		       const struct rule_variables *variables);
/* ... of a native frame, by its demangled name. */
uint32_t rules__native(const struct rules *rules, const char *name);
/* Is the rule of such a frame, whatever variables it has? `file` NULL: a native one; its pairs, or NULL. */
bool rule__could_match(const struct rule *rule, const char *file, const char *name, const struct text_pairs *pairs);
/* Is a Python function of this name one that the rule wants to be called by? */
bool rule__is_caller(const struct rule *rule, const char *name);
/* The compiler of this name that is not gone; NULL: none. */
const struct compiler *rules__compiler_named(const struct rules *rules, const char *name);
bool rules__is_own(const struct rules *rules, uint32_t compiler, const char *file);

/* The text of a name by the first choice that needs no value; 0, or -ENODATA: there is none. `frame` is the frame's own
 * name. At most `size` bytes with the NUL. */
int rule__text(const struct choices *choices, const char *frame, char *ret, size_t size);
/* What this source, which needs no value, gives; 0, or -ENODATA. */
int source__text(const struct source *source, const char *frame, char *ret, size_t size);
/* Where the choice of this source ends: the one behind its last part. */
uint32_t choices__next(const struct choices *choices, uint32_t i);
/* Is there one that needs no value of the frame? */
bool choices__have_text(const struct choices *choices);
/* Does one of them need a value of the frame? */
bool rules__values(const struct choices *choices);
/* Leaves out what `strip` says and puts what `group` says. */
void compiler__polish(const struct compiler *compiler, char *name);

bool pattern__matches(const char *pattern, const char *text);
bool patterns__any(const struct patterns *patterns, const char *text);

#endif
