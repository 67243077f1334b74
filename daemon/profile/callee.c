/* SPDX-License-Identifier: MIT */
/* What native code was called for: the callee at each place of a stack where a Python frame called native code.
 * docs/classes.md, "Which one is the callee", has the rule. An example, innermost first:
 *
 *    native   memcpy, list_append, [eval loop]      Python   f, at CALL of `rows.append`
 *    ->       memcpy, list_append, (callee) list.append, f
 *
 * Two sources must agree as far as they go: native frames whose function is a callable or a candidate for one
 * (classes/callables.h), and the bytecode at the Python frame (sites.c). What neither proves is left out; the last
 * resort, what the same call site called before, is used for leaves only.
 *
 *    callee__choose()  -> choose()          from native frames, outermost first, with names that the bytecode loads
 *                      -> by_instruction()  from the instruction alone, when the C function has no frame yet, or no more
 *                      -> guess()           from what was learned at this site */

#include "arch/arch.h"
#include "base/libc_name.h"
#include "classes/bytecode.h"
#include "profile/internal.h"

#define UFUNC_CALL "numpy.ufunc.__call__"
#define ASKED_LAST 256u /* attempts; an instruction that is not specialised by then will not be */

/* Does the code load this name near the call? `name` is `size` bytes of a longer text. */
static bool loads(const struct site *site, const char *name, size_t size)
{
	for (uint32_t i = 0; i < site->n; i++)
		if (strlen(site->names[i]) == size && !memcmp(site->names[i], name, size))
			return true;
	return false;
}

/* Is what it belongs to named as well: "zlib" of "zlib.crc32"? */
static bool owner_loaded(const struct site *site, const char *name)
{
	const char *last = callable__last_part(name);

	return last > name && loads(site, name, (size_t)(last - 1 - name));
}

/* The candidate whose name the code loads, nearest before the instruction; of several owners the one that is loaded, too, or else the
 * name without an owner. `direct`: the instruction itself called this function, so if the callee's load is known (`exact`), only its
 * name counts. */
static const char *by_name(const struct callable *callable, const struct site *site, bool direct)
{
	const struct candidate *candidates = callable->of->candidates + callable->first;
	uint32_t i = 0, end = site->n, j;
	const char *found = NULL;
	bool several = false;

	if (direct && site->exact) {
		i = site->own ? site->own - 1u : 0;
		end = site->own;
	}
	for (; !found && i < end; i++)
		for (j = 0; j < callable->n; j++) {
			const char *name = candidates[j].name;

			if (candidates[j].deep == CANDIDATE_CALLED || strcmp(callable__last_part(name), site->names[i]) ||
			    (found && (!strcmp(name, found) || owner_loaded(site, name) < owner_loaded(site, found))))
				continue;
			several = found && owner_loaded(site, name) == owner_loaded(site, found);
			found = name;
		}
	return several ? callable__last_part(found) : found;
}

/* The name of the nearest candidates (by number of jumps), or NULL if they have several names, or call what they were given. `slots`: of
 * slots alone, else of all others; `called`: candidates that a slot calls count, too. */
static const char *only(const struct callables *callables, const struct callable *callable, bool slots, bool called)
{
	const struct candidate *found = NULL;
	bool several = false;

	for (uint32_t i = 0; i < callable->n; i++) {
		const struct candidate *candidate = &callables->candidates[callable->first + i];

		if (slots != (candidate->kind == CALLABLE_SLOT) || (!called && candidate->deep == CANDIDATE_CALLED) ||
		    (found && candidate->deep > found->deep))
			continue;
		if (found && candidate->deep == found->deep && strcmp(candidate->name, found->name)) {
			several = true;
			continue;
		}
		if (!found || candidate->deep < found->deep)
			several = false;
		found = candidate;
	}
	return found && !several && class__forwards(found->name) == FORWARDS_NOT ? found->name : NULL;
}

/* "type.__call__" of an object that is callable because of its type (a ufunc); NULL: this is no such function. A
 * method of the type may jump there as well; if the callee was loaded by that method's name, by_name() has found it
 * before. */
static const char *instance(const struct callable *callable, const struct site *site)
{
	const struct candidate *candidates = callable->of->candidates + callable->first;
	const char *found = NULL;

	for (uint32_t i = 0; site->kind == OPCODE_CALL && !callable->exported && i < callable->n; i++) {
		if (candidates[i].kind != CALLABLE_INSTANCE || candidates[i].deep > 1)
			continue;
		if (class__forwards(candidates[i].name) != FORWARDS_NOT || (found && strcmp(found, candidates[i].name)))
			return NULL;
		found = candidates[i].name;
	}
	return found;
}

/* Is this a slot to which a function of another name jumps? `abs(x)` of a negative int ends in int.__neg__. A call
 * never means the slot. */
static bool is_jumped_to(const struct callable *callable)
{
	const struct candidate *candidates = callable->of->candidates + callable->first;

	if (!callable->name || callable->kind != CALLABLE_SLOT || !strcmp(callable__last_part(callable->name), "__call__"))
		return false;
	for (uint32_t i = 0; i < callable->n; i++)
		if (candidates[i].deep && candidates[i].deep != CANDIDATE_CALLED && strcmp(candidates[i].name, callable->name))
			return true;
	return false;
}

/* How far a function without a name of its own is identified. */
enum trust {
	TRUST_NAMES,    /* what the bytecode names */
	TRUST_JUMPS,    /* or the only one that jumps to it */
	TRUST_EXPORTED, /* even if others may call it */
};

/* The name by which Python code at this site called the function; NULL: it cannot be decided, or it is none.
 * `direct`: the instruction called it; `shared`: it may be a helper that something else called. */
static const char *table_name(struct profile *profile, const struct record_header *header, struct site *site,
			      const struct callable *callable, bool shared, bool direct, enum trust trust)
{
	const struct callables *callables = callable->of;
	const char *name;

	if (callable->name && callable->n <= 1) /* no other candidate */
		return callable->name;
	sites__read(profile, header, site, false);
	name = site->kind == OPCODE_CALL ? by_name(callable, site, direct) : NULL;
	if (!name && site->kind == OPCODE_CALL && is_jumped_to(callable))
		return NULL;
	if (name || callable->name)
		return name ? name : callable->name;
	name = shared ? NULL : instance(callable, site);
	if (name)
		return name;
	if (shared)
		return NULL;
	if (direct && site->kind == OPCODE_OPERATOR)
		return callable->exported && trust == TRUST_NAMES ? NULL : only(callables, callable, true, trust != TRUST_NAMES);
	if (direct && trust == TRUST_NAMES)
		return NULL;
	return callable->exported && trust != TRUST_EXPORTED ? NULL : only(callables, callable, false, false);
}

/* The call before the return address `pc`. */
static struct known_call known_call(const struct profile *profile, const struct record_header *header, uint64_t pc)
{
	struct known_call known = {.since = profile->stack->now.stable, .named = true};
	struct codemap *codemap = profile->options.codemap;
	struct code_location location = {.module_name = "", .name = ""};
	uint8_t code[MACHINE_CALL_BYTES] = {};
	const struct callable *callable;
	uint64_t target;

	if (codemap__read(codemap, &header->task, header->time, pc - sizeof(code), code, sizeof(code)))
		return known; /* of no address: it is read again */
	known.pc = pc;
	known.named = machine__transfer(code, sizeof(code), pc - sizeof(code), &target) == MACHINE_CALL;
	if (!known.named || codemap__locate(codemap, &header->task, target, header->time, &location))
		return known;
	callable = location.callable;
	if (callable && callable->dispatches && callable->start == location.vaddr)
		known.dispatches = callable->of;
	return known;
}

/* Is the call into this native frame direct (`call x`)? Functions of tables are called through a pointer (`call
 * *pointer`, or `jmp *pointer` of a dispatcher), so a direct call means that other C code called a helper. True as
 * well if the caller's code cannot be read. */
static bool is_named_by_caller(const struct profile *profile, const struct record_header *header, uint32_t frame)
{
	const struct stack *stack = profile->stack;
	struct known_call *known;
	uint64_t pc;

	if (frame + 1 >= stack->n_pcs || (pc = stack->pcs[frame + 1]) & NATIVE_EXACT)
		return true;
	known = &profile->stack->calls[pc % KNOWN_CALLS];
	if (known->pc != pc || known->since != stack->now.stable)
		*known = known_call(profile, header, pc);
	return known->named && (known->dispatches != stack->callables[frame]->of || stack->callables[frame]->dispatched);
}

/* Is the function of native frame number `frame` here as a helper that other code called? */
static bool is_helper(const struct profile *profile, const struct record_header *header, uint32_t frame)
{
	const struct callable *callable = profile->stack->callables[frame];

	return callable->shared && (callable->pointed || is_named_by_caller(profile, header, frame));
}

/* The name for native frame number `frame`, whose function is a callable; of a ufunc its own name, if the site says
 * which one it is. */
static const char *name_of(struct profile *profile, const struct record_header *header, struct site *site, uint32_t frame, bool direct,
			   enum trust trust)
{
	const struct callable *callable = profile->stack->callables[frame];
	bool shared = is_helper(profile, header, frame);
	const char *name = table_name(profile, header, site, callable, shared, direct, trust), *ufunc = NULL;

	if (name && direct && !strcmp(name, UFUNC_CALL)) {
		sites__read(profile, header, site, false);
		if (site->kind == OPCODE_CALL)
			ufunc = sites__ufunc(profile, header, site);
	}
	return ufunc ? ufunc : name;
}

/* Kinds from MACHINERY on are no callees, but parts of the interpreter. */
static bool is_callable(const struct callable *callable)
{
	return callable && callable->kind < CALLABLE_MACHINERY;
}

/* Are these names of one method, once without its type? What several types' methods end in (PyBool_FromLong) does not say whose it
 * was. */
static bool differ_by_type(const char *a, const char *b)
{
	const char *last_a = callable__last_part(a), *last_b = callable__last_part(b);

	return (last_a == a || last_b == b) && !strcmp(last_a, last_b);
}

/* Remembers what the site called. A site nearly always calls the same; one that does not is never guessed
 * (`several`). */
static void learn(struct site *site, const char *name)
{
	const char *before = site->learned;

	if (before && strcmp(before, name) && !(name == site->object && !strcmp(before, UFUNC_CALL))) {
		if (differ_by_type(before, name))
			name = callable__last_part(name);
		else
			site->several = true;
	}
	site->learned = name;
}

/* How sure the outermost callee that was found is. */
enum outermost {
	OUTERMOST_CALLED,
	OUTERMOST_SLOT,  /* a slot that no call is meant for */
	OUTERMOST_INNER, /* something that another function called, whose name is not known (one of max, min) */
};

/* Was one of several called, of which it is not known which one? Not if other code called the function (_PyObject_MakeTpCall), nor if
 * each of them calls what it was given (cfunction_call_varargs, to which 3.8's calls of objects jump): then that comes further in. */
static bool is_one_of_several(const struct profile *profile, const struct record_header *header, uint32_t frame)
{
	const struct callable *callable = profile->stack->callables[frame];
	const struct candidate *candidates = callable->of->candidates + callable->first;

	if (callable->forwards || callable->n <= 1 || is_helper(profile, header, frame))
		return false;
	for (uint32_t i = 0; i < callable->n; i++)
		if (!class__forwards(candidates[i].name))
			return true;
	return false;
}

/* Walks items [begin, end) from the outermost to the innermost. The first callable with a name is what the
 * instruction called (`outermost`); further ones count only inside of functions that forward (functools.partial).
 * stack->chosen[] gets the inner ones' names. What runs below a dealloc was called by no instruction. */
static const char *choose(struct profile *profile, struct site *site, const struct record_header *header, uint32_t begin,
			  uint32_t end, enum trust trust, enum outermost *ret_kind)
{
	struct stack *stack = profile->stack;
	const char *name, *outermost = NULL;
	bool wanted = true, direct = true, nameless = false, destroys = false;

	*ret_kind = OUTERMOST_CALLED;
	for (uint32_t i = end; i > begin; i--) {
		const struct callable *callable = stack->callables[stack->items[i - 1].index];

		stack->chosen[i - 1 - begin] = NULL;
		destroys |= callable && callable->kind == CALLABLE_DEALLOC;
		if (destroys || !is_callable(callable) || !(wanted || callable->forwards))
			continue;
		if (callable->of->builtins)
			profile->sites.builtins = callable->of;
		if (callable->forwards == FORWARDS_SILENTLY) {
			wanted = true;
			continue;
		}
		name = name_of(profile, header, site, stack->items[i - 1].index, direct, trust);
		if (!name) {
			nameless = nameless || is_one_of_several(profile, header, stack->items[i - 1].index);
			continue;
		}
		if (outermost) {
			stack->chosen[i - 1 - begin] = name;
		} else {
			outermost = name;
			if (nameless)
				*ret_kind = OUTERMOST_INNER;
			else if (callable->name && callable->kind == CALLABLE_SLOT && strcmp(callable__last_part(name), "__call__"))
				*ret_kind = OUTERMOST_SLOT;
		}
		wanted = callable->forwards;
		direct = false;
	}
	return outermost;
}

/* The name of the C function that the callee's method descriptor holds (site->function). */
static const char *name_of_function(struct profile *profile, const struct record_header *header, const struct site *site)
{
	struct codemap *codemap = profile->options.codemap;
	struct code_location location = {.module_name = "", .name = ""};
	const char *name;

	if (codemap__find(codemap, &header->task, site->function, header->time, &location) || !location.callable ||
	    location.callable->start != location.vaddr)
		return NULL;
	name = by_name(location.callable, site, true);
	return name ? name : location.callable->name;
}

/* Is a C function being called? If native code calls a Python function, that one's frame shows sooner or later
 * (CALLABLE_ENTRY); if the eval loop enters one by itself (3.11+), none of the machinery that calls C functions is
 * in the stack. */
static bool calls_c(const struct profile *profile, struct site *site, uint32_t begin, uint32_t end)
{
	const struct stack *stack = profile->stack;
	const struct callable *callable = NULL;

	for (uint32_t i = begin; i < end; i++) {
		callable = stack->callables[stack->items[i].index];
		site->python |= callable && callable->kind == CALLABLE_ENTRY;
	}
	return !site->python && (!site->inlines || (callable && callable->kind == CALLABLE_MACHINERY));
}

/* Repeats that get rarer: the 1st, 4th, 16th, 64th ... time. */
static bool is_power_of_four(uint32_t n)
{
	return n & 0x55555554u && !(n & (n - 1));
}

/* Is this frame code of an extension or a library? Its own frames say what it was called for. */
static bool is_foreign(const struct profile *profile, uint32_t frame)
{
	const struct tables *tables = &profile->tables;
	struct function_row row;

	if (tables->frame_states[frame] == FRAME_PENDING) /* not known yet: taken for one */
		return true;
	row = tables__function_row(tables, tables->frames[frame].function);
	return row.kind == FUNCTION_JIT || (row.kind == FUNCTION_NATIVE && !libc_name__is(row.module));
}

/* Does code of an extension or a library run, which the names of the interpreter's functions cannot explain? */
static bool has_foreign(const struct profile *profile, uint32_t begin, uint32_t end)
{
	const struct stack *stack = profile->stack;

	for (uint32_t i = begin; i < end; i++)
		if (is_foreign(profile, stack->frames[stack->items[i].index]))
			return true;
	return false;
}

/* What a call instruction calls or is about to call, by the instruction alone: what it is specialised for, the
 * function of its cached descriptor, or the builtin that it loads by name. *ret_certain false: it rests on the
 * absence of other code in the stack. */
static const char *by_instruction(struct profile *profile, const struct record_header *header, struct site *site,
				  uint32_t begin, uint32_t end, bool *ret_certain)
{
	const struct callables *builtins = profile->sites.builtins;
	const char *name = NULL, *own = site->own && builtins ? site->names[site->own - 1] : NULL;
	bool c = calls_c(profile, site, begin, end);

	*ret_certain = true;
	if (site->callee) {
		name = site->callee;
	} else if (site->function) {
		name = name_of_function(profile, header, site);
	} else if (own && site->builtin == BUILTIN_YES) {
		name = callables__named(builtins, own);
	} else if (own && c && !site->learned && site->builtin != BUILTIN_NO && !has_foreign(profile, begin, end)) {
		*ret_certain = false;
		name = site->builtin == BUILTIN_MAYBE ? callables__named(builtins, own) : callables__method(builtins, own);
	}
	/* Instructions that were not specialised yet are read again, at longer and longer intervals. */
	if (!name && !site->learned && site->inlines && own && site->asked < ASKED_LAST)
		sites__read(profile, header, site, is_power_of_four(++site->asked));
	return name;
}

/* For a leaf whose native frames say nothing: what this site called before, if that was always the same, or else the
 * only function that jumps to what runs. */
static const char *guess(struct profile *profile, const struct record_header *header, struct site *site, uint32_t end)
{
	enum outermost slot;
	const char *name;

	if (site->learned && !site->several && !site->python && !has_foreign(profile, 0, end))
		return site->learned;
	/* A function that one method alone jumps to may be called by others, such as what calls Python functions
	 * (functools.partial). */
	name = site->learned ? NULL : choose(profile, site, header, 0, end, site->python ? TRUST_NAMES : TRUST_JUMPS, &slot);
	return !name || (site->kind == OPCODE_CALL && slot == OUTERMOST_INNER) ? NULL : name;
}

/* Is the outermost native frame one in which the eval loop passes the GIL or does what is pending? It does so after
 * an instruction, when a call has returned: then nothing is called. */
static bool is_between(const struct stack *stack, uint32_t begin, uint32_t end)
{
	const struct callable *callable = begin < end ? stack->callables[stack->items[end - 1].index] : NULL;

	return callable && callable->kind == CALLABLE_SWITCHER;
}

/* What a function called that was dropped was not called by the instruction. */
static void drop_chosen(struct profile *profile, uint32_t n)
{
	memset(profile->stack->chosen, 0, n * sizeof(profile->stack->chosen[0]));
}

/* The result goes through these steps: native frames (choose), then for a leaf what the instruction says (by_instruction),
 * then a slot that no call is meant for is refused, then learning, then a guess. `leaf`: nothing runs further in, so
 * the call may be about to happen, or be over. What is learned comes from proofs only (`certain`). */
void callee__choose(struct profile *profile, const struct record_header *header, const struct py_frame *frame, uint32_t begin,
		    uint32_t end, const char **ret_outermost)
{
	struct site *site = sites__of(profile, frame), none = {.key = frame->code, .offset = -1};
	const char *outermost, *name = NULL;
	uint8_t kind = OPCODE_OTHER;
	enum outermost slot;
	bool certain = true, leaf = !begin; /* if something runs further in, only native frames prove what was called */

	*ret_outermost = NULL;
	if (is_between(profile->stack, begin, end)) {
		drop_chosen(profile, end - begin);
		return;
	}
	if (!site)
		site = &none;
	outermost = choose(profile, site, header, begin, end, TRUST_NAMES, &slot);
	if (outermost ? slot != OUTERMOST_CALLED : leaf) { /* else the instruction decides nothing */
		sites__read(profile, header, site, false);
		kind = site->kind;
	}
	if (!leaf && !outermost)
		site->python |= profile->stack->items[begin - 1].kind == WEAVE_PYTHON;
	if (leaf && kind == OPCODE_CALL && !site->several && !site->python)
		name = by_instruction(profile, header, site, begin, end, &certain);
	if (name)
		outermost = name;
	else if (kind == OPCODE_CALL && slot && !(outermost = choose(profile, site, header, begin, end, TRUST_EXPORTED, &slot)))
		outermost = choose(profile, site, header, begin, end, TRUST_NAMES, &slot);
	if (!name && kind == OPCODE_CALL && slot == OUTERMOST_INNER) {
		outermost = NULL;
		drop_chosen(profile, end - begin);
	} else if (!name && leaf && kind == OPCODE_OPERATOR && !outermost) {
		outermost = site->callee;
	}
	if (outermost && certain && (!slot || name || kind == OPCODE_OPERATOR))
		learn(site, outermost);
	/* On the way into the call, or back: only frames of the interpreter itself are there. */
	if (leaf && !outermost && kind != OPCODE_OTHER)
		outermost = guess(profile, header, site, end);
	if (!outermost)
		drop_chosen(profile, end - begin);
	*ret_outermost = outermost;
}
