/* SPDX-License-Identifier: MIT */
/* Stacks of both sides as one tree of functions, matched by name and module as rows are. Each branch has a
 * series like a row has, so the certainty of its change is computed the same way.
 *
 *     before: main > f > g    60 %        branch      before   after
 *             main > h        40 %        main         100      100
 *     after:  main > f > g    70 %        main > f      60       80
 *             main > f        10 %        main > f > g  60       70
 *             main > h        20 %        main > h      40       20
 *
 * While a recording is read, a branch has its own time only; flame__finish() adds that of the branches below
 * it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "diff/internal.h"
#include "export/places.h"

/* Branches narrower than this fraction would be invisible. */
#define WIDTH_MIN (1.0 / 4800)

struct branch flame__branch(const struct diff *diff, uint32_t id)
{
	return ITEM(diff->branches.keys, const struct branch, id);
}

void flame__epoch(struct diff *diff)
{
	buf__clear(&diff->of_stack);
}

static int branch_id(struct diff *diff, uint32_t parent, uint32_t row, uint32_t *ret)
{
	const struct branch branch = {parent, row};

	return intern__id(&diff->branches, &branch, sizeof(branch), ret);
}

/* The branch of a stack + 1; 0: not known yet in this epoch. */
static uint32_t known(const struct diff *diff, uint32_t stack)
{
	return stack < diff->of_stack.len / sizeof(uint32_t) ? ITEM(diff->of_stack, uint32_t, stack) : 0;
}

static bool is_python(const struct diff *diff, uint32_t stack)
{
	return model__frame(diff->model, model__node(diff->model, stack).frame).kind == FUNCTION_PYTHON;
}

/* Modules of the standard library, such as `site`, run before the script. */
static bool is_standard(const struct model_frame *frame)
{
	char package[1024];

	place__package(frame->kind, frame->source, frame->module, package, sizeof(package));
	return !strcmp(package, PLACE_STANDARD);
}

/* No Python frame is around it. Its cost is the depth of the stack, but only for functions called "<module>",
 * and until the script is found. */
static bool is_outermost(const struct diff *diff, uint32_t stack)
{
	for (stack = model__node(diff->model, stack).parent; stack != MODEL_ROOT; stack = model__node(diff->model, stack).parent)
		if (is_python(diff, stack))
			return false;
	return true;
}

/* The row of a stack's leaf. Functions of the script that was started get the module name "__main__", because the
 * script's name may differ between the sides. Without a file (`python -c`) the module is "(generated code)" on both
 * sides. */
static int row_of_stack(struct diff *diff, uint32_t stack, uint32_t *ret)
{
	uint32_t id = model__node(diff->model, stack).frame;
	struct model_frame frame = model__frame(diff->model, id);
	char module[1024];
	struct diff_key key;

	if (frame.kind != FUNCTION_PYTHON)
		return diff__row_of_frame(diff, REPORT_FUNCTION, id, ret);
	place__module(frame.kind, frame.source, frame.module, module, sizeof(module));
	if (!diff->script && *module != '(' && !strcmp(frame.name, "<module>") && !is_standard(&frame) &&
	    is_outermost(diff, stack)) {
		/* The first "<module>" outside of the standard library that nothing calls. */
		diff->script = strdup(module);
		if (!diff->script)
			return -ENOMEM;
	}
	if (!diff->script || strcmp(module, diff->script))
		return diff__row_of_frame(diff, REPORT_FUNCTION, id, ret);
	key = (struct diff_key){.by = REPORT_FUNCTION, .name = frame.name, .module = "__main__", .detail = ""};
	return diff__row(diff, &key, ret);
}

/* The branch of a stack. A loop, not a recursion: a stack may be as deep as a compiler's recursion. */
static int branch_of_stack(struct diff *diff, uint32_t stack, uint32_t *ret)
{
	uint32_t at, row, *cached;
	int err = branch_id(diff, UINT32_MAX, UINT32_MAX, &at);

	buf__clear(&diff->path);
	for (; stack != MODEL_ROOT && !known(diff, stack) && !err; stack = model__node(diff->model, stack).parent)
		err = buf__append(&diff->path, &stack, sizeof(stack));
	/* The loop ended at a stack whose branch is known: only the frames above it are new. */
	if (stack != MODEL_ROOT)
		at = known(diff, stack) - 1;
	for (size_t depth = diff->path.len / sizeof(stack); depth-- && !err;) {
		stack = ITEM(diff->path, uint32_t, depth);
		err = row_of_stack(diff, stack, &row);
		err = err ?: branch_id(diff, at, row, &at);
		cached = err ? NULL : diff__cached(&diff->of_stack, stack);
		if (!cached)
			return err ?: -ENOMEM;
		*cached = at + 1;
	}
	*ret = at;
	return err;
}

int flame__add(struct diff *diff, uint32_t stack, uint64_t ns)
{
	uint32_t branch;

	return branch_of_stack(diff, stack, &branch) ?: diff__add(diff, SERIES_STACK, branch, ns);
}

/* --- after the last recording --- */

static int add_below(struct diff *diff, struct diff_recording *recording)
{
	struct buf *all = &diff__measure(diff, recording)->series[SERIES_STACK];
	int err = 0;

	/* From the last to the first: a branch is complete when it is added to its parent, whose id is
	 * smaller. */
	for (uint32_t i = (uint32_t)(all->len / sizeof(struct series)); i-- > BRANCH_ROOT + 1 && !err;)
		if (ITEM(*all, struct series, i).total)
			err = series__join(&ITEM(*all, struct series, flame__branch(diff, i).parent), &ITEM(*all, struct series, i));
	return err;
}

double flame__width(const struct diff *diff, uint32_t id)
{
	return (diff->flame[id].comparison.before + diff->flame[id].comparison.after) / 2;
}

/* Keeps branches that are wide enough on average of both sides, so that those of one side alone are shown, too. */
static void prune(struct diff *diff)
{
	uint32_t i, n;

	/* Ends, as at last only the root is wide enough. */
	for (diff->least = flame__width(diff, BRANCH_ROOT) * WIDTH_MIN;; diff->least *= 2) {
		for (i = 0, n = 0; i < diff->branches.n; i++)
			n += diff->shown[i] = flame__width(diff, i) >= diff->least;
		if (n <= BRANCHES_MAX)
			return;
	}
}

int flame__finish(struct diff *diff)
{
	uint32_t i, root;
	int err = branch_id(diff, UINT32_MAX, UINT32_MAX, &root);

	diff->flame = calloc(diff->branches.n, sizeof(*diff->flame));
	diff->shown = calloc(diff->branches.n, sizeof(*diff->shown));
	if (!diff->flame || !diff->shown)
		return -ENOMEM;
	for (i = 0; i < diff->read && !err; i++)
		err = add_below(diff, &diff->recordings[i]);
	for (i = 0; i < diff->branches.n && !err; i++)
		err = diff__compare(diff, SERIES_STACK, i, &diff->flame[i]);
	if (!err)
		prune(diff);
	return err;
}
