/* SPDX-License-Identifier: MIT */
/* Rules: data that describes how a compiler's work can be recognised from outside. docs/rules.md describes the
 * language.
 *
 * A set of rules is parsed from texts, one per compiler; a text is accepted as a whole or not at all. Queries are
 * pure: which rule does this Python frame match, which one this native frame, and what is the unit's name? Owner:
 * whoever called rules__new(); all strings live as long as the set. Nothing changes after the last parse, so threads
 * may share it then. Bounded by RULES_* below: parsing is linear in the text; matching a name takes at most (length
 * of pattern) x (length of name). Errors: -errno; -EBADMSG with file, line, column and sentence in struct
 * rules_error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RULES_TEXT_MAX (1u << 20) /* bytes of one text */
#define RULES_MAX 1024u           /* for all compilers together */
#define RULES_COMPILERS_MAX 64u
#define RULES_PATTERNS_MAX 32u    /* per keyword in a rule or compiler */
#define RULES_WORD_MAX 512u       /* bytes of a pattern or a literal */
#define RULES_STEPS_MAX 8u        /* func_ir.func_id.func_qualname has three */
#define RULES_CHOICES_MAX 8u      /* a | b + c | d: four */
#define RULES_STAGES_MAX 4u

/* Units in the order of nesting; events use these numbers (docs/protocol.md). A line is no unit. */
enum rule_kind { RULE_UNIT, RULE_PHASE, RULE_PASS, RULE_KINDS, RULE_LINE = RULE_KINDS, RULE_ALL_KINDS };
extern const char *const rule_kind_names[RULE_ALL_KINDS];

struct patterns {
	const char **patterns; /* "*" matches any bytes, or none */
	uint32_t n;
};

/* A filter before pattern matching: which pairs of neighbouring bytes a text has, as bits of an 8-bit hash. If a
 * pattern needs a pair that the name lacks, it cannot match. The test takes a nanosecond, and most functions match
 * no rule. */
struct text_pairs {
	uint64_t bits[4];
};
void text_pairs__of(const char *text, struct text_pairs *ret);

enum step_kind {
	STEP_NAME,      /* a local, then attributes */
	STEP_ITEMS,     /* *: each item; the rest of the path is applied to each, results joined by ", " */
};
/* One step of a path: `func_ir.func_id.code` has three. */
struct step_row {
	enum step_kind kind;
	const char *name;
};

enum source_kind {
	SOURCE_TEXT,     /* "literal" */
	SOURCE_FUNCTION, /* @function: the last part of the frame's qualified name */
	SOURCE_CLASS,    /* @class: the part before it */
	SOURCE_TEMPLATE, /* @template:N, argument N (from 1) of the class, without namespaces */
	SOURCE_VALUE,    /* local.attribute.* of the frame */
};
/* One part of a name: a literal, a part of the frame's own name, or a value of its variables. */
struct source {
	enum source_kind kind;
	const char *text;      /* TEXT */
	uint32_t number;       /* TEMPLATE */
	bool symbol;           /* VALUE: .@symbol: demangle the symbol in its text */
	bool joined;           /* joined with the next one, which belongs to the same choice: b + c */
	uint32_t n;            /* VALUE */
	struct step_row steps[RULES_STEPS_MAX];
};
/* The first choice that gives a value is taken. n 0: not in the rule. */
struct choices {
	struct source sources[RULES_CHOICES_MAX];
	uint32_t n;
};

/* One rule, as docs/rules.md describes it. Empty pattern lists: the keyword is not in the rule. */
struct rule {
	enum rule_kind kind;
	uint32_t compiler, line; /* line: where the rule begins in its file */
	bool once;               /* phase: a unit has it only once; when it begins again, a new unit has begun */
	/* Phase: its time does not count for the phase around it, which pauses meanwhile. */
	bool apart;
	/* Unit: it runs the program's own code, and is at the lines of its frames. */
	bool traces;
	/* What its values begin with lives as long as the program, and keeps its name: it is read once. */
	bool lasting;
	struct patterns files, functions, natives, nots, has;
	struct text_pairs *native_pairs; /* pairs that each of `natives` needs */
	/* The next Python frame outwards must be one of these functions; n 0: any. */
	struct patterns callers;
	/* Of a line: `name` is its file (`source`), `signature` its number. */
	struct choices name, signature, defined;
};

/* A common name for passes that match the patterns; or a stage of a compile: the phases that match. */
struct rule_group {
	const char *name;
	struct patterns patterns;
};

/* What a text says before its first rule, and where its rules are: `first` to `first` + `n_rules` - 1. */
struct compiler {
	const char *name, *source; /* source: the file that it was read from */
	struct patterns own;       /* files of the compiler itself, which never count as the trigger */
	struct patterns strips;    /* endings that are removed from names */
	struct patterns loaded;    /* files that show that it runs: then rules that match nothing are reported */
	struct rule_group *groups;
	struct rule_group *stages; /* stages whose result a cache may hold: typing, object code */
	uint32_t n_groups, n_stages, first, n_rules;
};

/* Where a text is wrong, and a sentence for people. Only filled in if there is an error. */
struct rules_error {
	uint32_t line, column;     /* from 1; 0: the text as a whole */
	char file[256], sentence[192];
};

struct rules;
/* -ENOMEM. Some 4 MB of address space; memory is used only for rules that are there (calloc). */
int rules__new(struct rules **ret);
struct rules *rules__free(struct rules *rules); /* NULL */

/* Adds the compiler of this text. It replaces one of the same name, so that a user's file wins. */
int rules__parse(struct rules *rules, const char *file, const char *text, size_t len,
		 struct rules_error *ret_error);
/* builtin.c: adds the built-in rules. */
int rules__builtin(struct rules *rules, struct rules_error *ret_error);
/* file.c: reads a file, or all *.rules of a directory in the order of their names. */
int rules__file(struct rules *rules, const char *path, struct rules_error *ret_error);
/* The same, but passes each text to `each` instead of parsing it. */
typedef int rules_text(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error);
int rules__each_text(const char *path, rules_text *each, void *ctx, struct rules_error *ret_error);

uint32_t rules__count(const struct rules *rules);
/* i < rules__count(). Rules of replaced compilers are among them (compiler__gone()). */
const struct rule *rules__get(const struct rules *rules, uint32_t i);
uint32_t rules__compilers(const struct rules *rules);
const struct compiler *rules__compiler(const struct rules *rules, uint32_t i);
/* True: it was replaced by a later one, and has no rules any more. */
bool compiler__gone(const struct compiler *compiler);

#define RULE_NONE UINT32_MAX
/* The known names of a code object's variables; NULL names: nothing is known. `qualified`: it is known to have a
 * qualified name (3.11+), so that one without a dot is a function of a module. */
struct rule_variables {
	const char *const *names;
	uint32_t n;
	bool qualified;
};
/* The rule that a Python frame matches, or RULE_NONE. `name`: qualified (3.11+) or not. */
uint32_t rules__python(const struct rules *rules, const char *file, const char *name,
		       const struct rule_variables *variables);
/* The rule that a native frame matches, by its demangled name. */
uint32_t rules__native(const struct rules *rules, const char *name);
/* Does the rule match such a frame, whatever its variables are? `file` NULL: a native frame; pairs of its name, or
 * NULL. */
bool rule__could_match(const struct rule *rule, const char *file, const char *name, const struct text_pairs *pairs);
/* Is a Python function of this name in the rule's list `from`? */
bool rule__is_caller(const struct rule *rule, const char *name);
/* The current compiler of this name; NULL: none. */
const struct compiler *rules__compiler_named(const struct rules *rules, const char *name);
/* Is this file the compiler's own? Then a frame of it is never what caused a compile. */
bool rules__is_own(const struct rules *rules, uint32_t compiler, const char *file);

/* The text of the first choice that needs no values of the frame; 0, or -ENODATA: there is none. `frame`: the
 * frame's own name. Writes at most `size` bytes, with the NUL. */
int rule__text(const struct choices *choices, const char *frame, char *ret, size_t size);
/* The text of one source that needs no value; 0, or -ENODATA. */
int source__text(const struct source *source, const char *frame, char *ret, size_t size);
/* Is it what a local of the frame itself holds, and nothing that an attribute leads to? */
bool source__is_local(const struct source *source);
/* The index behind the choice that this source belongs to. */
uint32_t choices__next(const struct choices *choices, uint32_t i);
/* Is there a choice that needs no value of the frame? */
bool choices__have_text(const struct choices *choices);
/* Does any choice need a value of the frame? */
bool rules__values(const struct choices *choices);
/* Applies `group` or `strip` to a name. */
void compiler__polish(const struct compiler *compiler, char *name);

/* "*" in the pattern matches any bytes. No other special characters; case counts. */
bool pattern__matches(const char *pattern, const char *text);
bool patterns__any(const struct patterns *patterns, const char *text);
