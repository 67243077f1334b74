/* SPDX-License-Identifier: MIT */
/* Decodes a function along its control flow, and divides it into basic blocks (struct flow_block). Only bytes that some
 * path reaches are decoded, so data between code does no harm. Instructions may overlap (a jump into the middle of
 * one): each byte can begin an operation of its own.
 *
 *    follow_all()   from all entries: decodes, sets FLOW_REACHED, and FLOW_LEADER where a block begins
 *    seed()         only after a jump through a table: what is left and is code
 *    make_blocks()  from leader to leader */
#include "unwind/code_flow.h"

#include <string.h>

#include "base/array.h"

const struct code_op *flow__op(const struct flow *flow, uint32_t at)
{
	return &flow->ops[flow->op_at[at] - 1];
}

/* Each address is decoded once, in all rounds. */
static int decode(struct flow *flow, uint32_t at)
{
	const struct code_function *f = flow->function;
	int err;

	if (flow->op_at[at])
		return 0;
	err = ARRAY_RESERVE(flow->ops, flow->n_ops, flow->ops_capacity);
	if (err)
		return err;
	code_decoder__run(flow->decoder, f->bytes + at, f->size - at, at, &flow->ops[flow->n_ops]);
	flow->op_at[at] = ++flow->n_ops;
	return 0;
}

/* Queues an address from which decoding must go on: it begins a block. */
static int later(struct flow *flow, uint32_t at, uint8_t flags)
{
	int err = ARRAY_RESERVE(flow->stack, flow->n_stack, flow->stack_capacity);

	if (err)
		return err;
	flow->flags[at] |= flags | FLOW_LEADER;
	flow->stack[flow->n_stack++] = at;
	return 0;
}

/* A target in the function itself. Others leave it. */
static bool is_inside(const struct flow *flow, int64_t at)
{
	return at >= 0 && at < (int64_t)flow->function->size;
}

/* Operations behind which the path does not go on. */
static bool ends(const struct code_op *op)
{
	return op->kind == CODE_JUMP || op->kind == CODE_AWAY || op->kind == CODE_RETURN ||
	       op->kind == CODE_STOP || op->kind == CODE_BAD;
}

/* Decodes one path from `at` to its end, or to code that was reached before; its branches are queued. */
static int follow(struct flow *flow, uint32_t at)
{
	uint32_t size = flow->function->size, i;
	bool first = true;
	int err = 0;

	while (!err && at < size) {
		struct code_op op;

		/* Another path was here: if this one did not begin here, a block ends in front of it. */
		if (flow->flags[at] & FLOW_REACHED) {
			if (!first)
				flow->flags[at] |= FLOW_LEADER;
			return 0;
		}
		first = false;
		err = decode(flow, at);
		if (err)
			return err;
		op = *flow__op(flow, at); /* the array may move */
		flow->flags[at] |= FLOW_REACHED;
		for (i = at; i < at + op.length; i++)
			flow->flags[i] |= FLOW_COVERED;
		if ((op.kind == CODE_JUMP || op.kind == CODE_BRANCH) && op.near &&
		    is_inside(flow, op.value))
			err = later(flow, (uint32_t)op.value, 0);
		if (op.kind == CODE_CALL && op.near && is_inside(flow, op.value) &&
		    op.value != at + op.length)
			err = later(flow, (uint32_t)op.value, FLOW_CALLED);
		if (ends(&op) || (flow->flags[at] & FLOW_NO_RETURN))
			return err;
		at += op.length;
		if ((op.kind == CODE_BRANCH || op.kind == CODE_CALL) && at < size)
			flow->flags[at] |= FLOW_LEADER;
	}
	return err;
}

/* The stack holds addresses instead of recursion: a hostile function may have 65,536 branches. */
static int follow_all(struct flow *flow)
{
	int err = 0;

	while (!err && flow->n_stack)
		err = follow(flow, flow->stack[--flow->n_stack]);
	return err;
}

/* Code that no path reaches, and that is not padding, may be the target of an indirect jump (a switch): a seed. After a
 * seed that proved wrong (banned) come data, or more of the same. */
static int seed(struct flow *flow)
{
	bool banned = false;
	uint32_t at = 0;
	int err = 0;

	while (!err && at < flow->function->size) {
		const struct code_op *op;

		banned |= (flow->flags[at] & FLOW_BANNED) != 0;
		if (flow->flags[at] & FLOW_COVERED)
			banned = false;
		if (flow->flags[at] & FLOW_COVERED || banned) {
			at++;
			continue;
		}
		err = decode(flow, at);
		if (err)
			break;
		op = flow__op(flow, at);
		if (op->kind == CODE_NOTHING || op->kind == CODE_STOP || op->kind == CODE_BAD) {
			at += op->length;
			continue;
		}
		err = later(flow, at, FLOW_SEED);
		err = err ?: follow_all(flow);
	}
	return err;
}

/* A block ends with a branch, a call, the end of a path, or in front of the next leader. */
static int add_block(struct flow *flow, uint32_t at)
{
	struct flow_block *block;
	int err;

	if (flow->n_blocks == CODE_BLOCKS_MAX)
		return -E2BIG;
	err = ARRAY_RESERVE(flow->blocks, flow->n_blocks, flow->blocks_capacity);
	if (err)
		return err;
	block = &flow->blocks[flow->n_blocks++];
	memset(block, 0, sizeof(*block));
	flow->block_at[at] = flow->n_blocks;
	block->at = block->last = at;
	block->from = FLOW_NOBODY;
	block->seed = flow->flags[at] & FLOW_SEED;
	block->entry = flow->flags[at] & FLOW_CALLED;
	block->ways_in = block->seed || block->entry;
	for (;;) {
		const struct code_op *op = flow__op(flow, block->last);
		uint32_t next = block->last + op->length;

		if (ends(op) || op->kind == CODE_BRANCH || op->kind == CODE_CALL ||
		    next >= flow->function->size || flow->flags[next] & FLOW_LEADER)
			return 0;
		block->last = next;
	}
}

/* `leaves` with target size: the path runs off the end of the function, as into its other half. */
void flow__ways(const struct flow *flow, const struct flow_block *block, struct flow_ways *ret)
{
	const struct code_op *op = flow__op(flow, block->last);
	uint32_t next = block->last + op->length;

	*ret = (struct flow_ways){.to = FLOW_NOBODY, .on = FLOW_NOBODY};
	if (op->kind == CODE_JUMP || op->kind == CODE_BRANCH) {
		ret->target = op->value;
		ret->leaves = op->near && !is_inside(flow, op->value);
		if (op->near && !ret->leaves)
			ret->to = flow->block_at[op->value] - 1;
	}
	if (ends(op) || flow->flags[block->last] & FLOW_NO_RETURN)
		return;
	ret->call = op->kind == CODE_CALL;
	if (next < flow->function->size) {
		ret->on = flow->block_at[next] - 1;
	} else if (!ret->call && !ret->leaves) {
		ret->leaves = true;
		ret->target = next;
	}
}

/* Leaders that no path reached in this round are left out. */
static int make_blocks(struct flow *flow)
{
	struct flow_ways ways;
	int err;

	flow->n_blocks = 0;
	for (uint32_t at = 0; at < flow->function->size; at++) {
		flow->block_at[at] = 0;
		if ((flow->flags[at] & (FLOW_LEADER | FLOW_REACHED)) !=
		    (FLOW_LEADER | FLOW_REACHED))
			continue;
		err = add_block(flow, at);
		if (err)
			return err;
	}
	for (uint32_t i = 0; i < flow->n_blocks; i++) {
		flow__ways(flow, &flow->blocks[i], &ways);
		if (ways.to != FLOW_NOBODY)
			flow->blocks[ways.to].ways_in++;
		if (ways.on != FLOW_NOBODY)
			flow->blocks[ways.on].ways_in++;
	}
	return 0;
}

/* What earlier rounds found out is kept: calls that do not return, and bytes that are no code. */
int flow__discover(struct flow *flow)
{
	const struct code_function *f = flow->function;
	int err = 0;

	for (uint32_t i = 0; i < f->size; i++)
		flow->flags[i] &= FLOW_NO_RETURN | FLOW_BANNED;
	for (uint32_t i = 0; !err && i < f->n_entries; i++)
		if (f->entries[i].at < f->size)
			err = later(flow, f->entries[i].at, 0);
	err = err ?: follow_all(flow);
	if (!err && flow->seeding)
		err = seed(flow);
	err = err ?: make_blocks(flow);
	return err;
}
