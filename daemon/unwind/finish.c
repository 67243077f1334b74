/* SPDX-License-Identifier: MIT */
/* Writes the table: from functions in the order of the section to rows in the order of addresses, divided into pages.
 *
 * It goes over the functions once, and writes into as much memory as the rows can take at most. Where functions overlap, the later start wins, as in a search of .eh_frame_hdr. Padding between two functions
 * is never executed: up to the next multiple of 16 it gets no row. */
#include "unwind/builder.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define SHIFT_MIN 10u
#define SHIFT_MAX 16u
/* Rows per page: the index is then about a seventh of the rows' size. */
#define ROWS_A_PAGE 14u

/* --- order --- */

/* Radix sort of keys start << 32 | ordinal, least significant byte of `start` first; it is stable. */
int builder__sort(uint64_t *keys, uint32_t n)
{
	_cleanup_free_ uint64_t *other = NULL;
	uint64_t *from = keys, *to, *swap;
	uint32_t i;

	for (i = 1; i < n && keys[i - 1] <= keys[i]; i++)
		;
	if (i >= n)
		return 0;
	other = malloc(n * sizeof(*other));
	if (!other)
		return -ENOMEM;
	to = other;
	for (unsigned pass = 0; pass < 4; pass++) {
		unsigned shift = 32 + pass * 8;
		uint32_t at[257] = {};

		for (i = 0; i < n; i++)
			at[(from[i] >> shift & 255) + 1]++;
		for (i = 1; i < 256; i++)
			at[i] += at[i - 1];
		for (i = 0; i < n; i++)
			to[at[from[i] >> shift & 255]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	return 0; /* after an even number of passes the result is in `keys` */
}

/* Ordinals of the functions sorted by address, without duplicates and without weak ones that others cover. */
static uint32_t *in_order(struct builder *b, uint32_t *ret_n)
{
	uint64_t *keys = malloc((b->n_functions + 1) * sizeof(*keys)), end = 0, last = UINT64_MAX;
	uint32_t i, n = 0, *order;

	if (!keys)
		return NULL;
	for (i = 0; i < b->n_functions; i++)
		keys[i] = (uint64_t)b->functions[i].start << 32 | i;
	if (builder__sort(keys, b->n_functions)) {
		free(keys);
		return NULL;
	}
	order = (uint32_t *)keys; /* in place: order[n] overwrites keys that were read already */
	for (i = 0; i < b->n_functions; i++) {
		uint32_t ordinal = (uint32_t)keys[i];
		const struct function *f = &b->functions[ordinal];

		if (f->start == last || (ordinal >= b->first_weak && f->start < end)) {
			b->dropped += ordinal < b->first_weak;
			continue;
		}
		last = f->start;
		if ((uint64_t)f->start + f->size > end)
			end = (uint64_t)f->start + f->size;
		order[n++] = ordinal;
	}
	*ret_n = n;
	return order;
}

/* The most frequent rules come first, so that they share cache lines. */
static int by_uses(const void *a, const void *b)
{
	const struct rule *x = *(const struct rule *const *)a, *y = *(const struct rule *const *)b;

	return x->uses != y->uses ? (x->uses < y->uses ? 1 : -1) : (x < y ? -1 : x > y);
}

/* Gives each rule its position in the table. */
static int place_rules(struct builder *b)
{
	_cleanup_free_ struct rule **order = malloc(b->n_rules * sizeof(*order));
	uint32_t i, position = 0;

	if (!order)
		return -ENOMEM;
	for (i = 0; i < b->n_rules; i++)
		order[i] = &b->rules[i];
	qsort(order, b->n_rules, sizeof(*order), by_uses);
	for (i = 0; i < b->n_rules; i++) {
		order[i]->position = position;
		position += order[i]->words[1] ? 2 : 1;
	}
	return 0;
}

/* The positions once more, near each other, as each row needs one; with the reason of a rule that is UNSUPPORTED. */
#define PLACE(position, why) ((position) | (uint32_t)(why) << 16)
#define PLACE_POSITION(place) ((place) & 0xffff)
#define PLACE_WHY(place) ((place) >> 16) /* reason + 1; 0: it is not UNSUPPORTED */

static uint32_t *places(const struct builder *b)
{
	uint32_t *to = malloc(b->n_rules * sizeof(*to)), i;

	for (i = 0; to && i < b->n_rules; i++) {
		uint64_t word = b->rules[i].words[0];
		bool none = unwind_rule_kind(word) == UNWIND_KIND_UNSUPPORTED;

		to[i] = PLACE(b->rules[i].position, none ? (uint32_t)word % UNWIND_UNSUPPORTED_COUNT + 1 : 0);
	}
	return to;
}

/* --- writing --- */

struct writer {
	struct builder *b;
	const uint32_t *places; /* by a rule's ordinal (places()) */
	struct unwind_table *table; /* its head; positions are set */
	uint64_t *words;	    /* the table's memory */
	/* The current page, and how many rows it has so far. */
	uint32_t page, in_page;
	uint32_t rule, page_rule; /* position of the current rule; of the one at the page's start */
	/* n_rows: written so far, with padding between blocks; changes: without. */
	uint32_t n_rows, changes;
	uint32_t unsupported[UNWIND_UNSUPPORTED_COUNT];
	/* Rows of the current page; they go to the table when the page ends, as only then it is known whether they fit
	 * into the block. */
	uint32_t rows[UNWIND_BLOCK_ROWS];
};

/* Ends a page: its rows must not cross a block of the pool, as the walker searches them in one block. */
static void close_page(struct writer *w)
{
	uint32_t at = w->table->rows * 2 + w->n_rows, i, *to;

	if (w->in_page && at / UNWIND_BLOCK_ROWS != (at + w->in_page - 1) / UNWIND_BLOCK_ROWS)
		w->n_rows += UNWIND_BLOCK_ROWS - at % UNWIND_BLOCK_ROWS;
	to = (uint32_t *)(w->words + w->table->rows) + w->n_rows;
	for (i = 0; i < w->in_page; i++)
		to[i] = w->rows[i];
	w->words[w->table->index + w->page] = w->n_rows | (uint64_t)w->in_page << 32 | (uint64_t)w->page_rule << 48;
	w->n_rows += w->in_page;
	w->changes += w->in_page;
	w->in_page = 0;
	w->page_rule = w->rule;
	w->page++;
}

/* The rule `ordinal` holds from `pc` (relative to base) on. -ERANGE: too many rows in a page. Inlined, as a large file has
 * a million rows, each put twice. */
static inline __attribute__((always_inline)) int put(struct writer *w, uint32_t pc, uint32_t ordinal)
{
	uint32_t place = w->places[ordinal], position = PLACE_POSITION(place);
	uint32_t page = pc >> w->table->shift, offset = pc & ((1u << w->table->shift) - 1);

	if (position == w->rule)
		return 0;
	while (w->page < page)
		close_page(w);
	if (PLACE_WHY(place))
		w->unsupported[PLACE_WHY(place) - 1]++;
	w->rule = position;
	if (!offset) {
		w->page_rule = position;
		return 0;
	}
	if (w->in_page == UNWIND_BLOCK_ROWS)
		return -ERANGE;
	w->rows[w->in_page++] = offset << 16 | position;
	return 0;
}

/* `limit`: where the function ends, or the next one begins. Its rows end where a distance of 0 begins the next
 * function's. */
static int put_function(struct writer *w, const struct function *f, uint64_t limit)
{
	const uint32_t *row = w->b->rows + f->row, *end = w->b->rows + w->b->n_rows;
	uint64_t pc = f->start;
	int err = 0;

	do {
		pc += *row >> 16;
		if (pc >= limit)
			break;
		err = put(w, (uint32_t)pc, *row & 0xffff);
		row++;
	} while (!err && row < end && *row >> 16);
	return err;
}

/* Goes over all functions in order of address; between two of them lies a gap. */
static int put_all(struct writer *w, const uint32_t *order, uint32_t n)
{
	uint64_t covered = 0, text_end = w->b->elf->text + w->b->elf->text_size - w->b->base;
	const struct function *f;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		uint64_t limit;

		f = &w->b->functions[order[i]];
		limit = (uint64_t)f->start + f->size;
		if (i + 1 < n && w->b->functions[order[i + 1]].start < limit)
			limit = w->b->functions[order[i + 1]].start;
		/* Padding up to the alignment of the next function (16) is never executed, so it needs no row. */
		if (covered && f->start > ((covered + 15) & ~15ull))
			err = put(w, (uint32_t)covered, w->b->gaps);
		err = err ?: put_function(w, f, limit);
		covered = limit;
	}
	if (!err && covered < text_end)
		err = put(w, (uint32_t)covered, w->b->gaps);
	while (!err && w->page < w->table->pages)
		close_page(w);
	return err;
}

/* Begins as if the code before the first function were a gap. */
static void writer_reset(struct writer *w, struct builder *b, const uint32_t *places, struct unwind_table *table, uint64_t *words)
{
	*w = (struct writer){.b = b, .places = places, .table = table, .words = words};
	w->rule = w->page_rule = b->rules[b->gaps].position;
}

static void set_shift(struct unwind_table *t, const struct builder *b, uint32_t shift)
{
	uint64_t span = b->elf->text + b->elf->text_size - b->base;

	t->shift = shift;
	t->pages = (uint32_t)((span + (1ull << shift) - 1) >> shift);
	t->rules = sizeof(*t) / 8;
	t->n_rules = b->words;
	t->index = t->rules + t->n_rules;
	t->rows = t->index + t->pages;
}

static void write_rules(const struct builder *b, const struct unwind_table *t, uint64_t *words)
{
	for (uint32_t i = 0; i < b->n_rules; i++) {
		uint64_t *to = words + t->rules + b->rules[i].position;

		to[0] = b->rules[i].words[0];
		if (b->rules[i].words[1])
			to[1] = b->rules[i].words[1];
	}
}

/* Bytes of a table at most: the index of the smallest pages; each function's rows, a gap before each and one at the end,
 * and as many again, since close_page() leaves out less before a page than the page has. The system gives memory for what
 * is written only. */
static size_t size_at_most(const struct builder *b, uint32_t functions)
{
	struct unwind_table t;

	set_shift(&t, b, SHIFT_MIN);
	return 8 * (t.rows + (size_t)b->n_rows + functions + 1);
}

/* The page's size: as large as it takes for an average of ROWS_A_PAGE rows in a page; then smaller again, until no page
 * has more rows than a block. */
int builder__finish(struct builder *b, struct unwind_sink *sink, struct unwind_table **ret)
{
	struct unwind_table head = {.magic = UNWIND_MAGIC, .version = UNWIND_VERSION};
	_cleanup_free_ struct writer *w = malloc(sizeof(*w));
	_cleanup_free_ uint32_t *order = NULL, *at = NULL;
	uint64_t span = b->elf->text + b->elf->text_size - b->base;
	uint32_t n, shift = SHIFT_MIN, i;
	uint64_t *words;
	int err;

	order = w ? in_order(b, &n) : NULL;
	if (!order || place_rules(b))
		return -ENOMEM;
	at = places(b);
	if (!at)
		return -ENOMEM;
	while (shift < SHIFT_MAX && (span >> shift) * ROWS_A_PAGE > b->n_rows)
		shift++;
	words = sink->allot(sink, size_at_most(b, n));
	if (!words)
		return -ENOMEM;
	*ret = (struct unwind_table *)words; /* the caller's, also after an error */
	/* The largest pages that have room for their rows: nearly always the first. */
	for (;; shift--) {
		set_shift(&head, b, shift);
		writer_reset(w, b, at, &head, words);
		err = put_all(w, order, n);
		if (err != -ERANGE || shift == SHIFT_MIN)
			break;
		memset(words, 0, 8 * (head.rows + w->n_rows / 2 + 1ul));
	}
	if (err)
		return err;
	head.identity = b->elf->identity;
	head.base = b->base;
	head.text = b->elf->text;
	head.text_size = b->elf->text_size;
	head.n_rows = w->n_rows;
	head.size = head.rows + (w->n_rows + 1) / 2;
	head.functions = n;
	head.dropped = b->dropped;
	head.changes = w->changes;
	head.followed = b->followed;
	for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
		head.unsupported[i] = w->unsupported[i];
	*(struct unwind_table *)words = head;
	write_rules(b, &head, words);
	return 0;
}
