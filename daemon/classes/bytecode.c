/* SPDX-License-Identifier: MIT */
/* Decoding bytecode up to one instruction (bytecode.h): forwards to keep the last instructions, then backwards from a
 * call, by their effects on the value stack, to the one that pushed the callee.
 *
 * Example: `a.f(x, y)` is LOAD_NAME a; LOAD_ATTR f; LOAD_NAME x; LOAD_NAME y; CALL 2. The callee is two items below the
 * top; going back over x and y leads to LOAD_ATTR f, whose owner is a. */
#include "classes/bytecode.h"

#include <string.h>

#define STEPS 64u /* instructions before a call that are searched for its callee */

struct step {
	const struct opcode *opcode;
	uint32_t argument, end; /* end: offset of the next one, after its inline caches */
};

/* A ring of the last instructions; n counts all of them. */
struct steps {
	struct step last[STEPS];
	uint32_t n;
};

static void add_name(struct bytecode_site *site, uint32_t name)
{
	memmove(site->names + 1, site->names, sizeof(site->names) - sizeof(site->names[0]));
	site->names[0] = name;
	site->n += site->n < BYTECODE_NAMES;
}

static bool is_name(const struct opcode *opcode)
{
	return opcode->kind >= OPCODE_NAME && opcode->kind <= OPCODE_GLOBAL_1;
}

static bool is_global(const struct opcode *opcode)
{
	return opcode->kind == OPCODE_GLOBAL || opcode->kind == OPCODE_GLOBAL_1;
}

static uint32_t name_of(const struct step *step)
{
	static const uint8_t shifts[] = {[OPCODE_NAME_1] = 1, [OPCODE_NAME_2] = 2, [OPCODE_GLOBAL_1] = 1};

	return step->argument >> shifts[step->opcode->kind];
}

/* A number that depends on the instruction's argument: its effect on the stack, or the callee's depth. */
static bool grown(int base, uint8_t growth, uint32_t argument, int64_t *ret)
{
	static const int8_t factors[] = {[GROWS_PLUS] = 1, [GROWS_MINUS] = -1, [GROWS_MINUS_2] = -2, [GROWS_BIT] = 1, [GROWS_MINUS_BIT] = -1};

	*ret = base + (int64_t)factors[growth] * (growth >= GROWS_BIT ? argument & 1 : argument);
	return growth != GROWS_UNKNOWN;
}

/* The instruction before number `at` that pushed the stack item `depth` below the top, or NULL. *ret_at: its number.
 * A jump among them would make the answer wrong: effects of jumps are GROWS_UNKNOWN, so the search ends there. */
static const struct step *producer(const struct steps *steps, uint32_t at, int64_t depth, uint32_t *ret_at)
{
	int64_t effect, pops, pushes;

	for (uint32_t back = 0; at && back < STEPS && at + STEPS > steps->n; back++) {
		const struct step *step = &steps->last[--at % STEPS];

		if (!grown(step->opcode->effect, step->opcode->growth, step->argument, &effect))
			return NULL;
		/* The net effect does not say how many items were popped. Instructions of expressions push one
		 * result; a load of a method may push two (the method, and its object or NULL). */
		if (step->opcode->flags & OPCODE_KEEPS)
			pops = -effect;
		else if (step->opcode->kind == OPCODE_NAME || step->opcode->kind == OPCODE_NAME_1)
			pops = 1;
		else if (step->opcode->kind == OPCODE_NAME_2)
			pops = 3;
		else
			pops = effect < 1 ? 1 - effect : 0;
		pushes = effect + pops;
		if (pushes > depth) {
			*ret_at = at;
			return step;
		}
		depth += pops - pushes;
	}
	return NULL;
}

/* `call` is the instruction after those in `steps`: what does it call? */
static void find_callee(const struct steps *steps, const struct opcode *call, uint32_t argument, struct bytecode_site *ret)
{
	const struct step *callee, *owner;
	int64_t depth;
	uint32_t at;

	callee = grown(call->depth, call->depth_growth, argument, &depth) ? producer(steps, steps->n, depth, &at) : NULL;
	if (!callee)
		return;
	ret->exact = true;
	ret->named = is_name(callee->opcode);
	if (!ret->named)
		return;
	ret->own = name_of(callee);
	if (is_global(callee->opcode))
		ret->builtin = callee->opcode->flags & OPCODE_BUILTIN  ? BUILTIN_YES
			       : callee->opcode->flags & OPCODE_MODULE ? BUILTIN_NO
								       : BUILTIN_MAYBE;
	/* The caches of 2 bytes end with an 8-byte pointer: 4 of them at least. */
	if (callee->opcode->flags & OPCODE_POINTER && callee->opcode->caches >= 4)
		ret->pointer = callee->end - 8;
	owner = is_global(callee->opcode) ? NULL : producer(steps, at, 0, &at);
	ret->owned = owner && is_name(owner->opcode);
	ret->of_global = owner && is_global(owner->opcode);
	if (ret->owned)
		ret->owner = name_of(owner);
}

/* EXTENDED_ARG shifts the argument of the instruction behind it by 8 bits, and may be repeated. It is no step of its
 * own. */
void bytecode__site(uint32_t minor, const uint8_t *code, uint32_t size, uint32_t offset, struct bytecode_site *ret)
{
	struct steps steps;
	uint32_t at, next, argument = 0;

	steps.n = 0;
	*ret = (struct bytecode_site){};
	if (minor < OPCODE_FIRST || minor - OPCODE_FIRST >= opcodes_n)
		return;
	for (at = 0; size >= 2 && at <= size - 2; at = next) {
		const struct opcode *opcode = &opcodes[minor - OPCODE_FIRST][code[at]];

		argument = argument << 8 | code[at + 1];
		next = at + 2 + 2 * opcode->caches;
		if (offset < next) {
			ret->kind = opcode->kind == OPCODE_CALL || opcode->kind == OPCODE_OPERATOR ? opcode->kind : OPCODE_OTHER;
			ret->callee = opcode->callee;
			if (opcode->kind == OPCODE_CALL)
				find_callee(&steps, opcode, argument, ret);
			return;
		}
		if (opcode->kind == OPCODE_EXTENDED)
			continue;
		steps.last[steps.n++ % STEPS] = (struct step){opcode, argument, next};
		if (is_name(opcode))
			add_name(ret, name_of(&steps.last[(steps.n - 1) % STEPS]));
		argument = 0;
	}
}
