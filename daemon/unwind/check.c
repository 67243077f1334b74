/* SPDX-License-Identifier: MIT */
/* Checks a table of unknown origin (the cache on disk) for everything that the walker relies on. The walker itself
 * bounds every position, so a bad table cannot crash it; these checks keep a damaged file from giving wrong stacks. */
#include "unwind/unwind.h"

#include <errno.h>

/* The word at i begins a rule: is its kind known, and does it have its second word? */
static bool rule_ok(const uint64_t *rules, uint32_t n, uint32_t i)
{
	switch (unwind_rule_kind(rules[i])) {
	case UNWIND_KIND_LONG:
		return i + 1 < n && (rules[i + 1] >> 36 & 7) < UNWIND_PLACE_COUNT &&
		       (rules[i + 1] >> 44 & 7) < UNWIND_PLACE_COUNT;
	case UNWIND_KIND_UNSUPPORTED:
		return (uint32_t)rules[i] < UNWIND_UNSUPPORTED_COUNT;
	}
	return unwind_rule_kind(rules[i]) < UNWIND_KIND_COUNT;
}

/* Are all rules valid? Sets in `begins` the bits of words at which a rule begins: second words of LONG rules have
 * none. */
static bool rules_ok(const uint64_t *rules, uint32_t n, uint64_t *begins)
{
	uint32_t i = 0;

	while (i < n) {
		if (!rule_ok(rules, n, i))
			return false;
		begins[i / 64] |= 1ull << (i % 64);
		i += unwind_rule_kind(rules[i]) == UNWIND_KIND_LONG ? 2 : 1;
	}
	return true;
}

/* A row may not point to the second word of a LONG rule, which could be read as any rule. */
static bool is_rule(const uint64_t *begins, uint32_t n, uint32_t i)
{
	return i < n && begins[i / 64] >> (i % 64) & 1;
}

/* Do the rows have ascending offsets within the page, and rules? Without a branch for each row: nearly all are good,
 * and a table has millions. No bit of `begins` is set from n_rules on, so it alone says what is a rule. */
static bool rows_ok(const uint32_t *rows, uint32_t n, uint32_t shift, const uint64_t *begins)
{
	uint32_t last = 0, wrong = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t offset = rows[i] >> 16, rule = rows[i] & 0xffff;

		wrong |= (offset <= last) | (~(uint32_t)(begins[rule / 64] >> (rule % 64)) & 1);
		last = offset;
	}
	/* They ascend, so the last one is the largest. */
	return !wrong && !(last >> shift);
}

/* One word of the index: the page's first rule, and rows with ascending offsets that lie in one block of the pool. */
static bool page_ok(const struct unwind_table *t, const uint64_t *begins, uint64_t entry)
{
	const uint32_t *rows = (const uint32_t *)((const uint64_t *)t + t->rows);
	uint32_t first = (uint32_t)entry, n = (uint16_t)(entry >> 32), at = t->rows * 2 + first;

	if (!is_rule(begins, t->n_rules, (uint32_t)(entry >> 48)))
		return false;
	if (!n)
		return true;
	if (n > UNWIND_BLOCK_ROWS || first > t->n_rows || n > t->n_rows - first ||
	    at / UNWIND_BLOCK_ROWS != (at + n - 1) / UNWIND_BLOCK_ROWS)
		return false;
	return rows_ok(rows + first, n, t->shift, begins);
}

int table__check(const void *bytes, size_t size)
{
	const struct unwind_table *t = bytes;
	const uint64_t *words = bytes;
	uint64_t begins[65536 / 64] = {};

	if (size < sizeof(*t) || t->magic != UNWIND_MAGIC || t->version != UNWIND_VERSION ||
	    size != table__size(t) || t->identity.build_id_size > sizeof(t->identity.build_id))
		return -EBADMSG;
	/* Head, rules, index and rows follow each other without gaps. */
	if (t->shift < 10 || t->shift > 16 || !t->n_rules || t->n_rules > 65536 || !t->pages ||
	    t->rules != sizeof(*t) / 8 || t->index != t->rules + t->n_rules ||
	    (uint64_t)t->index + t->pages != t->rows || t->n_rows > UINT32_MAX / 8 ||
	    (uint64_t)t->rows + (t->n_rows + 1) / 2 != t->size || t->size > UINT32_MAX / 8)
		return -EBADMSG;
	/* The described range has to lie in the pages: the walker finds a page by the distance from the base. */
	if (t->text < t->base || !t->text_size || t->text_size > UINT32_MAX ||
	    t->text - t->base > (uint64_t)t->pages << t->shift ||
	    t->text_size > ((uint64_t)t->pages << t->shift) - (t->text - t->base))
		return -EBADMSG;
	if (!rules_ok(words + t->rules, t->n_rules, begins))
		return -EBADMSG;
	for (uint32_t i = 0; i < t->pages; i++)
		if (!page_ok(t, begins, words[t->index + i]))
			return -EBADMSG;
	return 0;
}
