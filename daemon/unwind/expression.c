/* SPDX-License-Identifier: MIT */
/* Recognises the DWARF expressions (DWARF 5, 2.5) that occur in call frame information, as the few forms that a rule
 * can express:
 *
 *    77 08 80 00 3f 1a 3b 2a 33 24 22   PLT entry, pushes a word: CFA = stack pointer + 8 + ((pc & 15) >= 11) * 8
 *    76 78 06                           function that realigns its stack: CFA = *(frame pointer - 8)
 *    77 d8 00 06 23 08                  assembly: CFA = *(stack pointer + 88) + 8, the stack pointer that it found
 *
 * A general interpreter would need a stack machine in the sampler; what is not recognised gets CFA_OTHER, and its walks
 * end with a named reason. */
#include "unwind/cfi.h"

#include <string.h>

/* DW_OP_* (DWARF 5, 7.7.1). */
enum op {
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
};

/* Reads "register + offset", and moves *at behind it. */
static bool base(const uint8_t **at, const uint8_t *end, uint8_t *reg, int64_t *offset)
{
	uint64_t number;

	if (*at >= end)
		return false;
	if (**at >= OP_BREG0 && **at <= OP_BREG31) {
		number = *(*at)++ - OP_BREG0;
	} else if (**at == OP_BREGX) {
		(*at)++;
		number = cfi_uleb(at, end);
	} else {
		return false;
	}
	if (*at > end)
		return false;
	*offset = cfi_sleb(at, end);
	*reg = number < 255 ? (uint8_t)number : 255;
	return *at <= end;
}

/* base + ((pc & 15) >= n) * 8, as binutils and LLVM's linker write it. */
static bool plt(const uint8_t *at, const uint8_t *end, int64_t *ret)
{
	static const uint8_t before[] = {OP_BREG0 + MACHINE_RETURN, 0, OP_LIT0 + 15, OP_AND};
	static const uint8_t after[] = {OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS};

	if (end - at != sizeof(before) + 1 + sizeof(after) || memcmp(at, before, sizeof(before)) ||
	    memcmp(at + sizeof(before) + 1, after, sizeof(after)))
		return false;
	if (at[sizeof(before)] < OP_LIT0 || at[sizeof(before)] > OP_LIT31)
		return false;
	*ret = at[sizeof(before)] - OP_LIT0;
	return true;
}

/* `state` says CFA_OTHER unless the whole expression was recognised. */
void expression__cfa(const uint8_t *at, const uint8_t *end, struct cfi_state *state)
{
	state->cfa = CFA_OTHER;
	state->outer = 0;
	if (!base(&at, end, &state->reg, &state->offset))
		return;
	if (at == end) {
		state->cfa = CFA_REGISTER;
	} else if (*at == OP_DEREF) {
		at++;
		if (at < end && *at == OP_PLUS_UCONST) {
			at++;
			state->outer = (int64_t)cfi_uleb(&at, end);
		}
		if (at == end)
			state->cfa = CFA_DEREF;
	} else if (plt(at, end, &state->outer)) {
		state->cfa = CFA_PLT;
	}
}

/* The CFA is on the expression's stack when it begins. */
void expression__location(const uint8_t *at, const uint8_t *end, struct cfi_location *place)
{
	if (at < end && *at == OP_PLUS_UCONST) {
		at++;
		place->offset = (int64_t)cfi_uleb(&at, end);
		place->how = at == end ? CFI_OFFSET : CFI_OTHER;
	} else if (base(&at, end, &place->reg, &place->offset) && at == end) {
		place->how = CFI_MEMORY;
	} else {
		place->how = CFI_OTHER;
	}
}
