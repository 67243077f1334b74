/* SPDX-License-Identifier: MIT */
/* What is known before an instruction, and what the instruction makes of it. For example, at the entry of a function
 * and behind its first two instructions:
 *
 *                              stack pointer   frame pointer     words
 *    entry                     CFA - 8         ENTRY(itself)     -
 *    push frame pointer        CFA - 16        ENTRY(itself)     [CFA - 16] = ENTRY(frame pointer)
 *    move stack to frame ptr.  CFA - 16        CFA - 16          [CFA - 16] = ENTRY(frame pointer)
 *
 * From the last line follow the rule "CFA = frame pointer + 16" and "the caller's frame pointer is at CFA - 16".
 *
 * Everything that is not understood makes a value "anything": knowledge can be missing, but not wrong. The exception
 * are stores through unknown pointers, which are assumed not to hit saved registers (code.h). */
#include "unwind/code.h"

#include <string.h>

/* Offsets beyond 1 GB are no frame's; the bound also keeps sums from overflowing. */
#define FAR (1 << 30)

static const struct code_value any = {.what = CODE_IS_ANY};

static bool same(struct code_value a, struct code_value b)
{
	return a.what == b.what && a.reg == b.reg && a.at == b.at;
}

static bool is_place(struct code_value value)
{
	return value.what == CODE_IS_FRAME || value.what == CODE_IS_BASED;
}

/* Does it have what register `reg` had at the entry? */
static bool holds(struct code_value value, uint8_t reg)
{
	return value.what == CODE_IS_ENTRY && value.reg == reg;
}

static struct code_value plus(struct code_value value, int64_t n)
{
	int64_t at = value.at + n;

	if (!n)
		return value;
	if (!is_place(value) || at > FAR || at < -FAR)
		return any;
	value.at = (int32_t)at;
	return value;
}

/* Each register holds what it held, and the stack pointer points to the return address. */
void code_state__entry(struct code_state *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < CODE_REGISTERS; i++)
		ret->regs[i] = (struct code_value){.what = CODE_IS_ENTRY, .reg = (uint8_t)i};
	ret->regs[UNWIND_SP] = (struct code_value){.what = CODE_IS_FRAME, .at = -MACHINE_ENTRY_CFA};
}

bool code_state__is_fresh(const struct code_state *state)
{
	if (state->signal || state->first ||
	    !same(state->regs[UNWIND_SP], (struct code_value){.what = CODE_IS_FRAME, .at = -MACHINE_ENTRY_CFA}))
		return false;
	for (unsigned i = 0; i < CODE_REGISTERS; i++)
		if (UNWIND_KEPT >> i & 1 && !holds(state->regs[i], (uint8_t)i))
			return false;
	return true;
}

/* --- words of the stack --- */

/* The order of slots means nothing. */
static void slots__remove(struct code_state *s, uint32_t i)
{
	s->slots[i] = s->slots[--s->n_slots];
}

/* What lies in [place, place + size) is something else now. */
static void slots__clear(struct code_state *s, struct code_value place, int64_t size)
{
	uint32_t i = 0;

	while (i < s->n_slots) {
		const struct code_value *p = &s->slots[i].place;

		if (p->what == place.what && p->at < place.at + size && place.at < p->at + 8)
			slots__remove(s, i);
		else
			i++;
	}
}

/* Forgets the words below `below`: nobody keeps them. */
static void slots__drop(struct code_state *s, unsigned what, int64_t below)
{
	uint32_t i = 0;

	while (i < s->n_slots) {
		if (s->slots[i].place.what == what && s->slots[i].place.at < below)
			slots__remove(s, i);
		else
			i++;
	}
}

/* Should this stack word be remembered? Yes: callee-saved registers, and in a frame with an aligned stack the address
 * of the frame. Other addresses of the frame are pointers to variables, which may change through such a pointer; CFA +
 * 0 and above may hold a va_list (psABI, 3.5.7), unless it was pushed. */
static bool is_worth(struct code_value place, struct code_value value, bool pushed)
{
	if (value.what == CODE_IS_FRAME)
		return place.what == CODE_IS_BASED && (pushed || value.at < 0);
	return value.what == CODE_IS_ENTRY && UNWIND_KEPT >> value.reg & 1;
}

/* With CODE_SLOTS words in use further ones are not remembered: a rule may then be missing. */
static void store(struct code_state *s, struct code_value place, struct code_value value,
		  bool pushed)
{
	if (!is_place(place))
		return;
	slots__clear(s, place, 8);
	if (s->n_slots < CODE_SLOTS && is_worth(place, value, pushed))
		s->slots[s->n_slots++] = (struct code_slot){.place = place, .value = value};
}

struct code_value code_state__word(const struct code_state *s, struct code_value place)
{
	for (uint32_t i = 0; is_place(place) && i < s->n_slots; i++)
		if (same(s->slots[i].place, place))
			return s->slots[i].value;
	return any;
}

/* --- operations --- */

/* Sets a register. If it is the stack pointer, words that are further below it than the red zone are lost. */
static void set(struct code_state *s, uint8_t reg, struct code_value value)
{
	if (reg >= CODE_REGISTERS)
		return;
	s->regs[reg] = value;
	if (reg == UNWIND_SP && is_place(value))
		slots__drop(s, value.what, (int64_t)value.at - (int64_t)UNWIND_RED_ZONE);
}

static void push(struct code_state *s, struct code_value value)
{
	set(s, UNWIND_SP, plus(s->regs[UNWIND_SP], -8));
	store(s, s->regs[UNWIND_SP], value, true);
}

/* The value is read before the stack pointer moves: moving it forgets what lies below. */
static void pop(struct code_state *s, uint8_t to)
{
	struct code_value value = code_state__word(s, s->regs[UNWIND_SP]);

	set(s, UNWIND_SP, plus(s->regs[UNWIND_SP], 8));
	set(s, to, value);
}

/* Forgets everything that is relative to the base. */
static void drop_based(struct code_state *s)
{
	slots__drop(s, CODE_IS_BASED, INT64_MAX);
	for (uint32_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].value.what == CODE_IS_BASED)
			slots__remove(s, i--);
	for (uint32_t i = 0; i < CODE_REGISTERS; i++)
		if (s->regs[i].what == CODE_IS_BASED)
			s->regs[i] = any;
}

/* The stack pointer is now where only the running program knows: what follows is known by that. */
static void rebase(struct code_state *s, uint32_t at)
{
	drop_based(s);
	s->base = at;
	s->regs[UNWIND_SP] = (struct code_value){.what = CODE_IS_BASED};
}

/* A call: its return address and everything below the stack pointer is the callee's; callee-saved registers stay. */
static void called(struct code_state *s)
{
	if (is_place(s->regs[UNWIND_SP]))
		slots__drop(s, s->regs[UNWIND_SP].what, s->regs[UNWIND_SP].at);
	for (unsigned i = 0; i < CODE_REGISTERS; i++)
		if (!(UNWIND_KEPT >> i & 1) && i != UNWIND_SP)
			s->regs[i] = any;
}

/* The frame pointer is 0 in the deepest frame of a thread (psABI, 3.4.1), which has no caller to keep it for. */
static void zero(struct code_state *s, uint8_t reg)
{
	bool kept = false;

	set(s, reg, any);
	if (reg != UNWIND_BP)
		return;
	for (uint32_t i = 0; i < s->n_slots; i++)
		kept |= holds(s->slots[i].value, UNWIND_BP);
	for (uint32_t i = 0; i < CODE_REGISTERS; i++)
		kept |= holds(s->regs[i], UNWIND_BP);
	s->first |= !kept;
}

/* An instruction of which only the written registers and memory are known. */
static void other(struct code_state *s, const struct code_op *op)
{
	if (op->store < CODE_REGISTERS && is_place(s->regs[op->store]))
		slots__clear(s, plus(s->regs[op->store], op->value), op->size);
	for (uint8_t i = 0; i < CODE_REGISTERS; i++)
		if (op->writes >> i & 1)
			set(s, i, any);
}

void code_state__step(struct code_state *s, const struct code_op *op, uint32_t at)
{
	switch (op->kind) {
	case CODE_MOVE:
		set(s, op->to, s->regs[op->from]);
		break;
	case CODE_LEA:
		set(s, op->to, plus(s->regs[op->from], op->value));
		break;
	/* How much is taken off depends on the run: if it is the stack pointer, rebase() below gives it a new base. */
	case CODE_ALIGN:
		set(s, op->to, any);
		break;
	case CODE_ZERO:
		zero(s, op->to);
		break;
	case CODE_LOAD:
		set(s, op->to, code_state__word(s, plus(s->regs[op->from], op->value)));
		break;
	case CODE_STORE:
		store(s, plus(s->regs[op->to], op->value), s->regs[op->from], false);
		break;
	case CODE_PUSH:
		push(s, op->from < CODE_REGISTERS ? s->regs[op->from] : any);
		break;
	case CODE_PUSH_LOAD:
		push(s, code_state__word(s, plus(s->regs[op->from], op->value)));
		break;
	case CODE_POP:
		pop(s, op->to);
		break;
	case CODE_ENTER:
		push(s, s->regs[UNWIND_BP]);
		set(s, UNWIND_BP, s->regs[UNWIND_SP]);
		set(s, UNWIND_SP, plus(s->regs[UNWIND_SP], -op->value));
		break;
	case CODE_LEAVE:
		set(s, UNWIND_SP, s->regs[UNWIND_BP]);
		pop(s, UNWIND_BP);
		break;
	case CODE_CALL:
		called(s);
		break;
	case CODE_COMPARE:
	case CODE_NOTHING:
	case CODE_JUMP:
	case CODE_RETURN:
	case CODE_STOP:
		break;
	default:
		other(s, op);
	}
	if (s->regs[UNWIND_SP].what == CODE_IS_ANY)
		rebase(s, at);
}

/* --- joining paths --- */

static bool meet_value(struct code_value *a, struct code_value b)
{
	if (a->what == CODE_IS_ANY || same(*a, b))
		return false;
	*a = any;
	return true;
}

/* `first` and `signal` are the other way round: once true on one path, true behind it. */
bool code_state__meet(struct code_state *s, const struct code_state *o)
{
	struct code_state copy;
	bool changed = false;

	if (s->base != o->base) {
		/* Two bases: nothing that is known by either holds for both. */
		copy = *o;
		drop_based(&copy);
		o = &copy;
	}
	for (uint32_t i = 0; i < CODE_REGISTERS; i++)
		changed |= meet_value(&s->regs[i], o->regs[i]);
	for (uint32_t i = 0; i < s->n_slots;) {
		if (same(code_state__word(o, s->slots[i].place), s->slots[i].value)) {
			i++;
			continue;
		}
		slots__remove(s, i);
		changed = true;
	}
	if ((o->first && !s->first) || (o->signal && !s->signal)) {
		s->first |= o->first;
		s->signal |= o->signal;
		changed = true;
	}
	return changed;
}

/* --- as call frame information says it --- */

/* Where the caller's value of register `reg` is. A stack word above the stack pointer comes before the register itself:
 * assembly that is called may not keep the register. */
static struct cfi_location place_of(const struct code_state *s, uint8_t reg)
{
	const struct code_value *sp = &s->regs[UNWIND_SP];
	const struct code_slot *below = NULL, *based = NULL;
	uint8_t by;

	for (uint32_t i = 0; i < s->n_slots; i++) {
		const struct code_slot *slot = &s->slots[i];

		if (!holds(slot->value, reg))
			continue;
		if (slot->place.what == CODE_IS_BASED)
			based = slot;
		else if (sp->what == CODE_IS_FRAME && slot->place.at < sp->at)
			below = slot;
		else
			return (struct cfi_location){.how = CFI_OFFSET, .offset = slot->place.at};
	}
	if (holds(s->regs[reg], reg))
		return (struct cfi_location){.how = CFI_UNSPECIFIED};
	if (below)
		return (struct cfi_location){.how = CFI_OFFSET, .offset = below->place.at};
	by = s->regs[UNWIND_BP].what == CODE_IS_BASED ? UNWIND_BP : UNWIND_SP;
	if (based && s->regs[by].what == CODE_IS_BASED)
		return (struct cfi_location){
			.how = CFI_MEMORY, .reg = by, .offset = based->place.at - s->regs[by].at};
	return (struct cfi_location){.how = CFI_UNDEFINED};
}

/* The CFA from a stack word that has the frame's address: a function that realigns its stack saves it there. */
static bool by_word(const struct code_state *s, struct cfi_state *ret)
{
	static const uint8_t order[] = {UNWIND_BP, UNWIND_SP, UNWIND_BASE};

	for (uint32_t k = 0; k < sizeof(order); k++) {
		const struct code_value *by = &s->regs[order[k]];

		for (uint32_t i = 0; i < s->n_slots; i++) {
			const struct code_slot *slot = &s->slots[i];

			if (slot->value.what != CODE_IS_FRAME || !is_place(*by) ||
			    slot->place.what != by->what)
				continue;
			ret->cfa = CFA_DEREF;
			ret->reg = order[k];
			ret->offset = slot->place.at - by->at;
			ret->outer = -slot->value.at;
			return true;
		}
	}
	return false;
}

/* A frame pointer comes first: it does not change inside a function, so there are fewer rows than by the stack
 * pointer. */
static bool by_register(const struct code_state *s, struct cfi_state *ret)
{
	const struct code_value *bp = &s->regs[UNWIND_BP];
	int reg = -1;

	if (bp->what == CODE_IS_FRAME && holds(code_state__word(s, *bp), UNWIND_BP))
		reg = UNWIND_BP; /* an ordinary frame pointer */
	else if (s->regs[UNWIND_SP].what == CODE_IS_FRAME)
		reg = UNWIND_SP;
	else if (bp->what == CODE_IS_FRAME)
		reg = UNWIND_BP;
	else if (s->regs[UNWIND_BASE].what == CODE_IS_FRAME)
		reg = UNWIND_BASE;
	if (reg < 0)
		return false;
	ret->cfa = CFA_REGISTER;
	ret->reg = (uint8_t)reg;
	ret->offset = -(int64_t)s->regs[reg].at;
	return true;
}

/* Only the interrupted frame has these. */
static bool by_other(const struct code_state *s, struct cfi_state *ret)
{
	for (uint8_t i = 0; i < CODE_REGISTERS; i++) {
		if (s->regs[i].what != CODE_IS_FRAME)
			continue;
		ret->cfa = CFA_REGISTER;
		ret->reg = i;
		ret->offset = -(int64_t)s->regs[i].at;
		return true;
	}
	return false;
}

/* As glibc describes its own signal trampoline: everything is in the context that the kernel saved, from the stack
 * pointer on. */
static struct cfi_state in_context(void)
{
	static const uint8_t order[UNWIND_CONTEXT_WORDS] = UNWIND_CONTEXT_ORDER;
	struct cfi_state ret = {.cfa = CFA_DEREF, .reg = UNWIND_SP};

	for (unsigned i = 0; i < UNWIND_CONTEXT_WORDS; i++) {
		int64_t at = UNWIND_CONTEXT_OFFSET + 8 * (int64_t)i;
		struct cfi_location place = {.how = CFI_MEMORY, .reg = UNWIND_SP, .offset = at};

		if (order[i] == UNWIND_SP)
			ret.offset = at;
		else if (order[i] == UNWIND_BP)
			ret.places[CFI_FP] = place;
		else if (order[i] == UNWIND_PC)
			ret.places[CFI_RA] = place;
	}
	return ret;
}

/* The ways to the CFA in order of preference: registers that a walk keeps track of, a word that holds it, any other
 * register (which only the interrupted frame has). */
int code_state__cfi(const struct code_state *s, struct cfi_state *ret)
{
	*ret = (struct cfi_state){};
	if (s->signal) {
		*ret = in_context();
		return -1;
	}
	if (s->first)
		return UNWIND_UNSUPPORTED_CODE_FIRST;
	if (!by_register(s, ret) && !by_word(s, ret) && !by_other(s, ret))
		return UNWIND_UNSUPPORTED_CODE_STACK;
	ret->places[CFI_RA] = (struct cfi_location){.how = CFI_OFFSET, .offset = -8};
	ret->places[CFI_FP] = place_of(s, UNWIND_BP);
	ret->places[CFI_BASE] = place_of(s, UNWIND_BASE);
	return -1;
}
