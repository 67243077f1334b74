/* SPDX-License-Identifier: MIT */
/* An unwind table while it is being built: functions in the order in which they come (that of the section), their rows
 * one after another, and each rule once. builder__finish() sorts them by address and writes the table. */
#pragma once

#include "base/hash.h"
#include "base/slots.h"
#include "unwind/cfi.h"

/* Ordinals of rules that each table has */
#define RULE_NONE 0u
#define RULE_END 1u
#define RULE_FULL 2u /* UNWIND_UNSUPPORTED_RULES */
#define RULE_LATER 3u /* UNWIND_UNSUPPORTED_CODE_LATER */

struct rule {
	uint64_t words[2]; /* the second is 0 if the rule has only one */
	uint32_t uses;
	uint32_t position; /* in the table */
};

/* `start` is relative to base. `row`: its first row; its rows end before the next one with a distance of 0. */
struct function {
	uint32_t start, size, row;
};

struct builder {
	struct cfi_rows rows_of; /* passed to fde__run(), which calls it with each row */
	const struct elf_frames *elf;
	uint64_t base;

	struct rule *rules;
	uint32_t n_rules, rules_capacity;
	/* Words of all rules together; a table has at most 65,536. */
	uint32_t words;
	/* Index of rules by their words; seeded, as a hostile file chooses them. */
	struct slots by_words;
	struct hash_seed seed;
	/* The last rule of each of 256 hash values. */
	struct {
		uint64_t words[2];
		uint32_t rule;
	} recent[256];

	/* (distance from the row before) << 16 | rule; a function's first row has distance 0. */
	uint32_t *rows, n_rows, rows_capacity;
	/* In the order in which they were added; of two that begin at one address the first counts. */
	struct function *functions;
	uint32_t n_functions, functions_capacity;
	uint32_t gaps; /* rule for code between functions: RULE_NONE, or RULE_LATER if it can be followed later */
	uint32_t first_weak; /* functions from this index on apply only where no earlier one does */
	uint32_t dropped;
	uint32_t followed; /* number of functions without entries whose code was followed */
	/* the function that is being built */
	/* Of the row that was appended last. fresh: the function has no row yet. */
	uint64_t last_pc;
	uint32_t last_rule;
	bool fresh;
};

int builder__init(struct builder *b, const struct elf_frames *elf);
void builder__free(struct builder *b);
/* Makes room for what so many bytes of entries have at most, as growing moves all that there is. Not to be able to is no error. */
void builder__expect(struct builder *b, uint64_t bytes);
/* Adds a function with the rows that the instructions of its FDE give. */
int builder__function(struct builder *b, const struct cfi_section *section,
		      const struct cfi_cie *cie, struct cfi_bytes bytes, uint64_t start,
		      uint64_t size);
/* Adds a range without entries in which one rule holds. */
int builder__range(struct builder *b, uint64_t start, uint64_t size, uint32_t rule);
/* Adds functions of the symbol table that no entry describes, and PLT stubs, by following their code. With `vaddrs`
 * (ELF addresses, ascending): only those that contain one of them, also if no symbol names them. */
int builder__follow(struct builder *b, const struct elf_bytes *source, const uint64_t *vaddrs,
		    uint32_t n_vaddrs);
/* The current function has this rule from `pc` on. */
int builder__row(struct builder *b, uint64_t pc, const uint64_t words[2]);
/* For builder__follow(): begins a function whose rows come through rows_of; *ret is its number, by which
 * builder__again() discards its rows and begins it anew. -ENOENT: it is not in this file's code. */
int builder__begin(struct builder *b, uint64_t start, uint64_t size, uint32_t *ret);
void builder__again(struct builder *b, uint32_t function);
/* Sorts keys of the form start << 32 | anything by start; stable. */
int builder__sort(uint64_t *keys, uint32_t n);
int builder__finish(struct builder *b, struct unwind_sink *sink, struct unwind_table **ret);
