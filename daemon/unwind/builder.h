/* SPDX-License-Identifier: MIT */
/* A table while it is built: functions in the order in which they come, their rows behind one
 * another, rules without duplicates. builder__finish() puts them in order of address. */
#ifndef CPROFD_UNWIND_BUILDER_H
#define CPROFD_UNWIND_BUILDER_H

#include "base/hash.h"
#include "base/slots.h"
#include "unwind/cfi.h"

#define RULE_NONE 0u /* ordinals of rules that are always there */
#define RULE_END 1u
#define RULE_FULL 2u /* UNWIND_UNSUPPORTED_RULES */
#define RULE_LATER 3u /* UNWIND_UNSUPPORTED_CODE_LATER */

struct rule {
	uint64_t words[2]; /* the second is 0: it has one */
	uint32_t uses;
	uint32_t position; /* in the table */
};

/* From base on. `row` is its first one; they end before the next row with a distance of 0. */
struct function {
	uint32_t start, size, row;
};

struct builder {
	struct cfi_rows rows_of; /* what fde__run() is given */
	const struct elf_frames *elf;
	uint64_t base;

	struct rule *rules;
	uint32_t n_rules, rules_capacity;
	uint32_t words;		  /* of all rules */
	struct slots by_words;
	struct hash_seed seed;
	struct {
		uint64_t words[2];
		uint32_t rule;
	} recent[256];

	/* (distance to the row before) << 16 | rule; a function's first has distance 0. */
	uint32_t *rows, n_rows, rows_capacity;
	struct function *functions;
	uint32_t n_functions, functions_capacity;
	uint32_t gaps; /* the rule of code of which nothing is known: RULE_NONE, RULE_LATER */
	uint32_t first_weak; /* functions from here on count only where no other one is */
	uint32_t dropped;
	uint32_t followed; /* functions without entries, by their code */
	/* the function at hand */
	uint64_t last_pc;
	uint32_t last_rule;
	bool fresh;
};

int builder__init(struct builder *b, const struct elf_frames *elf);
void builder__free(struct builder *b);
/* Takes the function's rows from the entry's instructions. */
int builder__function(struct builder *b, const struct cfi_section *section,
		      const struct cfi_cie *cie, struct cfi_bytes bytes, uint64_t start,
		      uint64_t size);
/* A stretch without entries for which one rule holds. */
int builder__range(struct builder *b, uint64_t start, uint64_t size, uint32_t rule);
/* Functions of the symbol table that nothing else describes, and stubs of linkage. With `places` (ELF
 * addresses, ascending): those that hold one of them, also if no symbol names them. */
int builder__follow(struct builder *b, const struct elf_bytes *source, const uint64_t *places,
		    uint32_t n_places);
/* The function at hand has this rule from `pc` on. */
int builder__row(struct builder *b, uint64_t pc, const uint64_t words[2]);
/* For builder__follow(): a function of which rows come by rows_of; what it is known by then, to be
 * given other rows. -ENOENT: no code of this file. */
int builder__begin(struct builder *b, uint64_t start, uint64_t size, uint32_t *ret);
void builder__again(struct builder *b, uint32_t function);
/* Keys of start << 32 | anything, by start; equals stay as they are. */
int builder__sort(uint64_t *keys, uint32_t n);
int builder__finish(struct builder *b, struct unwind_sink *sink, struct unwind_table **ret);

#endif
