/* SPDX-License-Identifier: MIT */
/* Two lists, both innermost first. Each entry into the eval loop on the native side (a `loop`) runs some Python
 * frames on the other (a `group`: it ends with the frame that was entered from C). Loops and groups are paired from
 * the end that is known: the outer one if both stacks are whole, else the inner one.
 *
 *    native   strlen, method_call, [eval loop], run_mod, [eval loop], main
 *    Python                        f, g (entry)          <module> (entry)
 *    woven    strlen, method_call, f, g,        run_mod, <module>,    main
 *
 * Invariant of every path: within each side the order is never changed. So a result that is wrong at all is wrong in
 * how the two sides interleave; and where that is not certain, `guess` or `loss` says so. */
#include "weave/weave.h"

#define NONE UINT32_MAX

/* --- the two sides --- */

/* One call of the eval loop: native frames [begin, end). */
struct loop {
	uint32_t begin, end;
};

static bool is_loop(uint8_t role)
{
	return role == WEAVE_EVAL || role == WEAVE_HANDLER;
}

/* The next eval loop at index `at` or further out. */
static bool next_loop(const struct weave_input *in, uint32_t at, struct loop *ret)
{
	while (at < in->n_native && !is_loop(in->native[at]))
		at++;
	if (at == in->n_native)
		return false;
	ret->begin = at;
	/* A handler jumps to the next handler, so two handler frames belong to two loops. */
	if (in->native[at] == WEAVE_HANDLER && at + 1 < in->n_native &&
	    in->native[at + 1] == WEAVE_EVAL)
		at++;
	ret->end = at + 1;
	return true;
}

/* The end of the group of Python frames that begins at `at`. */
static uint32_t group_end(const struct weave_input *in, uint32_t at)
{
	while (at < in->n_python) {
		if (in->python[at++].flags & PY_FRAME_ENTRY)
			break;
		if (at < in->n_python && in->python[at].flags & PY_FRAME_TSTATE)
			break;
	}
	return at;
}

/* The Python frames of one eval loop: [begin, end); empty if the loop has destroyed its last frame. Zero-filled: before
 * the first group. */
struct group {
	uint32_t begin, end;
	uint32_t empty; /* number of empty groups that were returned at `end` */
};

static bool next_group(const struct weave_input *in, struct group *group)
{
	uint32_t at = group->end, empty = 0;

	if (at)
		empty += py_frame_loops_outside(in->python[at - 1].flags);
	if (at < in->n_python)
		empty += py_frame_loops_inside(in->python[at].flags);
	group->begin = at;
	if (group->empty < empty) {
		group->empty++;
		return true;
	}
	if (at == in->n_python)
		return false;
	group->end = group_end(in, at);
	group->empty = 0;
	return true;
}

/* --- which eval loop has no group --- */

/* What a survey of both sides finds: how many loops and groups there are, and what limits the pairing. */
struct plan {
	uint32_t loops, groups;
	bool leaf;   /* the innermost frame is an eval loop: its Python frame may not be linked yet */
	bool beyond; /* there are native frames outside of a loop */
	bool one_begins; /* decided: the innermost loop begins or ends, so it has no group */
};

static struct plan survey(const struct weave_input *in)
{
	struct plan plan = {};
	struct group group = {};
	struct loop loop = {};

	while (next_group(in, &group))
		plan.groups++;
	for (; next_loop(in, loop.end, &loop); plan.loops++) {
		plan.beyond = plan.beyond || loop.end < in->n_native;
		plan.leaf = plan.leaf || !loop.begin;
	}
	return plan;
}

/* --- greenlets --- */

/* greenlet switches C stacks by copying them to and from the same addresses. A greenlet's own part ends where the
 * greenlet was started; frames further out belong to the greenlet that ran there last. Its Python frames are a chain of
 * their own, which ends at the same place. So: could the greenlet's stack begin at frame `at`? */
static bool may_begin(const struct weave_input *in, uint32_t at)
{
	if (in->native[at] == WEAVE_BASE)
		return true;
	/* greenlet has no symbols: a function of greenlet that calls foreign code and was called by greenlet. */
	return in->native[at] == WEAVE_SWITCHER && at && in->native[at - 1] != WEAVE_SWITCHER && at + 1 < in->n_native &&
	       in->native[at + 1] == WEAVE_SWITCHER;
}

/* The greenlet's own part of the stack: number of native frames. */
static uint32_t own_part(const struct weave_input *in)
{
	struct weave_input inside = *in;
	struct plan plan;

	for (uint32_t at = 0; at < in->n_native; at++) {
		if (!may_begin(in, at))
			continue;
		inside.n_native = at + 1;
		plan = survey(&inside);
		if (!in->python_whole ? plan.loops > plan.groups : plan.loops == plan.groups || plan.loops == plan.groups + 1)
			return at + 1;
	}
	return in->n_native;
}

/* A switch saves the C stack, copies another one to where it was, and then gives the thread state the other one's Python
 * frames. So for a while both sides are whole, but not of one greenlet. From 3.12 on it first links the Python frames without
 * the shims between them, which lie on the C stack. What the switch calls is certain, and that the Python frames are those of
 * one greenlet. */

/* Up to where the first n native frames are of a switch that may have overwritten the stack already; else 0. `ret_leaves`: it
 * has not yet. */
static uint32_t named_switch(const struct weave_input *in, uint32_t n, bool *ret_leaves)
{
	uint32_t at, end;

	*ret_leaves = false;
	for (at = 0; at < n && in->native[at] != WEAVE_SWITCH; at++)
		*ret_leaves = *ret_leaves || in->native[at] == WEAVE_LEAVE;
	for (end = at; end < n && in->native[end] == WEAVE_SWITCH;)
		end++;
	return end > at && !*ret_leaves ? end : 0;
}

/* greenlet has no symbols: the function that copies, and slp_switch(), which calls it. */
static uint32_t unnamed_switch(const struct weave_input *in, uint32_t n)
{
	for (uint32_t at = 0; at + 1 < n; at++)
		if (in->native[at] == WEAVE_SWITCHER && in->native[at + 1] == WEAVE_SWITCHER)
			return at + 2;
	return 0;
}

/* Do both sides agree, with `own` native frames, as while nothing is overwritten or linked anew? */
static bool agree(const struct weave_input *in, uint32_t own)
{
	struct weave_input inside = *in;
	struct plan plan;

	inside.n_native = own;
	plan = survey(&inside);
	return !plan.groups || (plan.loops == plan.groups && in->python_whole && (in->native_whole || own < in->n_native));
}

/* Number of native frames of a switch that is under way, or 0. `own`: of the greenlet's own part. */
static uint32_t switching_part(const struct weave_input *in, uint32_t own)
{
	struct loop first = {};
	uint32_t end = next_loop(in, 0, &first) && first.begin < own ? first.begin : own, n;
	bool leaves;

	n = named_switch(in, end, &leaves);
	if (n)
		return n;
	n = leaves ? end : unnamed_switch(in, end);
	return n && !agree(in, own) ? n : 0;
}

/* Of n native frames of a switch: is another stack being copied to where this one was? */
static bool overwrites(const struct weave_input *in, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (in->native[i] == WEAVE_LEAVE || in->native[i] == WEAVE_ARRIVE)
			return false;
	return true;
}

enum weave_greenlet weave__greenlet(struct weave_input *in)
{
	uint32_t own = own_part(in), n = switching_part(in, own);
	bool all = own == in->n_native;

	if (n) {
		if (in->n_python && in->python[0].flags & PY_FRAME_UNSURE && overwrites(in, n))
			in->n_python = 0;
		in->n_native = n;
		in->native_whole = false;
		return WEAVE_SWITCHES;
	}
	in->n_native = own;
	in->native_whole |= !all;
	return all ? WEAVE_NO_GREENLET : WEAVE_GREENLET;
}

/* Decides how loops and groups are paired, from the end of the stack that is complete. False: it cannot be decided. */
static bool decide(const struct weave_input *in, struct plan *plan, bool *ret_guess)
{
	if (in->native_whole && plan->loops < plan->groups)
		return false;
	if (!in->python_whole) {
		/* Outer loops may have Python frames that are missing: pair from the inner end. */
		*ret_guess = plan->leaf && plan->groups;
		return true;
	}
	if (plan->loops <= plan->groups) {
		*ret_guess = !in->native_whole && plan->leaf && plan->beyond;
		return true;
	}
	/* A loop without a linked frame runs no Python code, so it is the innermost. */
	plan->one_begins = true;
	return plan->loops - plan->groups == 1;
}

/* --- the stack --- */

struct output {
	struct weave_item *items;
	uint32_t n;
};

static void put(struct output *out, enum weave_kind kind, uint32_t from, uint32_t to)
{
	for (; from < to; from++)
		out->items[out->n++] = (struct weave_item){kind, from};
}

static void put_note(struct output *out, enum weave_kind kind)
{
	out->items[out->n++] = (struct weave_item){kind, 0};
}

/* Writes the merged stack: each loop's native frames are replaced by its group. */
static void put_woven(const struct weave_input *in, const struct plan *plan, struct output *out)
{
	uint32_t number, n = 0, at = 0;
	bool cut_done = in->python_whole;
	struct group group = {};
	struct loop loop = {};

	for (number = 0; next_loop(in, loop.end, &loop); number++) {
		put(out, WEAVE_NATIVE, at, loop.begin);
		at = loop.end;
		if ((plan->one_begins && !number) || !next_group(in, &group)) {
			put(out, WEAVE_NATIVE, loop.begin, loop.end);
			continue;
		}
		if (group.begin == group.end)
			put(out, WEAVE_NATIVE, loop.begin, loop.end);
		put(out, WEAVE_PYTHON, group.begin, group.end);
		if (++n == plan->groups && !cut_done) {
			put_note(out, WEAVE_CUT_PYTHON);
			cut_done = true;
		}
	}
	put(out, WEAVE_NATIVE, at, in->n_native);
	if (!in->native_whole)
		put_note(out, WEAVE_CUT_NATIVE);
	put(out, WEAVE_PYTHON, group.end, in->n_python);
	if (!cut_done)
		put_note(out, WEAVE_CUT_PYTHON);
}

/* If the pairing is unknown, two facts remain: native frames called by the innermost eval loop are inside of all Python
 * frames, and native frames that called the outermost one are outside of them. Those between are left out. */
static void put_apart(const struct weave_input *in, struct output *out)
{
	struct loop loop = {}, first = {in->n_native, in->n_native}, last = first;
	uint32_t n;

	for (n = 0; next_loop(in, loop.end, &loop); n++) {
		if (!n)
			first = loop;
		last = loop;
	}
	if (!n)
		first.begin =
			0; /* no eval loop is known: no native frame can be placed */
	put(out, WEAVE_NATIVE, 0, first.begin);
	put_note(out, WEAVE_LEFT_OUT);
	put(out, WEAVE_PYTHON, 0, in->n_python);
	if (!in->python_whole)
		put_note(out, WEAVE_CUT_PYTHON);
	else if (n && in->native_whole)
		put(out, WEAVE_NATIVE, last.end, in->n_native);
}

void weave(const struct weave_input *in, struct weave_item *items, struct weave_result *ret)
{
	struct output out = {items, 0};
	struct plan plan = survey(in);

	*ret = (struct weave_result){};
	if (plan.groups && (!in->eval_known || (!plan.loops && in->native_whole))) {
		ret->loss = LOSS_WEAVE_NO_EVAL;
		put_apart(in, &out);
	} else if (!decide(in, &plan, &ret->guess)) {
		ret->loss = LOSS_WEAVE_COUNT;
		ret->guess = false;
		if (plan.groups) {
			put_apart(in, &out);
		} else { /* eval loops, but no Python frame */
			put_woven(in, &plan, &out);
			put_note(&out, WEAVE_LEFT_OUT);
		}
	} else {
		put_woven(in, &plan, &out);
	}
	ret->n = out.n;
}

/* --- roles of native frames, by symbol: the eval loop, and greenlet's functions that switch C stacks --- */

#define EVAL "_PyEval_EvalFrameDefault"
/* Python/generated_cases.c.h, 3.14: a function for each instruction. */
#define HANDLER_PREFIX "_TAIL_CALL_"

/* Called for each function of the interpreter's module, not for each frame: its result is cached with the name. */
enum frame_role frame_role__of(const char *symbol)
{
	if (!symbol || !*symbol)
		return WEAVE_CODE;
	if (!strncmp(symbol, HANDLER_PREFIX, strlen(HANDLER_PREFIX)))
		return WEAVE_HANDLER;
	if (strcspn(symbol, ".") == strlen(EVAL) && !memcmp(symbol, EVAL, strlen(EVAL)))
		return WEAVE_EVAL;
	return WEAVE_CODE;
}

bool weave__switches(const char *file_name)
{
	return !strncmp(file_name, "_greenlet.", 10) || !strncmp(file_name, "greenlet.", 9);
}

static const struct {
	const char *part; /* of the symbol */
	enum frame_role role;
} switchers[] = {
	/* Calls the greenlet's Python function; g_initialstub() before greenlet 2.0 (static functions; src/greenlet). */
	{"inner_bootstrap", WEAVE_BASE},
	{"g_initialstub", WEAVE_BASE},
	/* And what g_switchstack() calls in turn: 3.12's frames are linked anew, the stack is saved; restored. */
	{"unexpose_frames", WEAVE_ARRIVE},
	{"expose_frames", WEAVE_LEAVE},
	{"slp_save_state", WEAVE_LEAVE},
	{"slp_switch", WEAVE_SWITCH},
	{"g_switchstack", WEAVE_SWITCH},
};

enum frame_role frame_role__of_switcher(const char *symbol)
{
	if (!symbol || !*symbol)
		return WEAVE_SWITCHER;
	for (size_t i = 0; i < sizeof(switchers) / sizeof(*switchers); i++)
		if (strstr(symbol, switchers[i].part))
			return switchers[i].role;
	return WEAVE_CODE;
}
