/* SPDX-License-Identifier: MIT */
/* Which samples pass? Each function, frame and stack row gets bits HAS_* when it arrives: a stack has the bits of
 * its parent and of its frame. So testing a sample is one lookup by its stack id. */
#include "export/filter.h"

#include <stdlib.h>

#include "export/class_names.h"
#include "export/close.h"
#include "export/places.h"

/* What a function, a frame, or any frame of a stack matched. */
#define HAS_FUNCTION 1u
#define HAS_MODULE 2u
#define HAS_HOLE 4u /* a frame "(cut: ...)": frames are missing */
#define HOLE "(cut: " /* how the name of such a frame begins */

struct filter {
	const struct export_options *options;
	/* HAS_* that the stack of a sample must have; class and compile are tested by other means */
	uint8_t need;
	struct close class_name, function, module, skip_first;
	struct skip skip;
	uint32_t units, units_before; /* rows of `units` so far; of earlier epochs */
	struct class_names classes;
	struct buf functions, frames, stacks; /* uint8_t: HAS_* by id of the epoch */
};

bool filter__wanted(const struct export_options *options)
{
	return options->class_name || options->function || options->module || options->skip_first;
}

/* --- tables --- */

/* The bits of a function. Names that do not match are offered as "did you mean", until one matches. */
static uint8_t has(struct filter *filter, const struct function_row *row)
{
	char module[512];
	uint8_t answer = 0;

	if (filter->need & HAS_FUNCTION &&
	    close__tried(&filter->function, pattern__function(filter->options->function, row->name), row->name))
		answer |= HAS_FUNCTION;
	if (filter->need & HAS_MODULE) {
		/* By the Python module, or by the name of the file: reports print both, so both can be asked
		 * for. */
		place__module(row->kind, row->file, row->module, module, sizeof(module));
		if (close__tried(&filter->module, pattern__module(filter->options->module, module) ||
				 (row->module[0] && pattern__module(filter->options->module, row->module)), module))
			answer |= HAS_MODULE;
	}
	if (row->kind == FUNCTION_NOTE && !strncmp(row->name, HOLE, strlen(HOLE)))
		answer |= HAS_HOLE;
	return answer;
}

static int add_rows(struct filter *filter, enum event_kind kind, const struct event_rows *event)
{
	const struct function_row *function = event->rows;
	const struct frame_row *frame = event->rows;
	const struct stack_row *stack = event->rows;
	struct buf *to = kind == EVENT_FUNCTIONS ? &filter->functions : kind == EVENT_FRAMES ? &filter->frames : &filter->stacks;
	int err = 0;

	for (uint32_t i = 0; i < event->n && !err; i++) {
		/* stacks.data[0] is the empty stack, which start_epoch() has appended: a root's parent is 0. */
		const uint8_t answer = kind == EVENT_FUNCTIONS ? has(filter, &function[i])
				       : kind == EVENT_FRAMES  ? ITEM(filter->functions, uint8_t, frame[i].function)
							       : ITEM(filter->frames, uint8_t, stack[i].frame) |
									 ITEM(filter->stacks, uint8_t, stack[i].parent);

		err = buf__append(to, &answer, 1);
	}
	return err;
}

/* --- which samples pass --- */

static int of_class(struct filter *filter, uint32_t id, bool *ret)
{
	const char *name, *want = filter->options->class_name;
	uint32_t known;
	int err;

	*ret = true;
	if (!want)
		return 0;
	err = class_names__id(&filter->classes, id, &known);
	if (err)
		return err;
	name = class_names__name(&filter->classes, known);
	*ret = close__tried(&filter->class_name, !strcmp(name, want), name);
	return 0;
}

/* Is this the unit of a compile that --skip-first leaves out, or inside of one? Units are numbered from 1 in
 * each epoch; skip.rows counts on over all epochs. */
static bool is_skipped(const struct filter *filter, uint32_t unit)
{
	uint32_t row = filter->units_before + unit - 1;

	return unit && row < LENGTH(filter->skip.rows, bool) && ITEM(filter->skip.rows, bool, row);
}

int filter__passes(struct filter *filter, const struct sample_row *row, bool *ret)
{
	int err = of_class(filter, row->class_id, ret);

	*ret = *ret && (ITEM(filter->stacks, uint8_t, row->stack) & filter->need) == filter->need;
	*ret = *ret && !is_skipped(filter, row->unit);
	return err;
}

bool filter__has_hole(const struct filter *filter, uint32_t stack)
{
	return ITEM(filter->stacks, uint8_t, stack) & HAS_HOLE;
}

/* --- the events --- */

static int start_epoch(struct filter *filter)
{
	const char none = 0;

	buf__clear(&filter->functions);
	buf__clear(&filter->frames);
	buf__clear(&filter->stacks);
	class_names__epoch(&filter->classes);
	filter->units_before = filter->units;
	return buf__append(&filter->stacks, &none, 1); /* the empty stack */
}

int filter__event(struct filter *filter, const struct event *event)
{
	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
		return start_epoch(filter);
	case EVENT_FUNCTIONS:
	case EVENT_FRAMES:
	case EVENT_STACKS:
		return add_rows(filter, event->kind, &event->rows);
	case EVENT_CLASSES:
		return class_names__rows(&filter->classes, &event->rows);
	case EVENT_UNITS:
		filter->units += event->rows.n;
		return 0;
	default:
		return 0;
	}
}

int filter__new(const struct export_options *options, int recording_fd, struct filter **ret)
{
	struct filter *filter = calloc(1, sizeof(*filter));
	int err;

	if (!filter)
		return -ENOMEM;
	filter->options = options;
	filter->need = (options->function ? HAS_FUNCTION : 0) | (options->module ? HAS_MODULE : 0);
	/* A filter that was not given counts as matched. */
	filter->class_name = CLOSE("class", options->class_name, !options->class_name);
	filter->function = CLOSE("function", options->function, !options->function);
	filter->module = CLOSE("module", options->module, !options->module);
	err = start_epoch(filter);
	if (options->skip_first)
		err = err ?: skip__find(&filter->skip, recording_fd, options->skip_first);
	filter->skip_first = CLOSE("skip-first", "", !options->skip_first || filter->skip.compiles);
	if (err) {
		filter__free(filter);
		return err;
	}
	*ret = filter;
	return 0;
}

int filter__missing(const struct filter *filter, struct export_missing *ret)
{
	return close__missing(&filter->class_name, ret) ?: close__missing(&filter->function, ret)
		       ?: close__missing(&filter->module, ret) ?: close__missing(&filter->skip_first, ret);
}

void filter__free(struct filter *filter)
{
	if (!filter)
		return;
	class_names__free(&filter->classes);
	buf__free(&filter->functions);
	buf__free(&filter->frames);
	buf__free(&filter->stacks);
	skip__free(&filter->skip);
	free(filter);
}
