/* SPDX-License-Identifier: MIT */
/* The control flow graph of a function while it is interpreted. Private to code*.c:
 *   code_blocks.c  decodes instructions and divides them into blocks
 *   code_flow.c    propagates states along the blocks and resolves contradictions
 *   code.c         repeats both until nothing changes, then writes rows */
#pragma once

#include "unwind/code.h"

#define FLOW_NOBODY UINT32_MAX

/* Flags of each byte of the function. */
enum flow_flag {
	FLOW_REACHED = 1,    /* an operation that some path reaches begins here */
	FLOW_COVERED = 2,    /* part of such an operation */
	FLOW_LEADER = 4,     /* a block begins here */
	FLOW_CALLED = 8,     /* it is called from within the function */
	FLOW_SEED = 64,	     /* an indirect jump may lead here */
	FLOW_NO_RETURN = 16, /* a call that does not return; kept from round to round */
	FLOW_BANNED = 32,    /* not the target of an indirect jump; kept from round to round */
};

/* A basic block: from a leader to the next one, or to the end of the path. */
struct flow_block {
	uint32_t at, last; /* its first and last operation */
	/* How many paths lead here: from other blocks, as an entry, as a seed. */
	uint32_t ways_in;
	uint32_t from; /* the block from which its state came first */
	bool by_call;  /* that came by a call that returned */
	bool entry, seed;
	bool known;	/* it has a state */
	bool certain;	/* reached without a call that returns */
	/* its exits are right: it returns with the right stack pointer, or joins code that is certain */
	bool confirmed;
	/* queued: it is on the worklist. call_queued: what follows its call waits until nothing else is on the
	 * worklist. */
	bool queued, call_queued;
	/* What is known before its first operation, joined from all paths so far. */
	struct code_state in;
};

/* Two paths into `block` have different stack pointers. */
struct flow_conflict {
	uint32_t block, from;
	bool by_call;
};
#define FLOW_CONFLICTS_MAX 256u

struct flow {
	const struct code_decoder *decoder;
	const struct code_function *function;
	/* Of each byte of the function: enum flow_flag, by bit. */
	uint8_t *flags;
	uint32_t *op_at, *block_at; /* of each byte: index + 1 */
	struct code_op *ops;
	uint32_t n_ops, ops_capacity;
	struct flow_block *blocks;
	uint32_t n_blocks, blocks_capacity;
	/* Work that is left: offsets while code is discovered, numbers of blocks while states are propagated. */
	uint32_t *stack;
	uint32_t n_stack, stack_capacity;
	/* Contradictions of this round; further ones come in the next round. */
	struct flow_conflict conflicts[FLOW_CONFLICTS_MAX];
	uint32_t n_conflicts;
	struct code_state at_table; /* the state of all jumps through tables */
	bool has_table, tables_differ, seeding;
	/* Operations that were interpreted so far: at most CODE_STEPS_MAX. */
	uint64_t steps;
};

/* Successors of a block (FLOW_NOBODY: none): of a jump or branch, and the next one in memory. */
struct flow_ways {
	uint32_t to, on;
	bool call;   /* `on` is reached when a call returns */
	bool leaves; /* to `target`, outside */
	int64_t target;
};

const struct code_op *flow__op(const struct flow *flow, uint32_t at);
/* Finds the operations and blocks that the entries (and seeds) lead to. -ENOMEM, -E2BIG. */
int flow__discover(struct flow *flow);
void flow__ways(const struct flow *flow, const struct flow_block *block, struct flow_ways *ret);
/* Gives each block its state. -E2BIG: too many steps. */
int flow__run(struct flow *flow);
/* The state behind the block's last operation. */
void flow__out(struct flow *flow, const struct flow_block *block, struct code_state *ret);
/* Finds calls that cannot return and seeds that cannot be code, from contradictions. True: there were some. */
bool flow__blame(struct flow *flow);
/* Joins the states of all jumps through tables. True: seeds must be added, or removed; run again. */
bool flow__tables(struct flow *flow);
/* Sets `confirmed`. */
void flow__confirm(struct flow *flow);
