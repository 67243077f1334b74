/* SPDX-License-Identifier: MIT */
/* From an address to a line, in steps that each cost more than the one before: what is kept of functions
 * (line_spans.h) -> the unit that has the code (ranges of all units, read once for a file) -> its functions, by
 * their DIEs -> inlined calls at the address -> rows of the line table. DWARF 5: 2.17 (ranges), 3.3.8 (inlined
 * calls), 6.2 (line tables). What was read of a unit stays until another one is asked about.
 *
 * Example, for an address in clock_nanosleep: piece {start 0xccdb0, size 0x1d0, unit 812} -> unit at
 * .debug_info+0x3b21c0 -> function [0xccdb0, 0xccf80) -> no inlined call there -> row {offset 0x42, file 1, line 48}
 * -> "/build/.../clock_nanosleep.c":48.
 *
 * Bounds, since all bytes may be hostile: WORK_* are bytes to read for one question, DEPTH_MAX the nesting of
 * entries, and each walk over entries goes forward only. */
#include "symbols/lines.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/order.h"
#include "base/search.h"
#include "symbols/dwarf.h"
#include "symbols/line_spans.h"

#define UNITS_MAX 200000u
/* Bytes that may be read: to list all units; to enter a unit; to answer for one address. -EFBIG when they are used
 * up. */
#define WORK_OPEN (1ull << 30) /* bytes; for its first entry some 24 KB are read of each unit */
#define WORK_UNIT (128u << 20)
#define WORK_FIND (32u << 20)
#define DEPTH_MAX 300u

/* Code of a unit. */
struct piece {
	uint64_t start;
	uint32_t size, unit;
};

struct lines {
	const struct elf_image *image;
	struct dwarf dwarf;
	struct piece *pieces; /* sorted by start */
	uint32_t n, capacity, limit;
	uint64_t *units;      /* their offsets */
	uint32_t n_units, units_capacity;
	/* the unit that was asked last */
	uint32_t current; /* UINT32_MAX: none */
	int current_error;
	struct dwarf_unit unit;
	struct dwarf_abbrevs abbrevs;
	struct dwarf_lines table;
	struct line_function *functions; /* of the unit that is open */
	uint32_t n_functions, functions_capacity;
	struct buf text;
	struct line_spans *spans; /* of functions that were asked about; NULL: none yet */
	bool listed;              /* list_units() was called, or what it found was kept */
	bool list_changed;        /* since it was opened, or packed */
	int folder;               /* for packed sections; < 0: none, or it was looked there */
	struct kept_key key;
	int list_error;
};

/* --- units --- */

/* Sorts the pieces by address; neighbours of one unit become one. Units have thousands of pieces
 * (-ffunction-sections) that follow each other with no other unit's between them. */
static void merge(struct lines *lines)
{
	struct piece *to = lines->pieces;
	uint32_t i;

	if (!lines->n)
		return;
	qsort(lines->pieces, lines->n, sizeof(*lines->pieces), order__u64);
	for (i = 1; i < lines->n; i++) {
		const struct piece *from = &lines->pieces[i];
		uint64_t end = from->start + from->size, before = to->start + to->size;

		if (to->unit == from->unit && end - to->start <= UINT32_MAX)
			to->size = (uint32_t)((end > before ? end : before) - to->start);
		else
			*++to = *from;
	}
	lines->n = (uint32_t)(to - lines->pieces) + 1;
}

/* Called for each range of a unit's root. When `limit` is reached, neighbours are merged first; it is doubled only
 * if that did not help much, so that the sort is not repeated for each piece. */
static int add_piece(void *context, uint64_t start, uint64_t end)
{
	struct lines *lines = context;

	if (start >= end || !start || end - start > UINT32_MAX) /* 0: dropped by the linker */
		return 0;
	if (lines->n >= lines->limit) {
		merge(lines);
		lines->limit = lines->n * 2 > lines->limit ? lines->limit * 2 : lines->limit;
		if (lines->limit > LINES_RANGES_MAX)
			return -EFBIG;
	}
	return ARRAY_ADD(lines->pieces, lines->n, lines->capacity,
			 (struct piece){start, (uint32_t)(end - start), lines->n_units});
}

/* Type units and partial units (dwz) have no code. What is wrong in one unit does not end the list: see fatal(). */
static int add_unit(struct lines *lines, struct dwarf_unit *unit)
{
	struct dwarf_die root;
	int err;

	if (unit->type == DW_UT_type || unit->type == DW_UT_split_type || unit->type == DW_UT_partial)
		return 0;
	err = dwarf_unit__root(unit, &lines->abbrevs, &root);
	if (err || !unit->has_lines || root.tag == DW_TAG_partial_unit)
		return err;
	err = ARRAY_RESERVE(lines->units, lines->n_units, lines->units_capacity);
	if (err)
		return err;
	err = dwarf_die__ranges(unit, &root, add_piece, lines);
	lines->units[lines->n_units++] = unit->offset;
	return err;
}

/* Errors that end a walk over a file. All others concern one unit or one entry, and the others are still good. */
static bool fatal(int err)
{
	return err == -ENOMEM || err == -EFBIG || err == -EIO || err == -ENODATA;
}

/* Which unit has which code, from the root of each unit. Not from .debug_aranges: clang writes none. For the first
 * entry of each unit some KB are read and unpacked. */
static int list_units(struct lines *lines)
{
	struct dwarf_unit unit;
	uint64_t at = 0;
	uint32_t i;
	void *p;
	int err;

	for (i = 0; i < UNITS_MAX; i++, at = unit.end) {
		err = dwarf_unit__read(&lines->dwarf, at, &unit);
		if (err == -ENOENT || err == -EBADMSG)
			break; /* what was found until then is good */
		err = err ?: add_unit(lines, &unit);
		if (fatal(err))
			return err;
	}
	merge(lines);
	if (!lines->n)
		return -ENOENT;
	if ((p = realloc(lines->pieces, lines->n * sizeof(*lines->pieces)))) {
		lines->pieces = p;
		lines->capacity = lines->n;
	}
	return 0;
}

/* Before debug information is read for the first time: not at opening, as most sessions find all their addresses in
 * what is known. */
static void unpack_once(struct lines *lines)
{
	if (lines->folder >= 0)
		dwarf__unpack(&lines->dwarf, lines->folder, &lines->key);
	lines->folder = -1;
}

static int list_once(struct lines *lines)
{
	if (!lines->listed) {
		unpack_once(lines);
		lines->dwarf.work = WORK_OPEN;
		lines->list_error = list_units(lines);
		lines->list_changed = !lines->list_error;
	}
	lines->listed = true;
	return lines->list_error;
}

/* --- as bytes: head, pieces, units, spans --- */

#define PACK_VERSION 3u
#define PACK_PIECES_MAX (1u << 15) /* of a file that has more, units are listed in each session */

struct pack_head {
	uint32_t version, n, n_units, spans; /* the last: bytes */
};

int lines__pack(struct lines *lines, struct buf *to)
{
	const bool listed = lines->listed && !lines->list_error && lines->n <= PACK_PIECES_MAX && lines->n_units <= PACK_PIECES_MAX;
	struct pack_head head = {PACK_VERSION, listed ? lines->n : 0, listed ? lines->n_units : 0, 0};
	const size_t begin = to->len;
	int err;

	if (!(lines->spans && lines->spans->changed) && !(listed && lines->list_changed))
		return -ENOENT;
	err = buf__append(to, &head, sizeof(head));
	err = err ?: buf__append(to, lines->pieces, head.n * sizeof(*lines->pieces));
	err = err ?: buf__append(to, lines->units, head.n_units * sizeof(*lines->units));
	head.spans = (uint32_t)to->len;
	err = err ?: lines->spans ? line_spans__pack(lines->spans, to) : 0;
	if (err)
		return err;
	head.spans = (uint32_t)to->len - head.spans;
	memcpy(to->data + begin, &head, sizeof(head));
	lines->list_changed = false;
	if (lines->spans)
		lines->spans->changed = false;
	return 0;
}

/* Sorted pieces with existing units: what piece_of() and enter_unit() rely on. */
static bool units_fit(const struct lines *lines)
{
	uint32_t i;

	for (i = 0; i < lines->n; i++)
		if (lines->pieces[i].unit >= lines->n_units || (i && lines->pieces[i - 1].start > lines->pieces[i].start))
			return false;
	return true;
}

static int unpack_units(struct lines *lines, const struct pack_head *head, const char *data)
{
	if (!head->n)
		return 0;
	lines->pieces = malloc(head->n * sizeof(*lines->pieces));
	lines->units = malloc((head->n_units + 1) * sizeof(*lines->units));
	if (!lines->pieces || !lines->units)
		return -ENOMEM;
	memcpy(lines->pieces, data, head->n * sizeof(*lines->pieces));
	memcpy(lines->units, data + head->n * sizeof(*lines->pieces), head->n_units * sizeof(*lines->units));
	lines->n = lines->capacity = head->n;
	lines->n_units = lines->units_capacity = head->n_units;
	lines->listed = true;
	return units_fit(lines) ? 0 : -EBADMSG;
}

static int unpack_spans(struct lines *lines, const char *data, size_t len)
{
	int err;

	if (!len)
		return 0;
	lines->spans = calloc(1, sizeof(*lines->spans));
	err = lines->spans ? line_spans__unpack(lines->spans, data, len) : -ENOMEM;
	if (err) {
		free(lines->spans);
		lines->spans = NULL;
	}
	return err;
}

static int unpack(struct lines *lines, const char *data, size_t len)
{
	struct pack_head head;
	size_t units;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	if (head.version != PACK_VERSION || head.n > PACK_PIECES_MAX || head.n_units > PACK_PIECES_MAX)
		return -EBADMSG;
	units = head.n * sizeof(*lines->pieces) + head.n_units * sizeof(*lines->units);
	if (len - sizeof(head) != units + head.spans)
		return -EBADMSG;
	data += sizeof(head);
	return unpack_units(lines, &head, data) ?: unpack_spans(lines, data + units, head.spans);
}

static void free_list(struct lines *lines)
{
	free(lines->pieces);
	free(lines->units);
	lines->pieces = NULL;
	lines->units = NULL;
	lines->n = lines->capacity = lines->n_units = lines->units_capacity = 0;
	lines->listed = false;
}

/* --- */

int lines__open(const struct elf_image *image, const struct lines_kept *kept, struct lines **ret)
{
	struct lines *lines = calloc(1, sizeof(*lines));
	int err;

	if (!lines)
		return -ENOMEM;
	lines->image = image;
	lines->current = UINT32_MAX;
	lines->limit = 4096;
	lines->folder = kept->folder;
	lines->key = kept->key;
	err = dwarf__open(&lines->dwarf, image);
	if (!err && (!kept->known || unpack(lines, kept->known, kept->len))) {
		free_list(lines);
		err = list_once(lines);
	}
	if (err) {
		lines__free(lines);
		return err;
	}
	*ret = lines;
	return 0;
}

static void free_unit(struct lines *lines)
{
	dwarf_abbrevs__free(&lines->abbrevs);
	dwarf_lines__free(&lines->table);
	free(lines->functions);
	lines->functions = NULL;
	lines->n_functions = lines->functions_capacity = 0;
	lines->current = UINT32_MAX;
}

void lines__rest(struct lines *lines)
{
	free_unit(lines);
	dwarf__rest(&lines->dwarf);
	buf__free(&lines->text);
}

struct lines *lines__free(struct lines *lines)
{
	if (!lines)
		return NULL;
	lines__rest(lines);
	dwarf__close(&lines->dwarf);
	if (lines->spans)
		line_spans__free(lines->spans);
	free(lines->spans);
	free(lines->pieces);
	free(lines->units);
	free(lines);
	return NULL;
}

/* O(log n). A piece that begins before another may reach beyond it if units overlap (a hostile file, or identical
 * code folding); then one of its nearest eight predecessors is found, or none. */
static const struct piece *piece_of(const struct lines *lines, uint64_t vaddr)
{
	uint32_t low = SEARCH(i, lines->n, lines->pieces[i].start <= vaddr), back;

	/* Units should not overlap; some neighbours are tried. */
	for (back = 0; low && back < 8; low--, back++)
		if (vaddr - lines->pieces[low - 1].start < lines->pieces[low - 1].size)
			return &lines->pieces[low - 1];
	return NULL;
}

/* --- functions --- */

struct add {
	struct lines *lines;
	uint64_t die;
};

static int add_function(void *context, uint64_t start, uint64_t end)
{
	struct add *add = context;
	struct lines *lines = add->lines;

	if (start >= end || !start || lines->n_functions >= DWARF_FUNCTIONS_MAX)
		return 0;
	return ARRAY_ADD(lines->functions, lines->n_functions, lines->functions_capacity,
			 (struct line_function){start, end, add->die});
}

/* Entries inside of a function in which inlined calls may be nested. They do not count as calls themselves. */
static bool is_scope(unsigned tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block ||
	       tag == DW_TAG_with_stmt;
}

/* Most of a unit in C are types, which come from its headers: a structure is passed over with its members. */
static bool holds_functions(const struct dwarf_unit *unit, unsigned tag)
{
	return !unit->flat && (tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
			       tag == DW_TAG_structure_type || tag == DW_TAG_union_type);
}

/* Goes through the functions of the unit, once, in the order of the file. Only namespaces and classes are entered;
 * of everything else the children are skipped, by DW_AT_sibling or, if it is missing, by reading over them
 * (`inside`: the depth at which that began). A damaged entry ends the list; what was found before it is good. */
static int list_functions(struct lines *lines)
{
	const struct dwarf_unit *unit = &lines->unit;
	struct add add = {.lines = lines};
	uint64_t at = unit->root, inside = 0; /* inside: of a subtree without siblings that is passed over, its depth */
	unsigned depth = 0;
	struct dwarf_die die;
	int err;

	while (at < unit->end) {
		err = dwarf_die__read(unit, &lines->abbrevs, at, &die);
		if (err)
			return fatal(err) ? err : 0;
		at = die.next;
		if (!die.tag) {
			inside = inside && depth <= inside ? 0 : inside;
			if (!depth || !--depth)
				break;
			continue;
		}
		add.die = die.offset;
		if (!inside && (die.tag == DW_TAG_subprogram || die.tag == DW_TAG_entry_point)) {
			err = dwarf_die__ranges(unit, &die, add_function, &add);
			if (fatal(err))
				return err;
		}
		if (!die.children)
			continue;
		if (depth && !holds_functions(unit, die.tag) && die.sibling) {
			at = die.sibling;
			continue;
		}
		depth++;
		if (!inside && depth > 1 && !holds_functions(unit, die.tag))
			inside = depth;
	}
	return 0;
}

/* Loads what questions about a unit need. Its error is kept in current_error, so that a thousand addresses of a
 * damaged unit fail once. */
static int enter_unit(struct lines *lines, uint32_t number)
{
	struct dwarf_die root;
	int err;

	if (lines->current == number)
		return lines->current_error;
	free_unit(lines);
	unpack_once(lines);
	lines->dwarf.work = WORK_UNIT;
	err = dwarf_unit__read(&lines->dwarf, lines->units[number], &lines->unit);
	err = err ?: dwarf_unit__root(&lines->unit, &lines->abbrevs, &root);
	err = err ?: dwarf_lines__read(&lines->table, &lines->unit);
	if (!err && !lines->unit.split)
		err = dwarf_abbrevs__read(&lines->abbrevs, &lines->unit, 0);
	if (!err && !lines->unit.split)
		err = list_functions(lines);
	lines->current = number;
	lines->current_error = err;
	return err;
}

/* --- an address --- */

/* A dwarf_range callback: 1 ends the walk over the ranges. */
static int holds(void *context, uint64_t start, uint64_t end)
{
	uint64_t vaddr = *(const uint64_t *)context;

	return start <= vaddr && vaddr < end;
}

/* The outermost inlined function at `vaddr` in a function. -ENOENT: none, the code is its own. */
static int inlined(struct lines *lines, const struct line_function *function, uint64_t vaddr, struct dwarf_die *ret)
{
	const struct dwarf_unit *unit = &lines->unit;
	uint64_t at = function->die;
	unsigned depth = 0, passed = 0; /* passed: the depth in what does not hold the address */
	int err;

	while (at < unit->end) {
		err = dwarf_die__read(unit, &lines->abbrevs, at, ret);
		if (err)
			return err;
		at = ret->next;
		if (!ret->tag) {
			passed = passed && depth <= passed ? 0 : passed;
			if (!depth || !--depth)
				break;
			continue;
		}
		err = !depth;
		if (depth && !passed && (ret->tag == DW_TAG_inlined_subroutine || is_scope(ret->tag)))
			err = dwarf_die__ranges(unit, ret, holds, &vaddr);
		if (err < 0 && err != -EBADMSG)
			return err;
		if (err > 0 && ret->tag == DW_TAG_inlined_subroutine)
			return 0;
		if (!ret->children) {
			if (!depth)
				break;
			continue;
		}
		if (err <= 0 && ret->sibling) {
			at = ret->sibling;
			continue;
		}
		if (++depth >= DEPTH_MAX)
			return -EBADMSG;
		if (err <= 0 && !passed)
			passed = depth;
	}
	return -ENOENT;
}

/* Linear: it is called once for each address that has no span yet, after a unit was read, which costs more.
 * Functions may share code (aliases, folding), so there is no order to search by. */
static const struct line_function *function_of(const struct lines *lines, uint64_t vaddr)
{
	uint32_t i;

	for (i = 0; i < lines->n_functions; i++)
		if (lines->functions[i].start <= vaddr && vaddr < lines->functions[i].end)
			return &lines->functions[i];
	return NULL;
}

/* Of what was inlined there, the call: it is in the function itself. */
static int call_site(struct lines *lines, uint64_t vaddr, uint64_t *ret_file, struct source_line *ret)
{
	const struct line_function *function = function_of(lines, vaddr);
	struct dwarf_die die;
	int err;

	if (!function)
		return 0;
	err = inlined(lines, function, vaddr, &die);
	if (err)
		return err == -ENOENT ? 0 : err;
	*ret_file = die.call_file.class == VALUE_CONSTANT ? die.call_file.number : UINT64_MAX;
	ret->line = die.call_line.class == VALUE_CONSTANT ? (uint32_t)die.call_line.number : 0;
	ret->column = die.call_column.class == VALUE_CONSTANT ? (uint32_t)die.call_column.number : 0;
	return 0;
}

/* Other addresses of this unit come, too: it is kept whole, or if it is too large this function of it. Code of a
 * unit without functions (assembly) is as one. */
static void keep(struct lines *lines, uint64_t vaddr)
{
	const struct line_unit of = {&lines->unit, &lines->abbrevs, &lines->table};
	const struct line_function *function = function_of(lines, vaddr);
	uint32_t i;

	if (!lines->spans && !(lines->spans = calloc(1, sizeof(*lines->spans))))
		return;
	lines->dwarf.work = WORK_UNIT;
	if (lines->n_functions && line_spans__keep_unit(lines->spans, &of, lines->functions, lines->n_functions))
		return;
	if (function)
		line_spans__keep(lines->spans, &of, function);
	for (i = 0; !lines->n_functions && i < lines->table.n_sequences; i++) {
		const struct dwarf_sequence *sequence = &lines->table.sequences[i];

		if (sequence->start <= vaddr && vaddr < sequence->end) {
			line_spans__keep(lines->spans, &of, &(struct line_function){sequence->start, sequence->end, 0});
			break;
		}
	}
}

/* The answer from debug information, in the order of the file's first comment. 0 with ret->file NULL: the line is
 * known, its path is not. */
static int look_up(struct lines *lines, uint64_t vaddr, struct source_line *ret)
{
	const struct piece *piece;
	struct dwarf_line line;
	uint64_t file;
	int err = list_once(lines);

	piece = err ? NULL : piece_of(lines, vaddr);
	err = err ?: piece ? enter_unit(lines, piece->unit) : -ENOENT;
	if (err)
		return err;
	lines->dwarf.work = WORK_FIND;
	err = dwarf_lines__find(&lines->table, &lines->unit, vaddr, &line);
	if (err)
		return err;
	ret->line = line.line;
	ret->column = line.column;
	file = line.file;
	err = call_site(lines, vaddr, &file, ret);
	if (err)
		return err;
	buf__clear(&lines->text);
	err = dwarf_lines__file(&lines->table, &lines->unit, file, &lines->text);
	err = err ?: buf__append(&lines->text, "", 1);
	if (!err)
		ret->file = lines->text.data;
	return err == -ENOMEM ? err : 0;
}

static bool is_known(const struct lines *lines, uint64_t vaddr, struct source_line *ret)
{
	return lines->spans && line_spans__find(lines->spans, vaddr, ret);
}

/* What was found is kept before this returns; also that there is nothing at an address, so that it is not searched
 * for again. */
int lines__find(struct lines *lines, uint64_t vaddr, struct source_line *ret)
{
	struct source_line kept;
	int err;

	*ret = (struct source_line){};
	if (is_known(lines, vaddr, ret))
		return ret->file || ret->line ? 0 : -ENOENT;
	if (elf_bytes__stale(lines->image->bytes))
		return -ESTALE;
	err = look_up(lines, vaddr, ret);
	if (!err)
		keep(lines, vaddr);
	else
		*ret = (struct source_line){};
	if ((!err || err == -ENOENT) && lines->spans && !is_known(lines, vaddr, &kept))
		line_spans__keep_one(lines->spans, vaddr, ret);
	return err;
}
