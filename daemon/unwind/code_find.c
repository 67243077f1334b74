/* SPDX-License-Identifier: MIT */
/* Functions without a name: where does one begin and end? Stripped files and hand-written assembly have functions that
 * neither a symbol nor an entry describes. The answer comes from the instructions, passed in order of addresses from a
 * known boundary on:
 *
 *    - A function ends at a return or jump, unless a jump before that led further (`reach`).
 *    - Jumps backwards lead into code that was passed already.
 *    - What a jump through a table leads to is not known, and neither is the code behind it: no answer.
 *    - A jump forwards may be a tail call into another function. If the first try gives no answer, forward jumps in
 *      front of padding are taken to be tail calls.
 *    - A call in front of padding calls a function that does not return.
 *
 * The answer is then tested (is_one()): a wrong beginning shows. If it lies behind a push, or before the end of another
 * function, returns would not find the return address where it must be. */
#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/cleanup.h"
#include "unwind/code.h"

static void decode(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t at,
		   struct code_op *ret)
{
	code_decoder__run(decoder, code->bytes + at, code->size - at, at, ret);
}

/* Instructions that do nothing, traps and zeros. */
static uint32_t skip_padding(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t at)
{
	struct code_op op;

	while (at < code->size) {
		if (machine__is_padding(code->bytes[at])) {
			at++;
			continue;
		}
		decode(decoder, code, at, &op);
		if (op.kind != CODE_NOTHING || machine__marks_entry(code->bytes + at))
			break;
		at += op.length;
	}
	return at;
}

static bool ends(const struct code_op *op)
{
	return op->kind == CODE_JUMP || op->kind == CODE_AWAY || op->kind == CODE_RETURN || op->kind == CODE_STOP;
}

/* Code is aligned here, or behind padding, as it is in front of functions (and of loops). */
static bool is_boundary(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t at)
{
	return !((code->address + skip_padding(decoder, code, at)) & 15);
}

/* The end of the function that begins at `at`; 0: unknown. `tail_calls`: forward jumps in front of padding leave it.
 * `of_table`: registers whose value came from a table, by bit; a jump through one of them may lead anywhere in the
 * function. */
static uint32_t find_end(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t at,
			 bool tail_calls)
{
	uint32_t reach = at;
	uint16_t of_table = 0; /* registers */
	struct code_op op;

	while (at < code->size) {
		decode(decoder, code, at, &op);
		if (op.kind == CODE_BAD ||
		    (op.kind == CODE_AWAY &&
		     (op.table || (op.from < CODE_REGISTERS && of_table >> op.from & 1))))
			return 0;
		of_table = (uint16_t)(op.table ? of_table | op.writes : of_table & ~op.writes);
		at += op.length;
		if ((op.kind == CODE_JUMP || op.kind == CODE_BRANCH) && op.near && op.value > (int64_t)reach &&
		    op.value < (int64_t)code->size) {
			if (!tail_calls || op.kind != CODE_JUMP || at <= reach ||
			    !is_boundary(decoder, code, at))
				reach = (uint32_t)op.value;
		}
		if (at > reach && (ends(&op) || (op.kind == CODE_CALL && is_boundary(decoder, code, at))))
			return at;
	}
	return 0;
}

/* --- is it one? --- */

/* A candidate [start, ...) while it is interpreted. */
struct trial {
	struct code_rows rows; /* first */
	const struct code_decoder *decoder;
	struct code_bytes code;
	uint32_t place;
	const uint8_t *begins; /* by bit: where functions begin that were passed */
	uint32_t start;	       /* the trial's, in that */
	/* Exits that leave the stack as a function must, and those that do not. */
	uint32_t good, bad;
	/* The byte in question has a state: it is code of this function. */
	bool reached;
};

static int try_row(struct code_rows *rows, uint64_t pc, const struct code_state *state, int why)
{
	struct trial *trial = (struct trial *)rows;
	struct code_op op;

	if (pc <= trial->place)
		trial->reached = state != NULL;
	decode(trial->decoder, &trial->code, (uint32_t)pc, &op);
	if (!state || (op.kind != CODE_RETURN && op.kind != CODE_AWAY))
		return 0;
	if (state->regs[UNWIND_SP].what == CODE_IS_FRAME && state->regs[UNWIND_SP].at == -MACHINE_ENTRY_CFA)
		trial->good++;
	else
		trial->bad++;
	return 0;
}

static int try_leaves(struct code_rows *rows, uint64_t target, const struct code_state *state)
{
	struct trial *trial = (struct trial *)rows;

	uint64_t at = trial->start + target; /* relative to the whole code; wraps to a large value before it */
	bool passed = at < trial->start, begins = passed && trial->begins[at / 8] >> (at % 8) & 1;

	/* A call in place of a return leads to a function's first byte. What lies behind is not known. */
	trial->bad += !code_state__is_fresh(state) || (passed && !begins);
	trial->good += begins;
	return 0;
}

/* Is [start, end) really a function? Interprets it and checks its exits. */
static int is_one(const struct code_decoder *decoder, const struct code_bytes *code, const uint8_t *begins,
		  uint32_t start, uint32_t end, uint32_t place)
{
	struct trial trial = {.rows = {.row = try_row, .leaves = try_leaves, .each = true},
			      .decoder = decoder,
			      .code = {.bytes = code->bytes + start, .size = end - start},
			      .place = place - start,
			      .begins = begins,
			      .start = start};
	struct code_entry entry = {};
	struct code_function function = {
		.bytes = code->bytes + start, .size = end - start, .entries = &entry, .n_entries = 1};
	int err = code__run(decoder, &function, &trial.rows);

	return err ? err : trial.good && !trial.bad && trial.reached ? 0 : -ENOENT;
}

/* Linear in the distance from the last boundary to `place`; then one interpretation. */
static int find(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t place,
		bool tail_calls, uint8_t *begins, uint32_t *ret_start, uint32_t *ret_end)
{
	uint32_t start = 0, end;

	memset(begins, 0, place / 8 + 1);
	while (start < code->size) {
		start = skip_padding(decoder, code, start);
		end = start < code->size ? find_end(decoder, code, start, tail_calls) : 0;
		if (!end || start > place)
			return -ENOENT;
		begins[start / 8] |= (uint8_t)(1u << start % 8);
		if (place < end) {
			*ret_start = start;
			*ret_end = end;
			return is_one(decoder, code, begins, start, end, place);
		}
		start = end;
	}
	return -ENOENT;
}

int code__find(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t place,
	       uint32_t *ret_start, uint32_t *ret_end)
{
	_cleanup_free_ uint8_t *begins = malloc(place / 8 + 1);
	int err = -ENOMEM;

	if (begins)
		err = find(decoder, code, place, false, begins, ret_start, ret_end);
	/* Nothing by the first reading: once more with forward jumps taken for tail calls. */
	if (err == -ENOENT)
		err = find(decoder, code, place, true, begins, ret_start, ret_end);
	return err;
}
