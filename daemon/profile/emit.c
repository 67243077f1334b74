/* SPDX-License-Identifier: MIT */
/* The tables as events. Rows go out in order, in pieces that fit a line.
 *
 * Order within one call: names that were pending, lines, modules, functions, frames, stacks. Each kind is emitted only as far
 * as what it refers to has been emitted: a frame's function, a stack's frame. Samples wait in the queue for their
 * stack (sample.c). */
#include "profile/tables.h"

#define FUNCTIONS_A_LINE 64u
#define ROWS_A_LINE 4096u

static const char *const notes[NOTE_COUNT] = {[NOTE_NO_PYTHON] = "(no Python)",
					      [NOTE_NO_FRAME] = "(no Python frame)",
					      [NOTE_EXITING] = "(exiting)",
					      [NOTE_UNKNOWN] = "(name unknown)",
					      [NOTE_NO_PLACE] = "(unknown native code)",
#define CUT(id, kind, name, sentence) [NOTE_CUT + LOSS_##id] = "(cut: " sentence ")",
					      CPROFD_LOSSES(CUT)
#undef CUT
};

/* A row as it is emitted: strings come from the code registry (Python), from natives[] (native code), or are
 * constants (notes). */
static struct function_row function_row(const struct tables *tables,
					const struct function *function)
{
	struct function_row row = {.file = "", .module = "", .kind = FUNCTION_PYTHON};

	if (function->state == FUNCTION_CODE) {
		const struct native *native = &tables->natives[function->code];

		row.name = native->name;
		row.file = native->file;
		row.line = native->line;
		row.module = native->module;
		row.kind = native->kind;
		return row;
	}
	if (function->state == FUNCTION_NAMED) {
		const struct code *code = codes__get(tables->codes, function->code);

		row.name = code->name;
		row.file = code->file;
		row.line = code->first_line;
		return row;
	}
	row.name = notes[function->note];
	row.kind = FUNCTION_NOTE;
	return row;
}

static int emit_functions(const struct tables *tables, struct event_sink *sink, uint32_t first,
			  uint32_t end)
{
	struct function_row rows[FUNCTIONS_A_LINE];
	struct event event = {.kind = EVENT_FUNCTIONS};
	int err = 0;

	event.rows.rows = rows;
	for (; !err && first < end; first += event.rows.n) {
		event.rows.first = first;
		for (event.rows.n = 0;
		     event.rows.n < FUNCTIONS_A_LINE && first + event.rows.n < end; event.rows.n++)
			rows[event.rows.n] =
				function_row(tables, &tables->functions[first + event.rows.n]);
		err = sink->event(sink, &event);
	}
	return err;
}

/* Emits rows [first, end) of modules, frames or stacks, ROWS_A_LINE at a time. `rows` is row 0, whose id is `base`. */
static int emit_rows(struct event_sink *sink, enum event_kind kind, const void *rows, size_t size,
		     uint32_t first, uint32_t end, uint32_t base)
{
	struct event event = {.kind = kind};
	int err = 0;

	for (; !err && first < end; first += event.rows.n) {
		event.rows.first = first + base;
		event.rows.n = end - first < ROWS_A_LINE ? end - first : ROWS_A_LINE;
		event.rows.rows = (const char *)rows + first * size;
		err = sink->event(sink, &event);
	}
	return err;
}

/* Its uses so far were counted in function->code; they become losses. */
static void give_up_function(struct tables *tables, struct function *function)
{
	tables->losses[LOSS_CODE_UNCAPTURED] += function->code;
	function->code = CODE_NONE;
	function->state = FUNCTION_UNKNOWN;
}

/* Up to which function all rows can be emitted. Functions are emitted in order: the first that must wait ends it. */
static uint32_t functions_ready(struct tables *tables, bool give_up)
{
	uint32_t i = tables->emitted_functions;

	for (; i < tables->n_functions; i++) {
		struct function *function = &tables->functions[i];

		if (function->state == FUNCTION_CODE && !tables__native_lines(tables, function)) {
			if (!give_up && tables->tick - function->since < TABLES_DEADLINE_NATIVE)
				break;
			tables->natives[function->code].late = true;
			tables->n_late++;
		}
		if (function->state != FUNCTION_WAITING)
			continue;
		if (!give_up && tables->tick - function->since < TABLES_DEADLINE)
			break;
		give_up_function(tables, function);
	}
	return i;
}

/* Native code: with its line, or without if the deadline is over. row->column holds the tick of the first sample
 * until then. */
static bool settle_native(struct tables *tables, uint32_t frame, bool give_up)
{
	struct frame_row *row = &tables->frames[frame], found = *row;
	const struct function *function = &tables->functions[row->function];
	bool answered;

	found.line = found.column = 0;
	answered = tables__native_line(tables, function, &found);
	if (!answered && !give_up &&
	    (tables->tick - function->since < TABLES_DEADLINE_NATIVE || tables->tick - row->column < TABLES_DEADLINE_LINE))
		return false;
	*row = found;
	tables->frame_states[frame] = answered ? FRAME_KNOWN : FRAME_LATE;
	tables->n_late += !answered;
	return true;
}

/* A frame that waited: its line is known now, or never will be. */
static bool settle_frame(struct tables *tables, uint32_t frame, bool give_up)
{
	struct frame_row *row = &tables->frames[frame];
	const struct function *function = &tables->functions[row->function];
	uint32_t uses = row->line;
	struct position position;
	int err;

	if (function->state == FUNCTION_CODE)
		return settle_native(tables, frame, give_up);
	row->line = 0;
	tables->frame_states[frame] = FRAME_KNOWN;
	if (function->state != FUNCTION_NAMED)
		return true; /* the loss is counted by its function */
	err = codes__position(tables->codes, function->code, row->offset, &position);
	if (!err) {
		row->line = position.line;
		row->column = position.column;
	} else if (err != -EAGAIN) {
		tables->losses[LOSS_LINES_BAD] += uses;
		tables->frame_states[frame] = FRAME_BAD;
	} else if (give_up || tables->tick - function->since >= TABLES_DEADLINE) {
		tables->losses[LOSS_LINES_PARTIAL] += uses;
		tables->frame_states[frame] = FRAME_PARTIAL;
	} else {
		row->line = uses;
		tables->frame_states[frame] = FRAME_WAITING;
		return false;
	}
	return true;
}

/* Up to which frame all rows can be emitted. Stops at the first that waits, or whose function was not emitted. */
static uint32_t frames_ready(struct tables *tables, uint32_t functions, bool give_up)
{
	uint32_t i = tables->emitted_frames;

	for (; i < tables->n_frames; i++) {
		if (tables->frame_states[i] == FRAME_PENDING || tables->frames[i].function >= functions)
			break;
		if (tables->frame_states[i] == FRAME_WAITING && !settle_frame(tables, i, give_up))
			break;
	}
	return i;
}

struct function_row tables__function_row(const struct tables *tables, uint32_t function)
{
	return function_row(tables, &tables->functions[function]);
}

/* Also decides what late rows find (late.c). What was emitted is remembered in emitted_*, from where the next call
 * goes on. */
int tables__emit(struct tables *tables, struct event_sink *sink, bool give_up)
{
	uint32_t functions, frames, stacks = tables->emitted_stacks;
	int err = tables__name_pending(tables, give_up);

	if (err)
		return err;
	tables__ask_lines(tables);
	tables__poll_late(tables);
	functions = functions_ready(tables, give_up);
	frames = frames_ready(tables, functions, give_up);
	while (stacks < tables->n_stacks && tables->stacks[stacks].frame < frames)
		stacks++;
	err = emit_rows(sink, EVENT_MODULES, tables->modules, sizeof(*tables->modules), tables->emitted_modules, tables->n_modules, 0);
	err = err ?: emit_functions(tables, sink, tables->emitted_functions, functions);
	err = err ?: emit_rows(sink, EVENT_FRAMES, tables->frames, sizeof(*tables->frames),
				tables->emitted_frames, frames, 0);
	if (!err)
		err = emit_rows(sink, EVENT_STACKS, tables->stacks, sizeof(*tables->stacks),
				tables->emitted_stacks, stacks, 1);
	tables->emitted_modules = tables->n_modules;
	tables->emitted_functions = functions;
	tables->emitted_frames = frames;
	tables->emitted_stacks = stacks;
	return err;
}

int tables__replay(const struct tables *tables, struct event_sink *sink)
{
	int err = emit_rows(sink, EVENT_MODULES, tables->modules, sizeof(*tables->modules), 0, tables->emitted_modules, 0);

	err = err ?: emit_functions(tables, sink, 0, tables->emitted_functions);
	err = err ?: emit_rows(sink, EVENT_FRAMES, tables->frames, sizeof(*tables->frames), 0,
				tables->emitted_frames, 0);
	if (!err)
		err = emit_rows(sink, EVENT_STACKS, tables->stacks, sizeof(*tables->stacks), 0,
				tables->emitted_stacks, 1);
	return err;
}
