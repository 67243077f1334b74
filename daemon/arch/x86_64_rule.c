/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)
/* The state of call frame information as a rule of include/cprofd/arch/x86_64.h, which the sampler can carry out: one
 * word for nearly all code, two for the rest. What cannot be expressed becomes a rule with its reason.
 *
 *    CFA_REGISTER rsp + 16, RA at CFA - 8, rbp at CFA - 16   ->   PLAIN  rsp, 16, saved -16 */
#include "arch/rule.h"

#include "cprofd/unwind.h"

/* Words of the saved context (UNWIND_CONTEXT_ORDER) by which a signal frame is known. */
#define CONTEXT_BP 80
#define CONTEXT_SP 120
#define CONTEXT_PC 128

int machine__slot(uint64_t reg)
{
	switch (reg) {
	case UNWIND_BP:
		return CFI_FP;
	case UNWIND_SP:
		return CFI_SP;
	case UNWIND_PC:
		return CFI_RA;
	case UNWIND_BASE:
		return CFI_BASE;
	}
	return -1;
}

static bool fits16(int64_t value)
{
	return value == (int16_t)value;
}
static bool fits32(int64_t value)
{
	return value == (int32_t)value;
}

/* A signal frame as glibc describes it: CFA, return address and rbp lie in the saved context, at the distances that
 * they have there. */
static bool in_context(const struct cfi_state *state, int64_t *ret)
{
	const struct cfi_location *fp = &state->places[CFI_FP], *ra = &state->places[CFI_RA];

	*ret = state->offset - CONTEXT_SP;
	return state->cfa == CFA_DEREF && state->reg == UNWIND_SP && !state->outer &&
	       fits32(*ret) && ra->how == CFI_MEMORY && ra->reg == UNWIND_SP &&
	       ra->offset == *ret + CONTEXT_PC && fp->how == CFI_MEMORY && fp->reg == UNWIND_SP &&
	       fp->offset == *ret + CONTEXT_BP;
}

/* The caller's stack pointer is the CFA, said or not. */
static bool sp_is_cfa(const struct cfi_state *state)
{
	const struct cfi_location *sp = &state->places[CFI_SP];

	return sp->how == CFI_UNSPECIFIED || (sp->how == CFI_VAL_OFFSET && !sp->offset);
}

static uint64_t unsupported(enum unwind_unsupported why)
{
	return UNWIND_RULE_UNSUPPORTED(why);
}

/* Where rbx was saved, in steps of 8 below the CFA; what does not fit is lost, and only frames that need it (glibc's
 * loader) end there. */
static uint64_t base_bits(const struct cfi_location *base)
{
	uint64_t at = UNWIND_BASE_LOST;

	if (base->how == CFI_UNSPECIFIED || base->how == CFI_SAME)
		at = 0;
	else if (base->how == CFI_OFFSET && base->offset < 0 && base->offset % 8 == 0 &&
		 base->offset > -8 * (int64_t)UNWIND_BASE_LOST)
		at = (uint64_t)(base->offset / -8);
	return at << 57;
}

/* What nearly all code is: 0, or the rule. */
static inline uint64_t plain(const struct cfi_state *state, uint64_t base)
{
	const struct cfi_location *ra = &state->places[CFI_RA], *fp = &state->places[CFI_FP];
	int64_t saved = 0;

	if (state->cfa != CFA_REGISTER || state->reg > 15 || !fits32(state->offset) ||
	    ra->how != CFI_OFFSET || ra->offset != -8 ||
	    state->places[CFI_SP].how != CFI_UNSPECIFIED)
		return 0;
	if (fp->how == CFI_OFFSET)
		saved = fp->offset;
	else if (fp->how != CFI_UNSPECIFIED && fp->how != CFI_SAME)
		return 0;
	if (!fits16(saved) || (fp->how == CFI_OFFSET && !saved))
		return 0;
	return UNWIND_RULE(UNWIND_KIND_PLAIN, state->reg, state->offset, saved) | base;
}

/* Where rbp is: UNWIND_PLACE_*; LOST is no reason to give the frame up. */
static unsigned location_fp(const struct cfi_location *fp, uint8_t *reg, int64_t *offset)
{
	*reg = 0;
	*offset = 0;
	switch (fp->how) {
	case CFI_UNSPECIFIED:
	case CFI_SAME:
		return UNWIND_PLACE_SAME;
	case CFI_REGISTER:
		*reg = fp->reg;
		if (fp->reg == UNWIND_BP)
			return UNWIND_PLACE_SAME;
		return fp->reg < 16 ? UNWIND_PLACE_REGISTER : UNWIND_PLACE_LOST;
	case CFI_OFFSET:
	case CFI_MEMORY:
		if (!fits16(fp->offset) || (fp->how == CFI_MEMORY && fp->reg > 15))
			return UNWIND_PLACE_LOST;
		*reg = fp->how == CFI_MEMORY ? fp->reg : 0;
		*offset = fp->offset;
		return fp->how == CFI_MEMORY ? UNWIND_PLACE_MEMORY : UNWIND_PLACE_CFA;
	}
	return UNWIND_PLACE_LOST;
}

uint64_t machine__plain(const struct cfi_state *state, bool signal)
{
	uint64_t rule = plain(state, base_bits(&state->places[CFI_BASE]));

	return rule && signal ? rule | UNWIND_SIGNAL : rule;
}

/* From the frequent to the rare: machine__plain() is nearly all. */
void machine__rule(const struct cfi_state *state, bool signal, uint64_t ret[2])
{
	const struct cfi_location *ra = &state->places[CFI_RA];
	unsigned fp, kind, ra_location;
	int64_t offset;
	uint8_t reg;

	ret[1] = 0;
	ret[0] = machine__plain(state, signal);
	if (ret[0])
		return;
	/* No return address: glibc says so of _start and of clone's child (the thread's first function). */
	if (ra->how == CFI_UNDEFINED) {
		ret[0] = UNWIND_RULE_END;
		return;
	}
	if (signal && in_context(state, &offset)) {
		ret[0] = UNWIND_RULE(UNWIND_KIND_CONTEXT, UNWIND_SP, offset, 0) | UNWIND_SIGNAL;
		return;
	}
	ret[0] = 0;
	if (state->cfa == CFA_UNDEFINED)
		ret[0] = unsupported(UNWIND_UNSUPPORTED_NO_CFA);
	else if (state->cfa == CFA_OTHER)
		ret[0] = unsupported(UNWIND_UNSUPPORTED_EXPRESSION);
	else if (state->reg > 15)
		ret[0] = unsupported(UNWIND_UNSUPPORTED_REGISTER);
	else if (!sp_is_cfa(state))
		ret[0] = unsupported(UNWIND_UNSUPPORTED_STACK);
	else if (!fits32(state->offset) || !fits16(state->outer) ||
		 ((ra->how == CFI_OFFSET || ra->how == CFI_MEMORY) && !fits16(ra->offset)))
		ret[0] = unsupported(UNWIND_UNSUPPORTED_RANGE);
	else if ((ra->how != CFI_OFFSET && ra->how != CFI_MEMORY && ra->how != CFI_REGISTER) ||
		 (ra->how != CFI_OFFSET && ra->reg > 15))
		ret[0] = unsupported(UNWIND_UNSUPPORTED_RETURN);
	if (ret[0])
		return;
	fp = location_fp(&state->places[CFI_FP], &reg, &offset);
	kind = state->cfa == CFA_PLT ? UNWIND_KIND_PLT : UNWIND_KIND_PLAIN;
	if (ra->how == CFI_OFFSET && ra->offset == -8 && state->cfa != CFA_DEREF &&
	    (fp == UNWIND_PLACE_SAME ||
	     (fp == UNWIND_PLACE_CFA && offset && state->cfa == CFA_REGISTER))) {
		ret[0] = UNWIND_RULE(kind, state->reg, state->offset,
				     kind == UNWIND_KIND_PLT ? state->outer : offset);
	} else if (state->cfa == CFA_PLT) {
		ret[0] = unsupported(UNWIND_UNSUPPORTED_EXPRESSION);
	} else {
		ra_location = ra->how == CFI_OFFSET   ? UNWIND_PLACE_CFA
			   : ra->how == CFI_MEMORY ? UNWIND_PLACE_MEMORY
						   : UNWIND_PLACE_REGISTER;
		ret[0] = UNWIND_RULE(UNWIND_KIND_LONG, state->reg, state->offset, offset);
		ret[1] = UNWIND_LONG(state->outer, ra_location, ra->how == CFI_OFFSET ? 0 : ra->reg,
				     ra->how == CFI_REGISTER ? 0 : ra->offset, fp, reg,
				     state->cfa == CFA_DEREF);
	}
	if (unwind_rule_kind(ret[0]) != UNWIND_KIND_UNSUPPORTED)
		ret[0] |= base_bits(&state->places[CFI_BASE]);
	if (signal)
		ret[0] |= UNWIND_SIGNAL;
}
#endif
