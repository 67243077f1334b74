/* SPDX-License-Identifier: MIT */
/* Where a frame's caller is, as call frame information says it (DWARF 5, 6.4.1), and what word a walker gets for that
 * (include/cprofd/arch/). Only four registers are kept track of: the frame pointer, the stack pointer, the return
 * address, and UNWIND_BASE, by which some code finds its frame. No state, any thread. */
#pragma once

#include "arch/arch.h"

enum cfi_slot { CFI_FP, CFI_SP, CFI_RA, CFI_BASE, CFI_SLOTS };

/* Where the caller's value of a register is (DWARF 5, 6.4.1: register rules). */
enum cfi_how {
	CFI_UNSPECIFIED,
	CFI_UNDEFINED,
	CFI_SAME,
	CFI_OFFSET,	/* in memory at CFA + offset */
	CFI_VAL_OFFSET, /* is CFA + offset */
	CFI_REGISTER,	/* is in reg */
	CFI_MEMORY,	/* in memory at reg + offset */
	CFI_OTHER,	/* an expression that is not understood */
};

struct cfi_location {
	uint8_t how, reg;
	int64_t offset;
};

/* How the CFA is computed. */
enum cfi_cfa {
	CFA_UNDEFINED,
	CFA_REGISTER, /* reg + offset */
	CFA_DEREF,    /* *(reg + offset) + outer */
	CFA_PLT,      /* reg + offset, and 8 more from byte `outer` of each 16 on */
	CFA_OTHER,
};

/* All that holds at one pc. */
struct cfi_state {
	uint8_t cfa, reg; /* reg: 255 when it is larger */
	int64_t offset, outer;
	int64_t kept; /* the offset said last, which an expression does not change */
	struct cfi_location places[CFI_SLOTS];
};

/* The slot of a register, by its DWARF number. -1: it is not kept track of. */
int machine__slot(uint64_t reg);
/* The rule, if it is one word and its offset is that of the CFA: unwind_rule_moved() makes that of any other offset from it. 0: any
 * other rule. Most rows of a function differ in the offset alone. */
uint64_t machine__plain(const struct cfi_state *state, bool signal);
/* The second word is 0 unless the rule has one. `signal`: the caller was interrupted. */
void machine__rule(const struct cfi_state *state, bool signal, uint64_t ret[2]);
