/* SPDX-License-Identifier: MIT */
/* Collects functions and their rows (builder.h): the middle of the compiler. cfi.c and code_file.c emit a state for
 * each address where something changes; here the state becomes a rule (arch/rule.h), the rule a number, and the number
 * a row:
 *
 *    pc 0x1139: CFA = stack pointer + 16, frame pointer at CFA - 16   -> rule 7   -> row (4 << 16 | 7)
 *
 * Rules are interned: a table of a million rows has some hundred different ones. A first, direct-mapped lookup
 * (`recent`) answers nearly all. Rows hold distances, not addresses: 4 bytes for each. */
#include "unwind/builder.h"

#include <errno.h>
#include <string.h>

#define EXPECT_MAX (4u << 20) /* rows */
#define RULE_WORDS_MAX 65536u /* an index of 16 bits */

/* For slots__reserve(), which moves all entries when the index grows. */
static bool rule_hash(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct builder *b = holder;

	*ret = hash__pair(&b->seed, b->rules[i].words[0], b->rules[i].words[1]);
	return true;
}

/* The ordinal of a rule, by the hash index; a new one is added. If a hostile file has more different rules than an
 * index of 16 bits can name, the rest become RULE_FULL: its walks end with a named reason. */
static int rule_find(struct builder *b, const uint64_t words[2], uint32_t *ret)
{
	uint32_t size = words[1] ? 2 : 1;
	int err;

	*ret = SLOTS_FIND(&b->by_words, i, hash__pair(&b->seed, words[0], words[1]),
			  !memcmp(b->rules[i].words, words, sizeof(b->rules->words)));
	if (*ret != SLOTS_NONE)
		return 0;
	if (b->words + size > RULE_WORDS_MAX) {
		*ret = RULE_FULL;
		return 0;
	}
	err = SLOTS_ADD(&b->by_words, rule_hash, b, b->rules, b->n_rules, b->rules_capacity, (struct rule){.words = {words[0], words[1]}});
	if (err)
		return err;
	*ret = b->n_rules - 1;
	b->words += size;
	return 0;
}

/* The ordinal of a rule; it is added if it is new. words[1] == 0 means "one word": a LONG rule's second word is never
 * 0, as it says where the return address is. */
static int rule_intern(struct builder *b, const uint64_t words[2], uint32_t *ret)
{
	uint32_t at = (uint32_t)((words[0] * 0x9e3779b97f4a7c15ull) >> 56) & 255;
	int err;

	if (b->recent[at].words[0] == words[0] && b->recent[at].words[1] == words[1]) {
		*ret = b->recent[at].rule;
		return 0;
	}
	err = rule_find(b, words, ret);
	if (err)
		return err;
	b->recent[at].words[0] = words[0];
	b->recent[at].words[1] = words[1];
	b->recent[at].rule = *ret;
	return 0;
}

/* Appends a row. A distance above 65535 becomes several rows: the first ones repeat the rule before. */
static int row_append(struct builder *b, uint64_t distance, uint32_t rule)
{
	int err;

	for (;;) {
		uint32_t part = distance > 0xffff ? 0xffff : (uint32_t)distance;

		if (b->n_rows >= UNWIND_ROWS_MAX)
			return -E2BIG;
		err = ARRAY_RESERVE(b->rows, b->n_rows, b->rows_capacity);
		if (err)
			return err;
		distance -= part;
		b->rows[b->n_rows++] = part << 16 | (distance ? b->last_rule : rule);
		if (!distance)
			return 0;
	}
}

/* From `pc` on this rule holds. Without a change there is no row. */
static int row_rule(struct builder *b, uint64_t pc, uint32_t rule)
{
	int err;

	if (!b->fresh && rule == b->last_rule)
		return 0;
	err = row_append(b, b->fresh ? 0 : pc - b->last_pc, rule);
	if (err)
		return err;
	b->rules[rule].uses++;
	b->fresh = false;
	b->last_pc = pc;
	b->last_rule = rule;
	return 0;
}

/* A row of cfi.c or code_file.c; `state` NULL: unknown, for the reason `why`. */
static int take_row(struct cfi_rows *rows, uint64_t pc, const struct cfi_cie *cie,
		    const struct cfi_state *state, int why)
{
	struct builder *b = (struct builder *)rows;
	uint64_t words[2] = {UNWIND_RULE_UNSUPPORTED(why), 0};
	uint32_t rule = RULE_NONE;
	int err;

	if (state)
		machine__rule(state, cie->signal, words);
	err = rule_intern(b, words, &rule);
	return err ? err : row_rule(b, pc, rule);
}

static int take_rule(struct cfi_rows *rows, uint64_t pc, uint64_t word)
{
	return builder__row((struct builder *)rows, pc, (const uint64_t[2]){word, 0});
}

int builder__row(struct builder *b, uint64_t pc, const uint64_t words[2])
{
	uint32_t rule = RULE_NONE;
	int err = rule_intern(b, words, &rule);

	return err ? err : row_rule(b, pc, rule);
}

/* Rules that every table has come first, so that their ordinals are constants (RULE_*). */
int builder__init(struct builder *b, const struct elf_frames *elf)
{
	static const uint64_t always[][2] = {{UNWIND_RULE_NONE},
					     {UNWIND_RULE_END},
					     {UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_RULES)},
					     {UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_CODE_LATER)}};
	uint32_t i, rule;
	int err;

	*b = (struct builder){.rows_of = {take_row, take_rule}, .elf = elf, .base = elf->text & ~1023ull};
	b->first_weak = UINT32_MAX;
	/* A JIT's object is followed at once, and a file without sections cannot be followed at all: nothing comes
	 * later for these. */
	b->gaps = elf->loaded_only || !elf->has_sections ? RULE_NONE : RULE_LATER;
	err = hash_seed__draw(&b->seed);
	for (i = 0; !err && i < sizeof(always) / sizeof(*always); i++)
		err = rule_find(b, always[i], &rule);
	return err;
}

/* LLVM's entries have 5.2 bytes a row and 58 a function. What is not used is never touched. */
void builder__expect(struct builder *b, uint64_t bytes)
{
	uint64_t rows = bytes / 4 < EXPECT_MAX ? bytes / 4 : EXPECT_MAX, functions = rows / 8;

	if (b->rows || b->functions)
		return;
	b->rows = malloc(rows * sizeof(*b->rows));
	b->rows_capacity = b->rows ? (uint32_t)rows : 0;
	b->functions = malloc(functions * sizeof(*b->functions));
	b->functions_capacity = b->functions ? (uint32_t)functions : 0;
}

void builder__free(struct builder *b)
{
	free(b->rules);
	free(b->by_words.slots);
	free(b->rows);
	free(b->functions);
}

/* Begins a function, cut to the code of this file. -ENOENT: it lies outside; sections that a linker discarded leave
 * entries at address 0. */
static int function_begin(struct builder *b, uint64_t start, uint64_t *size)
{
	uint64_t end = b->elf->text + b->elf->text_size;
	int err;

	if (start < b->elf->text || start >= end || !*size) {
		b->dropped++;
		return -ENOENT;
	}
	if (*size > end - start)
		*size = end - start;
	if (b->n_functions >= UNWIND_FUNCTIONS_MAX)
		return -E2BIG;
	err = ARRAY_RESERVE(b->functions, b->n_functions, b->functions_capacity);
	if (err)
		return err;
	b->functions[b->n_functions++] = (struct function){
		.start = (uint32_t)(start - b->base), .size = (uint32_t)*size, .row = b->n_rows};
	b->fresh = true;
	return 0;
}

int builder__function(struct builder *b, const struct cfi_section *section,
		      const struct cfi_cie *cie, struct cfi_bytes bytes, uint64_t start,
		      uint64_t size)
{
	int err = function_begin(b, start, &size);

	if (err)
		return err == -ENOENT ? 0 : err;
	return fde__run(section, cie, bytes, start, size, &b->rows_of);
}

int builder__range(struct builder *b, uint64_t start, uint64_t size, uint32_t rule)
{
	int err = function_begin(b, start, &size);

	if (err)
		return err == -ENOENT ? 0 : err;
	return row_rule(b, start, rule);
}

int builder__begin(struct builder *b, uint64_t start, uint64_t size, uint32_t *ret)
{
	int err = function_begin(b, start, &size);

	*ret = b->n_functions - 1;
	return err;
}

/* Its former rows stay in b->rows without a function: they cost memory until the table is written, and nothing else. */
void builder__again(struct builder *b, uint32_t function)
{
	b->functions[function].row = b->n_rows;
	b->fresh = true;
}
