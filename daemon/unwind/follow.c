/* SPDX-License-Identifier: MIT */
/* table__follow(): a new table from an old one, with more functions followed by their code. A file is not followed
 * completely when it is first seen, as that could take a second (OpenBLAS); code that was left out has the rule
 * CODE_LATER, and a walk that stops there asks for it. Rows of the old table are copied, and of the code with that rule
 * the functions in which walks stopped are followed now. The old table was checked or made here, so its positions are
 * trusted. */
#include <errno.h>

#include "base/cleanup.h"
#include "unwind/builder.h"

/* The old table while it is copied. Neighbouring rows become one range, which the builder treats as a function. */
struct reading {
	struct builder *b;
	const struct unwind_table *table;
	const uint64_t *words;
	bool open; /* a range of copied rows has begun */
	uint32_t rule;
};

static bool is_later(uint64_t rule)
{
	return rule == UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_CODE_LATER);
}

/* A range was begun with all the rest of the code as its size; here its end is known. */
static void end_range(struct reading *r, uint64_t end)
{
	struct function *function;

	if (!r->open) /* no range is open, and there may be no function at all */
		return;
	function = &r->b->functions[r->b->n_functions - 1];
	function->size = (uint32_t)(end - r->b->base) - function->start;
	r->open = false;
}

/* Copies the rule of [pc, next); CODE_LATER ends the range instead. */
static int take(struct reading *r, uint64_t pc, uint64_t next, uint32_t rule)
{
	const uint64_t *at = r->words + r->table->rules + rule;
	uint64_t words[2] = {at[0], unwind_rule_kind(at[0]) == UNWIND_KIND_LONG ? at[1] : 0};
	uint64_t end = r->table->text + r->table->text_size;
	uint32_t function;
	int err = 0;

	if (pc >= end || next <= r->table->text || (r->open && rule == r->rule))
		return 0;
	r->rule = rule;
	if (is_later(words[0])) {
		end_range(r, pc);
		return 0;
	}
	if (pc < r->table->text)
		pc = r->table->text;
	if (!r->open)
		err = builder__begin(r->b, pc, end - pc, &function);
	if (!err) {
		r->open = true;
		err = builder__row(r->b, pc, words);
	}
	return err;
}

/* The rule at the page's first byte, then its rows; each holds up to the next. */
static int take_page(struct reading *r, uint32_t page)
{
	const struct unwind_table *t = r->table;
	uint64_t entry = r->words[t->index + page], start = t->base + ((uint64_t)page << t->shift);
	const uint32_t *rows = (const uint32_t *)(r->words + t->rows) + (uint32_t)entry;
	uint32_t n = (uint16_t)(entry >> 32), i;
	uint64_t end = start + (1ull << t->shift);
	int err = take(r, start, n ? start + (rows[0] >> 16) : end, (uint32_t)(entry >> 48));

	for (i = 0; !err && i < n; i++)
		err = take(r, start + (rows[i] >> 16), i + 1 < n ? start + (rows[i + 1] >> 16) : end,
			   rows[i] & 0xffff);
	return err;
}

static int take_all(struct reading *r)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < r->table->pages; i++)
		err = take_page(r, i);
	end_range(r, r->table->text + r->table->text_size);
	return err;
}

int table__follow(const struct elf_bytes *source, const struct unwind_table *table,
		  const uint64_t *vaddrs, uint32_t n, bool last, struct unwind_sink *sink,
		  struct unwind_table **ret)
{
	_cleanup_free_ struct builder *b = NULL;
	struct reading reading = {.table = table, .words = (const uint64_t *)table};
	struct elf_frames elf;
	int err;

	if (n > UNWIND_VADDRS_MAX)
		return -EINVAL;
	err = elf_frames__open(source, &elf);
	if (err)
		return err;
	/* The file is another one than the table was made from. */
	if (elf.text != table->text || elf.text_size != table->text_size)
		return -ESTALE;
	b = malloc(sizeof(*b));
	if (!b)
		return -ENOMEM;
	err = builder__init(b, &elf);
	/* Nothing is followed later: what is not known now has no rule for good. */
	if (last)
		b->gaps = RULE_NONE;
	reading.b = b;
	err = err ?: take_all(&reading);
	err = err ?: builder__follow(b, source, vaddrs, n);
	err = err ?: builder__finish(b, sink, ret);
	if (!err) {
		/* The new table takes the old one's place in the cache, too. */
		(*ret)->identity = table->identity;
		(*ret)->functions = table->functions;
		(*ret)->dropped = table->dropped;
		(*ret)->followed += table->followed;
	}
	builder__free(b);
	return err;
}
