/* SPDX-License-Identifier: MIT */
/* Adds one stack and its time to the rows of each table. Called once per epoch for each stack that has time,
 * so the cost is the length of the stack times the number of tables, not the number of samples.
 *
 * A stack is a path in the model's tree, from the leaf to the root. It is copied to report->stack once,
 * without the frames that are not shown; index 0 is the leaf. */
#include <errno.h>

#include "base/limits.h"
#include "export/callee.h"
#include "export/filter.h"
#include "export/shown.h"
#include "report/internal.h"

/* Cached answers of focus_of(), by frame; 0: not yet asked. */
#define FOCUS_KNOWN 1u
#define FOCUS_CALLERS 2u
#define FOCUS_CALLEES 4u

#define ROW_ITSELF "(itself)"
#define ROW_OUTERMOST "(outermost)"

static uint32_t frame_at(const struct report *report, uint32_t i)
{
	return ITEM(report->stack, const uint32_t, i);
}

/* For tables with a row for each frame (function, line, package ...). limits__walk() bounds what a hostile
 * recording can cost: many stacks of thousands of frames. */
static int add_frames(struct report *report, struct table *table, uint32_t n,
		      const struct times *times)
{
	uint32_t i, row;
	int err = limits__walk(n);

	table__stack(table);
	for (i = 0; i < n && !err; i++) {
		err = table__frame(table, report->model, frame_at(report, i), &row);
		if (err)
			break;
		table__inclusive(table, row, times);
		if (!i)
			table__exclusive(table, row, times);
	}
	return err;
}

/* A call of a callee in a stack: the callee's row, and the frame that called it. */
struct call {
	uint32_t row, caller;
};

/* The Python line that made the outermost call of a callee gets the time, so that the lines of a callee add up to
 * its time. `leaf`: the callee is the leaf. */
static int add_caller(struct report *report, const struct call *call, bool leaf, const struct times *times)
{
	struct table *lines = &report->below[REPORT_CALLEE];
	struct model_frame frame = model__frame(report->model, call->caller);
	struct row_key key = table__frame_key(&frame);
	uint32_t line;
	int err;

	/* The line says where it is; the caller's module would only divide its rows. */
	key.module = "";
	key.parent = call->row;
	err = table__row(lines, &key, &line);
	if (err)
		return err;
	times__add(&table__times(lines, line, report->read)->inclusive, times);
	if (leaf)
		table__exclusive(lines, line, times);
	return 0;
}

/* The calls of callees in a stack, innermost first. *ret_leaf: the innermost one is the leaf. */
static int find_calls(struct report *report, uint32_t n, struct buf *ret, bool *ret_leaf)
{
	struct table *table = &report->tables[REPORT_CALLEE];
	struct callee_finder finder = CALLEE_FINDER_NONE;
	uint32_t i, callee;
	bool first = true;
	struct call call;
	int err = 0;

	*ret_leaf = false;
	for (i = 0; i < n && !err; i++) {
		uint32_t frame = frame_at(report, i);
		struct model_frame row = model__frame(report->model, frame);

		if (callee_finder__frame(&finder, &row, frame, &callee)) {
			call.caller = frame;
			err = table__frame(table, report->model, callee, &call.row);
			err = err ?: buf__append(ret, &call, sizeof(call));
			*ret_leaf |= first;
		}
		/* Calls beyond the first Python frame are those of outer frames, not of the leaf. */
		first &= row.kind != FUNCTION_PYTHON;
	}
	return err;
}

static int add_callees(struct report *report, uint32_t n, const struct times *times)
{
	struct table *table = &report->tables[REPORT_CALLEE];
	struct buf *calls = &report->calls;
	const struct call *call;
	uint32_t i, leaf_row = ROW_NONE;
	bool leaf;
	int err;

	buf__clear(calls);
	err = find_calls(report, n, calls, &leaf);
	if (err || !calls->len)
		return err;
	call = (const struct call *)calls->data;
	if (leaf) { /* the innermost call is the leaf's */
		leaf_row = call->row;
		table__exclusive(table, leaf_row, times);
	}
	table__stack(table);
	/* From the outermost: of a callee that is several times in the stack, the first one counted is the
	 * outermost call. */
	for (i = (uint32_t)(calls->len / sizeof(*call)); i-- && !err;) {
		if (table__inclusive(table, call[i].row, times))
			err = add_caller(report, &call[i], call[i].row == leaf_row, times);
	}
	return err;
}

/* --- callers and callees of one function --- */

/* Does the function match --callers or --callees? The answer is cached by frame. */
static int focus_of(struct report *report, uint32_t frame, uint8_t *ret)
{
	const struct report_options *options = report->options;
	uint8_t *known = buf__at(&report->focused, sizeof(*known), frame);
	const char *name;

	if (!known)
		return -ENOMEM;
	*ret = *known;
	if (*ret)
		return 0;
	*ret = FOCUS_KNOWN;
	name = model__frame(report->model, frame).name;
	if (options->callers && pattern__function(options->callers, name))
		*ret |= FOCUS_CALLERS;
	if (options->callees && pattern__function(options->callees, name))
		*ret |= FOCUS_CALLEES;
	*known = *ret;
	return 0;
}

static int note_row(struct table *table, const char *words, uint32_t *ret)
{
	const struct row_key key = row_key__named(words, FUNCTION_NOTE);

	return table__row(table, &key, ret);
}

/* Adds the caller or callee of the function: the frame next to frame `at`, the function's outermost frame in the
 * stack (callers) or its innermost (callees). */
static int add_beside(struct report *report, struct table *table, uint32_t at, uint32_t n,
		      const struct times *times)
{
	bool callers = table->by == REPORT_CALLERS;
	uint32_t other = callers ? at + 1 : at - 1, row; /* n or UINT32_MAX: there is none */
	int err;

	if (other < n)
		err = table__frame(table, report->model, frame_at(report, other), &row);
	else
		err = note_row(table, callers ? ROW_OUTERMOST : ROW_ITSELF, &row);
	if (err)
		return err;
	table__stack(table);
	table__inclusive(table, row, times);
	/* Exclusive time of a caller: the function itself is the leaf. Of a callee: the callee is the leaf,
	 * or the function itself is ("(itself)"). */
	if (callers ? at == 0 : other == 0 || other >= n)
		table__exclusive(table, row, times);
	times__add(&table->totals[table->file], times);
	return 0;
}

/* Finds the function in the stack, outermost occurrence for callers, innermost for callees, so that recursion
 * counts once; then adds the frame beside it. */
static int add_focus(struct report *report, uint32_t n, const struct times *times)
{
	uint32_t i, outermost = ROW_NONE, innermost = ROW_NONE, row;
	uint8_t focus = 0, leaf = 0;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		err = focus_of(report, frame_at(report, i), &focus);
		if (focus & FOCUS_CALLERS)
			outermost = i;
		if (focus & FOCUS_CALLEES && innermost == ROW_NONE)
			innermost = i;
		/* What the leaf is, for the exclusive time of the function. */
		leaf = i ? leaf : focus;
	}
	for (i = 0; i < 2 && !err; i++) {
		uint32_t at = i ? innermost : outermost;

		if (at == ROW_NONE)
			continue;
		/* The row of the function itself: one, named as the pattern, though several functions may
		 * match it. */
		err = note_row(&report->focus[i],
			       i ? report->options->callees : report->options->callers, &row);
		table__stack(&report->focus[i]);
		if (!err)
			table__inclusive(&report->focus[i], row, times);
		if (!err && leaf & (i ? FOCUS_CALLEES : FOCUS_CALLERS))
			table__exclusive(&report->focus[i], row, times);
		err = err
			      ?: add_beside(report,
					    &report->tables[i ? REPORT_CALLEES : REPORT_CALLERS],
					    at, n, times);
	}
	return err;
}

/* Collects the frames of a stack that are shown in report->stack; `focus`: also hidden ones that --callers or
 * --callees name. */
static int find_frames(struct report *report, uint32_t stack, bool focus, uint32_t *ret_n)
{
	uint8_t how = FOCUS_KNOWN;
	bool alone = model__is_alone(report->model, stack), shown;
	uint64_t walked = 0;
	int err = 0;

	buf__clear(&report->stack);
	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(report->model, stack);
		uint8_t kind = model__frame(report->model, node.frame).kind;

		walked++;
		stack = node.parent;
		/* `alone`: the stack has no Python frame, so interpreter frames are all there is to show.
		 * Only for the leaf. */
		shown = report->options->native_frames || frame__is_shown(kind, alone);
		if (focus && !shown) {
			err = focus_of(report, node.frame, &how);
			shown = how != FOCUS_KNOWN;
		}
		alone = false;
		if (shown)
			err = err ?: buf__append(&report->stack, &node.frame, sizeof(node.frame));
	}
	*ret_n = (uint32_t)(report->stack.len / sizeof(uint32_t));
	return err ?: limits__walk(walked);
}

int stacks__add(struct report *report, uint32_t stack, const struct times *times)
{
	static const enum report_by of_frames[] = {REPORT_FUNCTION, REPORT_LINE, REPORT_PACKAGE,
						   REPORT_MODULE, REPORT_FILE};
	uint32_t n;
	int err = find_frames(report, stack, false, &n);

	for (size_t i = 0; i < sizeof(of_frames) / sizeof(of_frames[0]) && !err; i++) {
		struct table *table = &report->tables[of_frames[i]];

		if (!report__wants(report, of_frames[i]))
			continue;
		err = add_frames(report, table, n, times);
		times__add(&table->totals[table->file], times);
	}
	if (!err && report__wants(report, REPORT_CALLEE)) {
		err = add_callees(report, n, times);
		times__add(&report->tables[REPORT_CALLEE].totals[report->read], times);
		times__add(&report->below[REPORT_CALLEE].totals[report->read], times);
	}
	if (!err && (report->options->callers || report->options->callees))
		/* Collected again, as --callers may name a frame that the other tables hide, such as
		 * _PyEval_EvalFrameDefault. */
		err = find_frames(report, stack, true, &n) ?: add_focus(report, n, times);
	return err;
}
