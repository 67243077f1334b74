/* SPDX-License-Identifier: MIT */
/* A function while it is followed; inside of code*.c. */
#ifndef CPROFD_UNWIND_CODE_FLOW_H
#define CPROFD_UNWIND_CODE_FLOW_H

#include "unwind/code.h"

#define FLOW_NOBODY UINT32_MAX

/* Of each byte of the function. */
enum flow_mark {
	FLOW_REACHED = 1,    /* an operation begins here that some way leads to */
	FLOW_COVERED = 2,    /* it lies in such an operation */
	FLOW_LEADER = 4,     /* a block begins here */
	FLOW_CALLED = 8,     /* it is called from within the function */
	FLOW_SEED = 64,	     /* an indirect jump may lead here */
	FLOW_NO_RETURN = 16, /* a call that does not return; stays from round to round */
	FLOW_BANNED = 32,    /* no indirect jump leads here; stays */
};

/* From a leader to the next one, or to where the way ends. */
struct flow_block {
	uint32_t at, last; /* its first and last operation */
	uint32_t ways_in;
	uint32_t from; /* the block that gave it its state first */
	bool by_call;  /* it did so by a call that returned */
	bool entry, seed;
	bool known;	/* it has a state */
	bool certain;	/* reached without a call that returns */
	bool confirmed; /* what follows agrees: it returns, or joins code that is certain */
	bool queued, call_queued;
	struct code_state in;
};

/* Two ways into `block` do not agree where the stack is. */
struct flow_conflict {
	uint32_t block, from;
	bool by_call;
};
#define FLOW_CONFLICTS_MAX 256u

struct flow {
	const struct code_decoder *decoder;
	const struct code_function *function;
	uint8_t *marks;
	uint32_t *op_at, *block_at; /* of each byte: index + 1 */
	struct code_op *ops;
	uint32_t n_ops, ops_capacity;
	struct flow_block *blocks;
	uint32_t n_blocks, blocks_capacity;
	uint32_t *stack;
	uint32_t n_stack, stack_capacity;
	struct flow_conflict conflicts[FLOW_CONFLICTS_MAX];
	uint32_t n_conflicts;
	struct code_state at_table; /* the state of all jumps through tables */
	bool has_table, tables_differ, seeding;
	uint64_t steps;
};

/* Where a block's end leads: to blocks (FLOW_NOBODY: none). */
struct flow_ways {
	uint32_t to, on;
	bool call;   /* `on` is behind a call */
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
/* Looks for calls that cannot return and for seeds that cannot be; true: there were some. */
bool flow__blame(struct flow *flow);
/* The state of jumps through tables; true: there is code for them to lead to that was not known. */
bool flow__tables(struct flow *flow);
/* Sets `confirmed`. */
void flow__confirm(struct flow *flow);

#endif
