/* SPDX-License-Identifier: MIT */
/* Propagates states along the blocks of a function, and resolves contradictions between them.
 *
 * A worklist: a block whose entry state changed is interpreted again, and its end state is joined into its successors.
 * Joining only ever removes knowledge (a register that two paths disagree on becomes "anything"), so it ends.
 *
 * Two assumptions can be wrong: that a call returns, and that an indirect jump leads to code that nothing else reaches
 * (a seed). Both are tried, and where a contradiction follows, the assumption that led to it is withdrawn (accuse()).
 * Contradictions are: two stack pointers where paths meet, a return with a wrong one, and bytes that are no
 * instruction. */
#include "unwind/code_flow.h"

#include "base/array.h"

static int queue(struct flow *flow, uint32_t block)
{
	int err;

	if (flow->blocks[block].queued)
		return 0;
	err = ARRAY_RESERVE(flow->stack, flow->n_stack, flow->stack_capacity);
	if (err)
		return err;
	flow->blocks[block].queued = true;
	flow->stack[flow->n_stack++] = block;
	return 0;
}

static bool knows_stack(const struct code_state *state)
{
	return state->regs[UNWIND_SP].what == CODE_IS_FRAME;
}

/* The stack pointer alone decides: two paths may well disagree on a register that the code behind does not use, but not
 * on the stack pointer. */
static bool same_stack(const struct code_state *a, const struct code_state *b)
{
	const struct code_value *x = &a->regs[UNWIND_SP], *y = &b->regs[UNWIND_SP];

	return x->what == y->what && x->at == y->at;
}

/* A path leads from block `from` to block `to` with this state. `from`: the block that gave the first state, by which
 * suspect() goes back later. */
static int lead(struct flow *flow, uint32_t from, uint32_t to, const struct code_state *state,
		bool by_call)
{
	struct flow_block *block = &flow->blocks[to];

	if (!block->known) {
		block->known = true;
		block->in = *state;
		block->from = from;
		block->by_call = by_call;
		return queue(flow, to);
	}
	if (knows_stack(state) && knows_stack(&block->in) && !same_stack(state, &block->in) &&
	    flow->n_conflicts < FLOW_CONFLICTS_MAX)
		flow->conflicts[flow->n_conflicts++] =
			(struct flow_conflict){.block = to, .from = from, .by_call = by_call};
	return code_state__meet(&block->in, state) ? queue(flow, to) : 0;
}

/* "call next; next: pop": how position-independent code reads its pc. */
static bool reads_pc(const struct flow *flow, uint32_t at, const struct code_op *op)
{
	uint32_t next = at + op->length;

	return op->kind == CODE_CALL && op->near && op->value == next &&
	       next < flow->function->size && flow->op_at[next] &&
	       flow__op(flow, next)->kind == CODE_POP;
}

/* Interprets the block from its entry state. Nothing is kept for each operation, as states are large and blocks
 * short. */
void flow__out(struct flow *flow, const struct flow_block *block, struct code_state *ret)
{
	struct code_op push = {.kind = CODE_PUSH, .from = CODE_NONE};
	uint32_t at = block->at;

	*ret = block->in;
	for (;;) {
		const struct code_op *op = flow__op(flow, at);

		flow->steps++;
		if (reads_pc(flow, at, op)) {
			code_state__step(ret, &push, at);
		} else if (!code_op__is_quiet(op)) {
			code_state__step(ret, op, at);
			/* A call of the next instruction: it may be returned to a second time. */
			if (op->kind == CODE_CALL && op->near && op->value == at + op->length)
				ret->regs[UNWIND_SP].what = CODE_IS_ANY;
		}
		if (at == block->last)
			return;
		at += op->length;
	}
}

/* A loop compares a register with the stack pointer and branches back if they are unequal: where it goes on, they are
 * equal. Functions with large frames touch the stack page by page in such a loop. */
static void take_equal(const struct flow *flow, const struct flow_block *block,
		       struct code_state *state)
{
	const struct code_op *op = flow__op(flow, block->at), *before = NULL;
	uint32_t at = block->at;
	uint8_t by;

	if (!flow__op(flow, block->last)->unequal)
		return;
	while (at != block->last) {
		before = op;
		at += op->length;
		op = flow__op(flow, at);
	}
	if (!before || before->kind != CODE_COMPARE)
		return;
	by = before->to == UNWIND_SP ? before->from : before->to;
	if (state->regs[by].what == CODE_IS_FRAME)
		state->regs[UNWIND_SP] = state->regs[by];
}

/* Propagates a block's state to its successors. The code after a call waits until no other path is left, so that blocks
 * get their state from paths without calls first. */
static int pass(struct flow *flow, uint32_t i, bool behind_call)
{
	struct flow_block *block = &flow->blocks[i];
	struct code_state out;
	struct flow_ways ways;
	int err = 0;

	flow__ways(flow, block, &ways);
	if (ways.to == FLOW_NOBODY && ways.on == FLOW_NOBODY)
		return 0;
	if (ways.call && !behind_call &&
	    !reads_pc(flow, block->last, flow__op(flow, block->last))) {
		block->call_queued = true;
		return 0;
	}
	flow__out(flow, block, &out);
	if (ways.to != FLOW_NOBODY)
		err = lead(flow, i, ways.to, &out, false);
	block = &flow->blocks[i];
	if (!err && ways.on != FLOW_NOBODY) {
		take_equal(flow, block, &out);
		err = lead(flow, i, ways.on, &out, behind_call);
	}
	return err;
}

/* The states that are given: of entries, of functions that are called from within, and of seeds. */
static int begin(struct flow *flow)
{
	const struct code_function *f = flow->function;
	struct code_state fresh;
	int err = 0;

	code_state__entry(&fresh);
	flow->n_conflicts = 0;
	flow->n_stack = 0;
	for (uint32_t i = 0; !err && i < f->n_entries; i++) {
		const struct code_entry *entry = &f->entries[i];

		if (entry->at >= f->size)
			continue;
		flow->blocks[flow->block_at[entry->at] - 1].entry = true;
		err = lead(flow, FLOW_NOBODY, flow->block_at[entry->at] - 1,
			   entry->state ? entry->state : &fresh, false);
	}
	for (uint32_t i = 0; !err && i < flow->n_blocks; i++)
		if (flow->flags[flow->blocks[i].at] & FLOW_CALLED)
			err = lead(flow, FLOW_NOBODY, i, &fresh, false);
		else if (flow->blocks[i].seed)
			err = lead(flow, FLOW_NOBODY, i, &flow->at_table, false);
	return err;
}

int flow__run(struct flow *flow)
{
	uint32_t i, next = 0;
	bool certain = true;
	int err = begin(flow);

	while (!err) {
		while (!err && flow->n_stack) {
			i = flow->stack[--flow->n_stack];
			flow->blocks[i].queued = false;
			flow->blocks[i].certain |= certain;
			err = pass(flow, i, false);
			if (flow->steps > CODE_STEPS_MAX)
				return -E2BIG;
		}
		certain = false;
		/* The next waiting call by address, round robin. */
		for (i = 0; i < flow->n_blocks && !flow->blocks[next].call_queued; i++)
			next = next + 1 < flow->n_blocks ? next + 1 : 0;
		if (err || i == flow->n_blocks)
			break;
		flow->blocks[next].call_queued = false;
		err = pass(flow, next, true);
	}
	return err;
}

/* --- contradictions --- */

/* Which assumption led to block `i`? Goes back along the only path to it, to the last call that returned or to the seed
 * that the path began with. NULL: other paths lead there, too. */
static struct flow_block *suspect(struct flow *flow, uint32_t i)
{
	for (uint32_t n = 0; i != FLOW_NOBODY && n < flow->n_blocks; n++) {
		struct flow_block *block = &flow->blocks[i];

		if (block->seed)
			return block;
		if (block->entry || block->ways_in != 1)
			return NULL;
		i = block->from;
		if (block->by_call)
			return i == FLOW_NOBODY ? NULL : &flow->blocks[i];
	}
	return NULL;
}

/* Kept from round to round, in flags. */
static void accuse(struct flow *flow, struct flow_block *block)
{
	if (block->seed)
		flow->flags[block->at] |= FLOW_BANNED;
	else
		flow->flags[block->last] |= FLOW_NO_RETURN;
}

/* Resolves a conflict. If a call continues into code that another path reaches with another stack pointer, the call is
 * the one that does not return: compilers write no unreachable code, so the other path is real. */
static bool settle(struct flow *flow, const struct flow_conflict *conflict)
{
	const struct flow_block *block = &flow->blocks[conflict->block];
	struct flow_block *one, *other;

	if (conflict->by_call || (block->by_call && !block->entry)) {
		accuse(flow, &flow->blocks[conflict->by_call ? conflict->from : block->from]);
		return true;
	}
	if (block->seed) {
		accuse(flow, &flow->blocks[conflict->block]);
		return true;
	}
	one = suspect(flow, conflict->from);
	other = block->entry ? NULL : suspect(flow, block->from);
	/* A seed is a weaker assumption than a call that returns: it is blamed alone. */
	if (one && other && one->seed != other->seed)
		*(one->seed ? &other : &one) = NULL;
	if (!one == !other)
		return false;
	accuse(flow, one ? one : other);
	return true;
}

/* The block returns with the stack pointer at the return address: a proof that its state is right. */
static bool is_signed_off(const struct flow *flow, const struct flow_block *block,
			  const struct code_state *out)
{
	const struct code_value *sp = &out->regs[UNWIND_SP];

	return flow__op(flow, block->last)->kind == CODE_RETURN && sp->what == CODE_IS_FRAME &&
	       sp->at == -MACHINE_ENTRY_CFA;
}

/* First conflicts between two paths; only when there are none, wrong returns and bytes that are no instructions: one
 * wrong assumption often causes several contradictions, and conflicts name the culprit best. */
bool flow__blame(struct flow *flow)
{
	struct code_state out;
	bool found = false;

	for (uint32_t i = 0; i < flow->n_conflicts; i++)
		found |= settle(flow, &flow->conflicts[i]);
	if (found)
		return true;
	for (uint32_t i = 0; i < flow->n_blocks; i++) {
		struct flow_block *block = &flow->blocks[i];

		if (!block->known)
			continue;
		if (flow__op(flow, block->last)->kind == CODE_BAD) {
			block = suspect(flow, i);
		} else if (flow__op(flow, block->last)->kind == CODE_RETURN) {
			flow__out(flow, block, &out);
			block = knows_stack(&out) && !is_signed_off(flow, block, &out)
					? suspect(flow, i)
					: NULL;
		} else {
			continue;
		}
		if (block) {
			accuse(flow, block);
			found = true;
		}
	}
	return found;
}

/* --- tables of jumps --- */

/* Was the register of the block's jump computed from a jump table, in this block? */
static bool by_table(const struct flow *flow, const struct flow_block *block)
{
	const struct code_op *jump = flow__op(flow, block->last), *op;
	bool table = jump->table;

	for (uint32_t at = block->at; jump->from < CODE_REGISTERS && at != block->last; at += op->length) {
		op = flow__op(flow, at);
		if (op->writes >> jump->from & 1)
			table = op->table;
	}
	return table;
}

/* First round: no seeds. If jumps through tables were found and agree, seeds are added and all is done again; if they
 * come to disagree, seeds are removed for good. */
bool flow__tables(struct flow *flow)
{
	struct code_state out;

	flow->has_table = flow->tables_differ = false;
	for (uint32_t i = 0; i < flow->n_blocks; i++) {
		const struct flow_block *block = &flow->blocks[i];

		if (!block->known || flow__op(flow, block->last)->kind != CODE_AWAY)
			continue;
		flow__out(flow, block, &out);
		if (code_state__is_fresh(&out) && !by_table(flow, block))
			continue; /* an indirect tail call */
		if (!flow->has_table) {
			flow->at_table = out;
			flow->has_table = true;
			continue;
		}
		flow->tables_differ |= !same_stack(&flow->at_table, &out);
		code_state__meet(&flow->at_table, &out);
	}
	if (flow->tables_differ && flow->seeding) {
		flow->seeding = false;
		return true;
	}
	if (!flow->has_table || flow->tables_differ || flow->seeding)
		return false;
	flow->seeding = true;
	return true;
}

/* --- which states can be trusted --- */

static bool agrees(const struct flow *flow, uint32_t to, const struct code_state *out)
{
	return to != FLOW_NOBODY && (flow->blocks[to].confirmed || flow->blocks[to].certain) &&
	       same_stack(&flow->blocks[to].in, out);
}

/* Backwards from proofs: a block is confirmed if it returns rightly, leaves by a proper tail call, or leads to a block
 * that is confirmed or certain with the same stack pointer. Blocks come in order of addresses, so going downwards needs
 * few rounds. */
void flow__confirm(struct flow *flow)
{
	struct flow_ways ways;
	struct code_state out;
	bool again = true;

	for (unsigned round = 0; again && round < 64; round++) {
		again = false;
		for (uint32_t i = flow->n_blocks; i > 0; i--) {
			struct flow_block *block = &flow->blocks[i - 1];

			if (!block->known || block->confirmed)
				continue;
			flow__out(flow, block, &out);
			flow__ways(flow, block, &ways);
			if (is_signed_off(flow, block, &out) ||
			    (ways.leaves && code_state__is_fresh(&out)) ||
			    agrees(flow, ways.to, &out) || agrees(flow, ways.on, &out))
				block->confirmed = again = true;
		}
	}
}
