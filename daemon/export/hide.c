/* SPDX-License-Identifier: MIT */
/* Hides frames (--exclude, --hide-imports) by rewriting the tables of an epoch: a stack whose leaf is hidden
 * is replaced by its parent. Stacks that become equal get one id, because readers rely on each pair of parent
 * and frame occurring once.
 *
 *     recording:   main > wrapper > work        stacks 1, 2, 3
 *                  main > work                          4
 *     --exclude wrapper:
 *                  main > work                  stack 3 for both, 1 -> 2, 2 -> 2 ("(hidden)" is 1) */
#include "export/hide.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "export/close.h"
#include "base/intern.h"
#include "export/pattern.h"
#include "export/places.h"


/* Functions and frames move up by one, for the row "(hidden)"; it is also the stack NOTE. */
#define SHIFT 1u
#define NOTE 1u

/* By function. Of a stack, struct way says what it becomes. */
enum visibility {
	VISIBILITY_SHOWN,
	VISIBILITY_HIDDEN,
	VISIBILITY_IMPORT,   /* hidden: importlib and zipimport */
	VISIBILITY_MACHINE,  /* native code that importlib calls itself or the module through: hidden if below it */
};

/* What becomes of a stack of the recording: ids of rewritten stacks. */
struct way {
	uint32_t self; /* replaces it in samples */
	uint32_t base; /* replaces it as the parent of other stacks; 0: the root */
	bool import;   /* its leaf is of the import machinery */
};

struct hide {
	struct event_sink sink;
	struct event_sink *next;
	const struct export_options *options;
	bool noted;                   /* the row "(hidden)" was emitted in this epoch */
	bool matched[EXPORT_EXCLUDE_MAX]; /* which patterns matched a function */
	struct close close[EXPORT_EXCLUDE_MAX];
	struct buf functions, frames; /* uint8_t: enum visibility, by id of the epoch */
	struct buf ways;              /* struct way, by stack id */
	struct intern stacks;         /* the struct stack_row that were emitted: id 0 is stack 2 */
	struct buf rows;              /* rows of the event that is passed on */
};

bool hide__wanted(const struct export_options *options)
{
	return options->n_exclude || options->hide_imports;
}

/* An event without rows is not sent on: all its stacks may be known already. */
static int hand_on(struct hide *hide, enum event_kind kind, uint32_t first, uint32_t n, const void *rows)
{
	const struct event event = {.kind = kind, .rows = {first, n, rows}};

	return n ? hide->next->event(hide->next, &event) : 0;
}

static int emit_note(struct hide *hide)
{
	const struct function_row function = {HIDE_NOTE, "", 0, "", FUNCTION_NOTE};
	const struct frame_row frame = {.offset = -1};
	const struct stack_row stack = {};

	if (hide->noted)
		return 0;
	hide->noted = true;
	return hand_on(hide, EVENT_FUNCTIONS, 0, 1, &function) ?: hand_on(hide, EVENT_FRAMES, 0, 1, &frame) ?: hand_on(hide, EVENT_STACKS, NOTE, 1, &stack);
}

static void *copy(struct hide *hide, const void *rows, size_t bytes)
{
	buf__clear(&hide->rows);
	return buf__append(&hide->rows, rows, bytes) ? NULL : hide->rows.data;
}

/* --- which functions --- */

/* importlib and zipimport, frozen or not: what an `import` statement runs before the module's own code. */
static bool is_importer(const struct function_row *row)
{
	char module[512];

	if (row->kind != FUNCTION_PYTHON)
		return false;
	/* CPython freezes importlib._bootstrap and _bootstrap_external into the interpreter; other parts of
	 * importlib are files of the standard library. */
	if (!strncmp(row->file, "<frozen importlib.", 18) || !strncmp(row->file, "<frozen zipimport", 17))
		return true;
	place__module(row->kind, row->file, row->module, module, sizeof(module));
	return pattern__module("importlib", module) || pattern__module("zipimport", module);
}

/* Native functions through which importlib runs: they are hidden only directly below it, as programs call
 * exec() and __import__(), too. With and without "builtins.", as native stacks and call frames name them. */
static bool is_machine(const struct function_row *row)
{
	static const char *const names[] = {"exec", "builtins.exec", "__import__", "builtins.__import__", "builtin_exec", "builtin_exec_impl",
					    "builtin___import__", "PyEval_EvalCode"};
	size_t i;

	if (row->kind == FUNCTION_PYTHON)
		return false;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(row->name, names[i]))
			return true;
	return false;
}

/* Each pattern is tried on the function, its module by either name, and its file: --exclude does not say what
 * it means. */
static bool is_excluded(struct hide *hide, const struct function_row *row)
{
	char module[512];
	uint32_t i;
	bool any = false;

	if (row->kind == FUNCTION_NOTE)
		return false;
	place__module(row->kind, row->file, row->module, module, sizeof(module));
	for (i = 0; i < hide->options->n_exclude; i++) {
		const char *pattern = hide->options->exclude[i];
		bool match = pattern__function(pattern, row->name) || pattern__module(pattern, module) ||
			     (*row->module && pattern__module(pattern, row->module)) || (*row->file && pattern__glob(pattern, row->file));

		any |= match;
		hide->matched[i] |= match;
		if (!hide->matched[i])
			close__offer(&hide->close[i], row->name);
		if (!hide->matched[i])
			close__offer(&hide->close[i], module);
	}
	return any;
}

static int on_functions(struct hide *hide, const struct event_rows *event)
{
	const struct function_row *row = event->rows;
	uint32_t i;

	for (i = 0; i < event->n; i++) {
		uint8_t visibility = is_excluded(hide, &row[i])			     ? VISIBILITY_HIDDEN
			       : hide->options->hide_imports && is_importer(&row[i]) ? VISIBILITY_IMPORT
			       : hide->options->hide_imports && is_machine(&row[i])  ? VISIBILITY_MACHINE
										     : VISIBILITY_SHOWN;

		if (buf__append(&hide->functions, &visibility, 1))
			return -ENOMEM;
	}
	return hand_on(hide, EVENT_FUNCTIONS, event->first + SHIFT, event->n, event->rows);
}

static int on_frames(struct hide *hide, const struct event_rows *event)
{
	struct frame_row *row = copy(hide, event->rows, event->n * sizeof(*row));
	uint32_t i;

	for (i = 0; row && i < event->n; i++) {
		if (buf__append(&hide->frames, &hide->functions.data[row[i].function], 1))
			return -ENOMEM;
		row[i].function += SHIFT;
	}
	return row ? hand_on(hide, EVENT_FRAMES, event->first + SHIFT, event->n, row) : -ENOMEM;
}

/* --- stacks --- */

/* The id of this frame on top of `base`; emits the row if the pair is new. */
static int shown_stack(struct hide *hide, const struct stack_row *row, uint32_t base, uint32_t *ret)
{
	struct stack_row shown;
	uint32_t id, before = hide->stacks.n;
	int err;

	/* The bytes are a key, padding included. */
	memset(&shown, 0, sizeof(shown));
	shown.parent = base;
	shown.frame = row->frame + SHIFT;
	err = intern__id(&hide->stacks, &shown, sizeof(shown), &id);
	*ret = id + NOTE + 1;
	if (!err && hide->stacks.n != before)
		err = buf__append(&hide->rows, &shown, sizeof(shown));
	return err;
}

static int on_stacks(struct hide *hide, const struct event_rows *event)
{
	const struct stack_row *row = event->rows;
	const uint32_t first = hide->stacks.n + NOTE + 1;
	uint32_t i;
	int err = 0;

	buf__clear(&hide->rows);
	for (i = 0; i < event->n && !err; i++, row++) {
		const struct way parent = ITEM(hide->ways, struct way, row->parent);
		const uint8_t visibility = (uint8_t)hide->frames.data[row->frame];
		/* The first member: a stack of hidden frames alone becomes "(hidden)" in samples; as a parent
		 * it is the root. */
		struct way way = {parent.base ? parent.base : NOTE, parent.base, visibility == VISIBILITY_IMPORT || (visibility == VISIBILITY_MACHINE && parent.import)};

		if (visibility != VISIBILITY_HIDDEN && !way.import) {
			err = shown_stack(hide, row, parent.base, &way.self);
			way.base = way.self;
		}
		err = err ?: buf__append(&hide->ways, &way, sizeof(way));
	}
	return err ?: hand_on(hide, EVENT_STACKS, first, (uint32_t)(hide->rows.len / sizeof(*row)), hide->rows.data);
}

/* The replacement of a stack: itself, its nearest ancestor that is shown, or "(hidden)". */
static uint32_t way_of(const struct hide *hide, uint32_t stack)
{
	return ITEM(hide->ways, struct way, stack).self;
}

/* The trigger of a compile is a stack id. */
static int on_units(struct hide *hide, const struct event_rows *event)
{
	struct unit_row *row = copy(hide, event->rows, event->n * sizeof(*row));
	uint32_t i;

	for (i = 0; row && i < event->n; i++)
		row[i].trigger = way_of(hide, row[i].trigger);
	return row ? hand_on(hide, EVENT_UNITS, event->first, event->n, row) : -ENOMEM;
}

static int on_samples(struct hide *hide, const struct event_samples *event)
{
	struct sample_row *row = copy(hide, event->rows, event->n * sizeof(*row));
	struct event out = {.kind = EVENT_SAMPLES};
	uint32_t i;

	for (i = 0; row && i < event->n; i++) {
		row[i].stack = way_of(hide, row[i].stack);
		row[i].call = way_of(hide, row[i].call);
	}
	out.samples = (struct event_samples){event->n, row};
	return row ? hide->next->event(hide->next, &out) : -ENOMEM;
}

static int start_epoch(struct hide *hide)
{
	const struct way empty = {};

	buf__clear(&hide->functions);
	buf__clear(&hide->frames);
	buf__clear(&hide->ways);
	/* Ids start again, so the numbering of new stacks must, too. */
	intern__free(&hide->stacks);
	hide->stacks = (struct intern){};
	hide->noted = false;
	return buf__append(&hide->ways, &empty, sizeof(empty));
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct hide *hide = (struct hide *)self;
	int err = 0;

	switch (event->kind) {
	case EVENT_FUNCTIONS:
		return emit_note(hide) ?: on_functions(hide, &event->rows);
	case EVENT_FRAMES:
		return emit_note(hide) ?: on_frames(hide, &event->rows);
	case EVENT_STACKS:
		return emit_note(hide) ?: on_stacks(hide, &event->rows);
	case EVENT_UNITS:
		return emit_note(hide) ?: on_units(hide, &event->rows);
	case EVENT_SAMPLES:
		return emit_note(hide) ?: on_samples(hide, &event->samples);
	case EVENT_SESSION:
	case EVENT_EPOCH:
		err = start_epoch(hide);
		break;
	default:
		break;
	}
	return err ?: hide->next->event(hide->next, event);
}

int hide__new(const struct export_options *options, struct event_sink *next, struct hide **ret)
{
	struct hide *hide = calloc(1, sizeof(*hide));
	uint32_t i;

	if (!hide)
		return -ENOMEM;
	*hide = (struct hide){.sink.event = on_event, .next = next, .options = options};
	for (i = 0; i < options->n_exclude; i++)
		hide->close[i].want = options->exclude[i];
	if (start_epoch(hide)) {
		hide__free(hide);
		return -ENOMEM;
	}
	*ret = hide;
	return 0;
}

struct event_sink *hide__sink(struct hide *hide)
{
	return &hide->sink;
}

int hide__missing(const struct hide *hide, struct export_missing *ret)
{
	uint32_t i;

	for (i = 0; i < hide->options->n_exclude; i++) {
		if (hide->matched[i])
			continue;
		ret->option = "exclude";
		ret->name = hide->options->exclude[i];
		close__text(&hide->close[i], ret->close, sizeof(ret->close));
		return -ENOENT;
	}
	return 0;
}

struct hide *hide__free(struct hide *hide)
{
	if (!hide)
		return NULL;
	buf__free(&hide->functions);
	buf__free(&hide->frames);
	buf__free(&hide->ways);
	buf__free(&hide->rows);
	intern__free(&hide->stacks);
	free(hide);
	return NULL;
}
