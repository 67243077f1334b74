/* SPDX-License-Identifier: MIT */
/* The eval loop is one C function, but compilers split it: into _PyEval_EvalFrameDefault, .cold and .part pieces
 * that a stripped file does not name. Named pieces are found by symbol. Of the others it counts as a part if the
 * eval loop jumps into it, it jumps back, and call frame information says that it is no function's begin.
 *
 * Example, CPython 3.13 with profile-guided optimisation: _PyEval_EvalFrameDefault is a piece of 3 KB (named); it
 * jumps into a piece of 66 KB without a symbol, whose first row of call frame information has a frame already, and
 * which jumps back: its .cold part. */
#include "weave/eval_ranges.h"

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/array.h"
#include "base/order.h"
#include "elf/elf.h"
#include "weave/frames.h"

#define EVAL_LOOP_BYTES (4u << 20) /* of one range; the longest known: 69 KB */
#define JUMPS_MAX 4096u /* jumps out of a range that are examined; a real eval loop has fewer than 300 */

struct search {
	struct elf_image image;
	struct code_frames frames;
	struct eval_ranges *found;
	uint32_t capacity;
};

/* The bytes of a range of code; NULL: they cannot be read. Freed by the caller. */
static uint8_t *read_code(const struct search *search, uint64_t start, uint64_t size)
{
	_cleanup_free_ uint8_t *code = NULL;
	uint64_t offset;

	if (size > EVAL_LOOP_BYTES || elf_image__offset(&search->image, start, size, &offset))
		return NULL;
	code = malloc(size);
	return code && !elf_bytes__read(search->image.bytes, offset, code, size) ? take_ptr(code)
										 : NULL;
}

static int add(struct search *search, const struct code_piece *piece, enum frame_role role,
	       bool by_jumps)
{
	struct eval_ranges *found = search->found;
	int err = ARRAY_RESERVE(found->ranges, found->n, search->capacity);

	if (!err && found->n < EVAL_RANGES_MAX)
		found->ranges[found->n++] = (struct eval_range){
			piece->start, piece->start + piece->size, (uint8_t)role, by_jumps};
	return err;
}

static bool has(const struct eval_ranges *found, uint64_t start)
{
	for (uint32_t i = 0; i < found->n; i++)
		if (found->ranges[i].start == start)
			return true;
	return false;
}

/* All pieces with a symbol of the eval loop: itself, ".cold" and ".part" where .symtab has them, and 3.14's
 * handlers. */
static int find_named(struct search *search, const struct symbol_file *symbols)
{
	struct symbol symbol = {.many = true};
	enum frame_role role;
	int err = 0;

	for (uint32_t i = 0; !err && i < search->frames.n; i++) {
		const struct code_piece *piece = &search->frames.pieces[i];

		if (symbol_file__find(symbols, piece->start, &symbol))
			continue;
		role = frame_role__of(symbol.name.data);
		if ((role == WEAVE_EVAL || role == WEAVE_HANDLER) &&
		    !has(search->found, piece->start))
			err = add(search, piece, role, false);
	}
	symbol__free(&symbol);
	return err;
}

/* --- parts without a name --- */

/* The jump or branch at byte i, which may be none: bytes are not decoded into instructions. Targets of false ones
 * are at random. */
static bool jump_at(const uint8_t *code, uint64_t size, uint64_t i, uint64_t address, uint64_t *ret_target)
{
	enum machine_transfer transfer = machine__transfer(code + i, size - i, address + i, ret_target);

	return transfer == MACHINE_JUMP || transfer == MACHINE_BRANCH;
}

/* Does this piece jump back into the range? True at the first such jump. */
static bool jumps_into(const struct search *search, const struct code_piece *piece,
		       const struct eval_range *range)
{
	_cleanup_free_ uint8_t *code = read_code(search, piece->start, piece->size);
	uint64_t i, target;

	for (i = 0; code && i < piece->size; i++)
		if (jump_at(code, piece->size, i, piece->start, &target) &&
		    target >= range->start && target < range->end)
			return true;
	return false;
}

/* Adds the parts that a range of the eval loop jumps to and that jump back. */
static int find_parts(struct search *search, uint32_t number)
{
	const struct eval_range range = search->found->ranges[number];
	_cleanup_free_ uint8_t *code = read_code(search, range.start, range.end - range.start);
	const struct code_piece *piece, *refused = NULL;
	uint64_t i, target, size = range.end - range.start, budget = 4 * EVAL_LOOP_BYTES;
	uint32_t left = JUMPS_MAX;
	int err = 0;

	for (i = 0; !err && code && i < size && left; i++) {
		if (!jump_at(code, size, i, range.start, &target) ||
		    (target >= range.start && target < range.end))
			continue;
		left--;
		piece = code_frames__find(&search->frames, target);
		if (!piece || piece == refused || has(search->found, piece->start) ||
		    piece->size > budget || code_frames__is_entry(&search->frames, piece))
			continue;
		budget -= piece->size;
		refused = piece;
		if (jumps_into(search, piece, &range))
			err = add(search, piece, WEAVE_EVAL, true);
	}
	return err;
}

/* --- */

int eval_ranges__find(const struct elf_bytes *elf, const struct symbol_file *symbols,
		      struct eval_ranges *ret)
{
	struct search search = {.found = ret};
	int err;

	*ret = (struct eval_ranges){};
	err = code_frames__open(elf, &search.frames);
	if (err)
		return err;
	err = elf_image__open(elf, ELF_SEGMENTS, &search.image) ?: find_named(&search, symbols);
	for (uint32_t i = 0; !err && i < ret->n; i++)
		if (ret->ranges[i].role == WEAVE_EVAL)
			err = find_parts(&search, i);
	code_frames__free(&search.frames);
	elf_image__free(&search.image);
	if (!err && !ret->n)
		err = -ENOENT;
	if (err) {
		eval_ranges__free(ret);
		return err;
	}
	qsort(ret->ranges, ret->n, sizeof(*ret->ranges), order__u64);
	return 0;
}

void eval_ranges__free(struct eval_ranges *ranges)
{
	free(ranges->ranges);
	*ranges = (struct eval_ranges){};
}
