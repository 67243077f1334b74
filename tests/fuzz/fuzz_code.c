/* SPDX-License-Identifier: MIT */
/* Machine code of any bytes: what is said of it is ascending, lies within, and ends in time. */
#include <stdlib.h>
#include <string.h>

#include "unwind/code.h"

struct rows {
	struct code_rows rows;
	uint64_t start, size, last;
	bool any;
};

static int take_row(struct code_rows *self, uint64_t pc, const struct code_state *state, int why)
{
	struct rows *r = (struct rows *)self;
	struct cfi_state cfi;
	uint64_t rule[2];

	if (pc - r->start >= r->size || (r->any && pc <= r->last) ||
	    (!state && (why < 0 || why >= UNWIND_UNSUPPORTED_COUNT)))
		abort();
	r->any = true;
	r->last = pc;
	if (state && code_state__cfi(state, &cfi) < 0)
		machine__rule(&cfi, state->signal, rule);
	return 0;
}

static int take_leaves(struct code_rows *self, uint64_t target, const struct code_state *state)
{
	struct rows *r = (struct rows *)self;

	if (target - r->start < r->size)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct code_decoder *decoder;
	struct code_entry entries[3] = {};
	struct code_state state;
	struct code_function function = {.address = 0x10000, .entries = entries, .n_entries = 1};
	struct rows rows = {.rows = {.row = take_row, .leaves = take_leaves}, .start = 0x10000};

	if (size < 4 || size > 1 << 16 || (!decoder && code_decoder__new(&decoder)))
		return 0;
	if (data[0] & 1) { /* entered elsewhere, with something on the stack */
		code_state__entry(&state);
		state.regs[UNWIND_SP].at -= 8 * (data[0] >> 4);
		entries[1] = (struct code_entry){.at = data[1], .state = &state};
		entries[2] = (struct code_entry){.at = data[2]};
		function.n_entries = 3;
	}
	rows.rows.each = data[0] & 2;
	function.bytes = data + 3;
	function.size = (uint32_t)size - 3;
	rows.size = function.size;
	code__run(decoder, &function, &rows.rows);
	if (data[0] & 4 && function.size) {
		struct code_bytes code = {function.bytes, function.size, data[1]};
		uint32_t place = (data[2] | (uint32_t)data[1] << 8) % function.size, start, end;

		if (!code__find(decoder, &code, place, &start, &end) &&
		    (start > place || end <= place || end > function.size))
			abort();
	}
	return 0;
}
