/* SPDX-License-Identifier: MIT */
/* Lines of native code that come after their rows were emitted: debug information of a library takes seconds, from
 * debuginfod minutes. Such a row stays as it is; from then on its address gets a new one. Of each there is one
 * more row at most: an answer is final. */

#include "profile/tables.h"

/* A native function that was emitted without lines, which may still come. */
static bool is_late(const struct tables *tables, const struct function *function)
{
	return function->state == FUNCTION_CODE && tables->natives[function->code].late;
}

/* Its lines are asked for again; when they are there, it is found no more. */
static void recheck_function(struct tables *tables, struct function *function)
{
	struct native *native = &tables->natives[function->code];

	if (!tables__native_lines(tables, function))
		return;
	native->late = false;
	tables->n_late--;
	if (!*native->file)
		return;
	/* A late joiner must get the row as it was emitted: without a line. */
	native->file = "";
	native->line = 0;
	function->key = function->module = 0;
	tables->replaced++;
}

/* `gone`: its function's row was replaced, so the frame must be found no more either, whether or not its own line
 * came. */
static void recheck_frame(struct tables *tables, uint32_t frame)
{
	struct frame_row row = tables->frames[frame];
	const struct function *function = &tables->functions[row.function];
	bool gone = !function->module;

	if (!gone && (is_late(tables, function) || !tables__native_line(tables, function, &row)))
		return;
	tables->frame_states[frame] = gone || row.line ? FRAME_REPLACED : FRAME_KNOWN;
	tables->replaced += row.line != 0;
	tables->n_late--;
}

bool tables__is_replaced(const void *holder, uint32_t frame)
{
	const struct tables *tables = holder;
	const struct function *function;

	if (tables->frame_states[frame] == FRAME_REPLACED || tables->frame_states[frame] == FRAME_PENDING)
		return tables->frame_states[frame] == FRAME_REPLACED;
	function = &tables->functions[tables->frames[frame].function];
	return function->state == FUNCTION_CODE && !function->module;
}

/* Checks all late rows, but only after lines have arrived or TABLES_LATE_TICKS have passed: it is linear in the rows
 * of the epoch. */
void tables__poll_late(struct tables *tables)
{
	uint64_t news;

	if (!tables->n_late)
		return;
	news = codemap__lines_generation(tables->codemap);
	if (news == tables->late_news && tables->tick - tables->late_tick < TABLES_LATE_TICKS)
		return;
	tables->late_news = news;
	tables->late_tick = tables->tick;
	for (uint32_t i = 0; i < tables->emitted_functions; i++)
		if (is_late(tables, &tables->functions[i]))
			recheck_function(tables, &tables->functions[i]);
	for (uint32_t i = 0; i < tables->emitted_frames; i++)
		if (tables->frame_states[i] == FRAME_LATE)
			recheck_frame(tables, i);
}
