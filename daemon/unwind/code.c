/* SPDX-License-Identifier: MIT */
/* A function without call frame information, from bytes to rows (code.h says how it is understood).
 *
 *    settle()         rounds: discover blocks, interpret them, resolve contradictions; a resolved one (a call that does
 *                     not return, data that was taken for code) changes the graph, so all is done again
 *    flow__confirm()  which states can be trusted
 *    put_all()        a row for each operation that changes something, in order of addresses */
#include "unwind/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "unwind/code_flow.h"

/* Rounds for one function. Each resolves at least one contradiction; real functions need some. With more the function
 * gets UNWIND_UNSUPPORTED_CODE_LIMIT. */
#define ROUNDS 64u

/* Until nothing contradicts; -ELOOP: it does not come to that. */
static int settle(struct flow *flow)
{

	for (unsigned round = 0; round < ROUNDS; round++) {
		int err = flow__discover(flow);

		err = err ?: flow__run(flow);
		if (err)
			return err;
		if (!flow__blame(flow) && !flow__tables(flow))
			return 0;
	}
	return -ELOOP;
}

/* --- rows --- */

struct writing {
	struct flow *flow;
	struct code_rows *rows;
	/* Address of the row that was written last: rows have to ascend. */
	uint64_t last;
	bool any;
};

static int put(struct writing *w, uint32_t at, const struct code_state *state, int why)
{
	uint64_t pc = w->flow->function->address + at;

	if (w->any && pc <= w->last)
		return 0; /* instructions within instructions */
	w->any = true;
	w->last = pc;
	return w->rows->row(w->rows, pc, state, why);
}

/* Is the state of this block too doubtful? A call that returned is all that leads here, nothing behind it confirms the
 * state, and a jump through a table, or out of the other half, may lead here with another stack pointer. */
static bool is_doubtful(const struct flow *flow, const struct flow_block *block)
{
	const struct code_value *sp = &block->in.regs[UNWIND_SP],
				*table = &flow->at_table.regs[UNWIND_SP];

	if (block->confirmed || block->certain || block->seed)
		return false;
	return flow->function->half ||
	       (flow->has_table &&
		(flow->tables_differ || sp->what != table->what || sp->at != table->at));
}

/* A state that does not change is not written again, unless each instruction is asked for (`each`, in tests). */
static int put_block(struct writing *w, const struct flow_block *block)
{
	struct code_state state = block->in;
	bool doubtful = is_doubtful(w->flow, block);
	uint32_t at = block->at;
	bool quiet = false;
	int err;

	for (;;) {
		const struct code_op *op = flow__op(w->flow, at);

		if (quiet && op->kind != CODE_BAD)
			err = 0;
		else if (!block->known || doubtful)
			err = put(w, at, NULL, UNWIND_UNSUPPORTED_CODE_REACHED);
		else if (op->kind == CODE_BAD)
			err = put(w, at, NULL, UNWIND_UNSUPPORTED_CODE_BYTES);
		else
			err = put(w, at, &state, -1);
		if (err || at == block->last)
			return err;
		quiet = code_op__is_quiet(op) && !w->rows->each;
		if (!code_op__is_quiet(op))
			code_state__step(&state, op, at);
		at += op->length;
	}
}

/* Code that nothing leads to, from `at` on: one row for it, that says so. Padding belongs to what is before it. */
static int put_gap(struct writing *w, uint32_t *at)
{
	const struct code_function *f = w->flow->function;
	struct code_op op;
	bool emitted = false;
	int err = 0;

	while (!err && *at < f->size && !(w->flow->flags[*at] & FLOW_COVERED)) {
		/* Only to tell padding from code: nothing here is interpreted. */
		code_decoder__run(w->flow->decoder, f->bytes + *at, f->size - *at, *at, &op);
		if (!emitted && op.kind != CODE_NOTHING && op.kind != CODE_STOP) {
			err = put(w, *at, NULL, UNWIND_UNSUPPORTED_CODE_REACHED);
			emitted = true;
		}
		for (uint32_t i = 0; i < op.length && !(w->flow->flags[*at] & FLOW_COVERED); i++)
			++*at;
	}
	return err;
}

static int put_all(struct flow *flow, struct code_rows *rows)
{
	struct writing w = {.flow = flow, .rows = rows};
	uint32_t at = 0;
	int err = 0;

	while (!err && at < flow->function->size) {
		if (flow->block_at[at])
			err = put_block(&w, &flow->blocks[flow->block_at[at] - 1]);
		if (!err && !(flow->flags[at] & FLOW_COVERED))
			err = put_gap(&w, &at);
		else
			at++;
	}
	return err;
}

/* Emits the jumps out of the function with their states: for a function that is entered so, they are its entries
 * (code_file.c). */
static int emit_ways_out(struct flow *flow, struct code_rows *rows)
{
	struct flow_ways ways;
	struct code_state out;
	int err = 0;

	for (uint32_t i = 0; !err && rows->leaves && i < flow->n_blocks; i++) {
		if (!flow->blocks[i].known)
			continue;
		flow__ways(flow, &flow->blocks[i], &ways);
		if (!ways.leaves)
			continue;
		flow__out(flow, &flow->blocks[i], &out);
		err = rows->leaves(rows, flow->function->address + (uint64_t)ways.target, &out);
	}
	return err;
}

/* Some bytes for each byte of the function, at most 1 MB of it. */
static int prepare(struct flow *flow, const struct code_decoder *decoder,
		   const struct code_function *f)
{
	memset(flow, 0, sizeof(*flow));
	flow->decoder = decoder;
	flow->function = f;
	flow->flags = calloc(f->size, 1);
	flow->op_at = calloc(f->size, sizeof(*flow->op_at));
	flow->block_at = calloc(f->size, sizeof(*flow->block_at));
	return flow->flags && flow->op_at && flow->block_at ? 0 : -ENOMEM;
}

static void release(struct flow *flow)
{
	free(flow->flags);
	free(flow->op_at);
	free(flow->block_at);
	free(flow->ops);
	free(flow->blocks);
	free(flow->stack);
	free(flow);
}

int code__run(const struct code_decoder *decoder, const struct code_function *f,
	      struct code_rows *rows)
{
	struct code_state signal = {.signal = true};
	struct flow *flow;
	int err;

	if (!f->size)
		return 0;
	if (f->size > CODE_FUNCTION_MAX)
		return rows->row(rows, f->address, NULL, UNWIND_UNSUPPORTED_CODE_LIMIT);
	/* Where a signal handler returns to: the whole frame lies in the context that the kernel saved. */
	if (machine__sigreturn(f->bytes, f->size))
		return rows->row(rows, f->address, &signal, -1);
	flow = malloc(sizeof(*flow));
	if (!flow)
		return -ENOMEM;
	err = prepare(flow, decoder, f);
	err = err ?: settle(flow);
	if (err == -E2BIG || err == -ELOOP) {
		err = rows->row(rows, f->address, NULL, UNWIND_UNSUPPORTED_CODE_LIMIT);
	} else if (!err) {
		flow__confirm(flow);
		err = put_all(flow, rows);
		err = err ?: emit_ways_out(flow, rows);
	}
	release(flow);
	return err;
}
