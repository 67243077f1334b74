/* Stacks of both sides as one tree: functions below their callers, the same by name and module as rows are. Each branch
 * has a series like a row, so that how sure its change is is known in the same way. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diff/internal.h"

#define ITEM(buf, type, i) (((type *)(buf).data)[i])
/* Narrower than this part of all is not seen in a picture. */
#define WIDTH_MIN (1.0 / 4800)

struct branch flame__branch(const struct diff *diff, uint32_t id)
{
	return ((const struct branch *)diff->branches.keys.data)[id];
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

static uint32_t known(const struct diff *diff, uint32_t stack)
{
	return stack < diff->of_stack.len / sizeof(uint32_t) ? ITEM(diff->of_stack, uint32_t, stack) : 0;
}

/* A stack may be as deep as a compiler's recursion: no recursion here. */
static int branch_of_stack(struct diff *diff, uint32_t stack, uint32_t *ret)
{
	size_t depth;
	uint32_t at, row, *cached;
	int err = branch_id(diff, UINT32_MAX, UINT32_MAX, &at);

	buf__clear(&diff->path);
	for (; stack != MODEL_ROOT && !known(diff, stack) && !err; stack = model__node(diff->model, stack).parent)
		err = buf__append(&diff->path, &stack, sizeof(stack));
	if (stack != MODEL_ROOT)
		at = known(diff, stack) - 1;
	for (depth = diff->path.len / sizeof(stack); depth-- && !err;) {
		stack = ITEM(diff->path, uint32_t, depth);
		err = diff__row_of_frame(diff, REPORT_FUNCTION, model__node(diff->model, stack).frame, &row);
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
	uint32_t i;
	int err = 0;

	for (i = (uint32_t)(all->len / sizeof(struct series)); i-- > BRANCH_ROOT + 1 && !err;)
		if (ITEM(*all, struct series, i).total)
			err = series__join(&ITEM(*all, struct series, flame__branch(diff, i).parent), &ITEM(*all, struct series, i));
	return err;
}

double flame__width(const struct diff *diff, uint32_t id)
{
	return (diff->flame[id].comparison.before + diff->flame[id].comparison.after) / 2;
}

/* Changes of a part that is on one side alone, too, are told: all of it came or went. */
static void prune(struct diff *diff)
{
	uint32_t i, n;

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
