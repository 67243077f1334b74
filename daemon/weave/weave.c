#include "weave/weave.h"

#define NONE UINT32_MAX

/* --- the two sides --- */

/* One time that the eval loop was entered: native frames [begin, end). */
struct loop {
	uint32_t begin, end;
};

static bool is_loop(uint8_t mark)
{
	return mark == WEAVE_EVAL || mark == WEAVE_HANDLER;
}

/* The next one at or outside of `at`. */
static bool next_loop(const struct weave_input *in, uint32_t at, struct loop *ret)
{
	while (at < in->n_native && !is_loop(in->native[at]))
		at++;
	if (at == in->n_native)
		return false;
	ret->begin = at;
	/* A handler jumps to the next one, so that two of them are two loops. */
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

static uint32_t count_groups(const struct weave_input *in)
{
	uint32_t at, n = 0;

	for (at = 0; at < in->n_python; at = group_end(in, at))
		n++;
	return n;
}

/* --- which eval loops have no Python frame --- */

struct plan {
	uint32_t loops, groups;
	uint32_t doubtful; /* loops that may be without: the leaf, and what destroys a frame's
			      contents */
	uint32_t unnamed;  /* loops that called something of the interpreter without a name */
	uint32_t clear;	   /* the innermost loop, not the first one, that is doubtful; or NONE */
	bool beyond;	   /* there are frames outside of the innermost loop */
	/* decided */
	bool all_doubtful; /* all doubtful ones are empty */
	uint32_t empty;	   /* this one is; or NONE */
};

static bool clears(const struct weave_input *in, const struct loop *loop)
{
	return loop->begin && in->native[loop->begin - 1] == WEAVE_CLEAR;
}

static struct plan survey(const struct weave_input *in)
{
	struct plan plan = {.groups = count_groups(in), .clear = NONE, .empty = NONE};
	struct loop loop = {};

	for (; next_loop(in, loop.end, &loop); plan.loops++) {
		plan.beyond = plan.beyond || loop.end < in->n_native;
		if (!loop.begin || clears(in, &loop)) {
			plan.doubtful++;
			if (plan.loops && plan.clear == NONE)
				plan.clear = plan.loops;
		} else if (in->native[loop.begin - 1] == WEAVE_UNNAMED) {
			plan.unnamed++;
		}
	}
	return plan;
}

/* `more` loops have no Python frame: which? false: it cannot be told. */
static bool choose(struct plan *plan, uint32_t more, bool *ret_guess)
{
	if (more == plan->doubtful && !plan->unnamed) {
		plan->all_doubtful = true;
		return true;
	}
	if (more > 1) {
		plan->all_doubtful = more == plan->doubtful;
		*ret_guess = plan->all_doubtful; /* an unnamed function may be another such place */
		return plan->all_doubtful;
	}
	if (!more) /* for those that count: each loop is known to have its frames */
		return true;
	/* Python code runs below a loop that is over only while its frame is destroyed; it spends
	 * more time there than a loop needs to begin. */
	plan->empty = plan->clear != NONE ? plan->clear : 0;
	*ret_guess = plan->doubtful > 1 || (plan->unnamed && plan->loops > 1);
	return true;
}

/* Pairs loops and groups from the end that is known. */
static bool decide(const struct weave_input *in, struct plan *plan, bool *ret_guess)
{
	uint32_t more = plan->loops > plan->groups ? plan->loops - plan->groups : 0;

	if (in->native_whole && plan->loops < plan->groups)
		return false;
	if (!in->python_whole) {
		/* Loops further out may have frames that are not known: only the inner end is. */
		*ret_guess = plan->doubtful && plan->groups;
		return true;
	}
	if (!in->native_whole && plan->loops <= plan->groups) {
		*ret_guess = plan->doubtful && plan->beyond;
		return true;
	}
	return choose(plan, more, ret_guess);
}

static bool is_empty(const struct weave_input *in, const struct plan *plan, uint32_t number,
		     const struct loop *loop)
{
	if (plan->all_doubtful)
		return !loop->begin || clears(in, loop);
	return number == plan->empty;
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

static void put_woven(const struct weave_input *in, const struct plan *plan, struct output *out)
{
	uint32_t number, group = 0, at = 0, python = 0, end;
	struct loop loop = {};
	bool cut_told = in->python_whole;

	for (number = 0; next_loop(in, loop.end, &loop); number++) {
		put(out, WEAVE_NATIVE, at, loop.begin);
		at = loop.end;
		if (is_empty(in, plan, number, &loop) || group == plan->groups) {
			put(out, WEAVE_NATIVE, loop.begin, loop.end);
			continue;
		}
		end = group_end(in, python);
		put(out, WEAVE_PYTHON, python, end);
		python = end;
		if (++group == plan->groups && !cut_told) {
			put_note(out, WEAVE_CUT_PYTHON);
			cut_told = true;
		}
	}
	put(out, WEAVE_NATIVE, at, in->n_native);
	if (!in->native_whole)
		put_note(out, WEAVE_CUT_NATIVE);
	put(out, WEAVE_PYTHON, python, in->n_python);
	if (!cut_told)
		put_note(out, WEAVE_CUT_PYTHON);
}

/* What is true in any case: what the innermost eval loop called is inside of all Python frames,
 * what called the outermost one is outside of them. */
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
			0; /* which frames are the eval loop's is not known: none can be placed */
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
		} else { /* a thread that runs Python and has no frame of it */
			put_woven(in, &plan, &out);
			put_note(&out, WEAVE_LEFT_OUT);
		}
	} else {
		put_woven(in, &plan, &out);
	}
	ret->n = out.n;
}
