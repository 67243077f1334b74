/* SPDX-License-Identifier: MIT */
/* Machine code, instruction by instruction, as far as it moves the stack pointer, saves registers or leads elsewhere:
 *
 *   24 bytes of the stack are taken  ->  {CODE_LEA, .to = UNWIND_SP, .from = UNWIND_SP, .value = -24}
 *
 * What is not of that kind is CODE_OTHER, with the registers and the memory that it writes. unwind/code.h follows
 * them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cprofd/arch.h"

#define CODE_REGISTERS UNWIND_GENERAL /* by DWARF number */
#define CODE_NONE 255u

enum code_kind {
	CODE_BAD, /* no instruction */
	CODE_OTHER,
	CODE_NOTHING,	/* also of several bytes */
	CODE_MOVE,	/* to = from */
	CODE_LEA,	/* to = from + value */
	CODE_ALIGN,	/* to &= -n */
	CODE_ZERO,	/* to = 0 */
	CODE_LOAD,	/* to = *(from + value) */
	CODE_STORE,	/* *(to + value) = from */
	CODE_PUSH,	/* of from, or of something */
	CODE_PUSH_LOAD, /* of *(from + value) */
	CODE_POP,	/* into to, or into something */
	CODE_LEAVE,
	CODE_CALL,    /* of value, when `near` */
	CODE_JUMP,    /* to value */
	CODE_BRANCH,  /* to value, or on */
	CODE_AWAY,    /* an indirect jump; by from, or by memory */
	CODE_RETURN,  /* value: bytes that it takes off, too */
	CODE_STOP,    /* ud2, hlt, int3: what follows is not reached from here */
	CODE_ENTER,   /* with `value` bytes of locals */
	CODE_COMPARE, /* of to and from, one of which is the stack pointer */
};

/* One instruction. Which fields are valid depends on `kind`, as its comment says. */
struct code_op {
	uint8_t kind, length;
	uint8_t to, from; /* registers, or CODE_NONE */
	bool near;	  /* the target is in `value` */
	bool table;	  /* its result may be an address out of a table; AWAY: it jumps to one */
	bool unequal;	  /* BRANCH: taken when a comparison was unequal */
	uint16_t writes;  /* registers by bit */
	uint8_t size;	  /* OTHER: bytes written to memory at store + value; 255: more */
	uint8_t store;	  /* OTHER: its base; CODE_NONE: none */
	int64_t value;	  /* targets: after the function's first byte */
};

/* Does it change nothing that is followed? Then the state behind it is the state before it. */
static inline bool code_op__is_quiet(const struct code_op *op)
{
	return op->kind == CODE_NOTHING ||
	       (op->kind == CODE_OTHER && !op->writes && op->store == CODE_NONE);
}

/* The operation at `bytes`, `at` bytes after the function's first. Its length is at least 1 and at
 * most `len`, also of what is none. */
struct code_decoder;
int code_decoder__new(struct code_decoder **ret);
void code_decoder__free(struct code_decoder *decoder);
void code_decoder__run(const struct code_decoder *decoder, const uint8_t *bytes, uint32_t len,
		       uint32_t at, struct code_op *ret);
