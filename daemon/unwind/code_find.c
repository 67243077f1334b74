/* Functions without a name: where one begins and ends, told from instructions. Code is passed in order of
 * address. A function goes on beyond a return when a jump before it led further; jumps backwards lead into code
 * that was passed. What a jump through a register or a table leads to is not known, and code behind it neither.
 *
 * A beginning that is wrong shows: if it came after a push, or before the end of another function, returns
 * would not find the return address where it must be. */
#include <errno.h>
#include <string.h>

#include "unwind/code.h"

static void decode(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t size, uint32_t at,
		   struct code_op *ret)
{
	code_decoder__run(decoder, bytes + at, size - at > 15 ? 15 : size - at, at, ret);
}

/* nop, int3 and zeros. */
static uint32_t skip_padding(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t size,
			     uint32_t at)
{
	struct code_op op;

	while (at < size) {
		if (!bytes[at] || bytes[at] == 0xcc) {
			at++;
			continue;
		}
		decode(decoder, bytes, size, at, &op);
		/* endbr64 changes nothing, and begins a function. */
		if (op.kind != CODE_NOTHING || bytes[at] == 0xf3)
			break;
		at += op.length;
	}
	return at;
}

/* The end of the function that begins at `at`; 0: not known. */
static uint32_t find_end(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t size, uint32_t at)
{
	uint32_t reach = at;
	struct code_op op;

	while (at < size) {
		decode(decoder, bytes, size, at, &op);
		if (op.kind == CODE_BAD || (op.kind == CODE_AWAY && (op.table || op.from < CODE_REGISTERS)))
			return 0;
		if ((op.kind == CODE_JUMP || op.kind == CODE_BRANCH) && op.near && op.value > (int64_t)reach &&
		    op.value < (int64_t)size)
			reach = (uint32_t)op.value;
		at += op.length;
		if ((op.kind == CODE_JUMP || op.kind == CODE_AWAY || op.kind == CODE_RETURN ||
		     op.kind == CODE_STOP) &&
		    at > reach)
			return at;
	}
	return 0;
}

/* --- is it one? --- */

struct trial {
	struct code_rows rows; /* first */
	const struct code_decoder *decoder;
	const uint8_t *bytes;
	uint32_t size;
	uint32_t good, bad; /* ways out */
};

static int try_row(struct code_rows *rows, uint64_t pc, const struct code_state *state, int why)
{
	struct trial *trial = (struct trial *)rows;
	struct code_op op;

	decode(trial->decoder, trial->bytes, trial->size, (uint32_t)pc, &op);
	if (!state || (op.kind != CODE_RETURN && op.kind != CODE_AWAY))
		return 0;
	if (state->regs[UNWIND_SP].what == CODE_IS_FRAME && state->regs[UNWIND_SP].at == -8)
		trial->good++;
	else
		trial->bad++;
	return 0;
}

static int try_leaves(struct code_rows *rows, uint64_t target, const struct code_state *state)
{
	struct trial *trial = (struct trial *)rows;

	if (code_state__is_fresh(state))
		trial->good++;
	else
		trial->bad++;
	return 0;
}

static int is_one(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t size)
{
	struct trial trial = {.rows = {.row = try_row, .leaves = try_leaves, .each = true},
			      .decoder = decoder,
			      .bytes = bytes,
			      .size = size};
	struct code_entry entry = {};
	struct code_function function = {.bytes = bytes, .size = size, .entries = &entry, .n_entries = 1};
	int err = code__run(decoder, &function, &trial.rows);

	return err ? err : trial.good && !trial.bad ? 0 : -ENOENT;
}

int code__find(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t size, uint32_t place,
	       uint32_t *ret_start, uint32_t *ret_end)
{
	uint32_t start = 0, end;

	while (start < size) {
		start = skip_padding(decoder, bytes, size, start);
		end = start < size ? find_end(decoder, bytes, size, start) : 0;
		if (!end || start > place)
			return -ENOENT;
		if (place < end) {
			*ret_start = start;
			*ret_end = end;
			return is_one(decoder, bytes + start, end - start);
		}
		start = end;
	}
	return -ENOENT;
}
