/* SPDX-License-Identifier: MIT */
/* The tree of units: compares each sample's stack with the thread's open units, from the outermost inwards. Those that
 * match continue; at the first that differs the open ones inside end, and the new frames begin units.
 *
 * Example: open compile f > phase lower; the stack now has compile f > phase codegen. f continues, lower ends, codegen
 * begins. The hard part is telling one call from the next: a loop that compiles calls from the same line, its frames
 * lie at the same address, and freed objects give their addresses to new ones. So matching uses the captured locals
 * (read.c), and phases that a unit has only `once`. */
#include <errno.h>
#include <stdlib.h>

#include "units/internal.h"
#include "wait/wait.h"

/* Frames of the program's own in a compile that `traces`, of which a sample is at a line. */
#define TRACED_MAX 64u

/* A frame of the sample's stack whose function a rule names. */
struct rule_frame {
	uint32_t stack, function, rule;
	uint32_t call_site; /* as in struct open_unit */
	const struct seen_frame *seen; /* NULL: no values came with it */
};

static const struct function_info *function_of(const struct units *units, uint32_t stack)
{
	return &units->functions[units->frames[units->stacks[stack - 1].frame].function];
}

static enum rule_kind kind_of(const struct units *units, const struct rule_frame *frame)
{
	return rules__get(units->rules, frame->rule)->kind;
}

/* Where a Python frame was called from. As long as one call lasts, the frames outside of it do not move on: a different
 * line there means a different call. */
static uint32_t called_from(const struct units *units, uint32_t stack)
{
	uint32_t parent = units->stacks[stack - 1].parent;

	return parent && function_of(units, stack)->python ? units->stacks[parent - 1].call_site : 0;
}

/* A phase with `apart` interrupts the phase that calls it: drop the outer one. */
static uint32_t without_interrupted(const struct units *units, struct rule_frame *frames, uint32_t n)
{
	uint32_t i, next, kept = 0;

	for (i = 0; i < n; i++) {
		for (next = i + 1; next < n && kind_of(units, &frames[next]) == RULE_LINE; next++)
			;
		if (next == n || !rules__get(units->rules, frames[next].rule)->apart || kind_of(units, &frames[i]) != RULE_PHASE)
			frames[kept++] = frames[i];
	}
	return kept;
}

/* The frames of a stack that rules name, outermost first; the UNITS_DEPTH_MAX outermost if there are more.
 * stack_info.rule_code links each stack to its next such frame, so all other frames cost nothing here. Goes
 * along that list twice: to count, and to fill in. */
static uint32_t find_rule_frames(const struct units *units, uint32_t stack, struct rule_frame *ret)
{
	uint32_t at, n = 0, i;

	for (at = units->stacks[stack - 1].rule_code; at;) {
		n++;
		at = units->stacks[at - 1].parent;
		at = at ? units->stacks[at - 1].rule_code : 0;
	}
	i = n;
	for (at = units->stacks[stack - 1].rule_code; at;) {
		i--;
		if (i < UNITS_DEPTH_MAX)
			ret[i] = (struct rule_frame){.stack = at,
					       .function = units->frames[units->stacks[at - 1].frame].function,
					       .rule = function_of(units, at)->rule,
					       .call_site = called_from(units, at)};
		at = units->stacks[at - 1].parent;
		at = at ? units->stacks[at - 1].rule_code : 0;
	}
	return without_interrupted(units, ret, n < UNITS_DEPTH_MAX ? n : UNITS_DEPTH_MAX);
}

/* Joins the stack's frames with the values of the record; both are in stack order. Some frames have no values: the
 * sampler did not know their code objects yet, or a stack had more than it captures. Frames are matched by depth, or,
 * if the emitted stack has another number of Python frames than the record (some were cut), by rule and order. */
static void add_values(const struct units *units, uint32_t stack, struct rule_frame *frames, uint32_t n,
		       const struct waiting *waiting)
{
	uint32_t python = units->stacks[stack - 1].python, i, next = 0;

	for (i = 0; waiting && i < n && next < waiting->n; i++) {
		const uint32_t outside = units->stacks[frames[i].stack - 1].python - 1;

		if (!units->functions[frames[i].function].valued)
			continue;
		while (waiting->python == python && next < waiting->n && waiting->frames[next].outside < outside)
			next++;
		if (next < waiting->n && waiting->frames[next].rule == frames[i].rule &&
		    (waiting->python != python || waiting->frames[next].outside == outside))
			frames[i].seen = &waiting->frames[next++];
	}
}

/* Of a compile that `traces`: the lines of the program's own frames from `stack` out to that of the compile, the outermost first. */
static uint32_t traced_lines(struct units *units, uint32_t stack, const struct rule_frame *unit, uint32_t line, uint32_t depth)
{
	const uint32_t compiler = rules__get(units->rules, unit->rule)->compiler;
	uint32_t frames[TRACED_MAX], n = 0;

	for (; stack && stack != unit->stack; stack = units->stacks[stack - 1].parent) {
		const struct function_info *info = function_of(units, stack);

		if (info->file && !(info->own >> compiler & 1))
			frames[n++ % TRACED_MAX] = units->stacks[stack - 1].frame; /* the outermost ones stay */
	}
	for (uint32_t last = n < TRACED_MAX ? 0 : n - TRACED_MAX; n > last; n--) {
		const struct frame_info *frame = &units->frames[frames[(n - 1) % TRACED_MAX]];
		const char *file = texts__get(&units->files, units->functions[frame->function].file);

		line = unit_lines__id(units, line, depth, units__text(units, file, strlen(file)), frame->line);
	}
	return line;
}

/* Takes the frames that are lines out of the others: the compiler is at a line inside of that which the compile around its
 * own is at. `line`, `depth`: what the thread works for, if it is a worker. *ret: the innermost line. */
static uint32_t take_lines(struct units *units, uint32_t stack, struct rule_frame *frames, uint32_t n, uint32_t line, uint32_t depth, uint32_t *ret)
{
	const struct rule_frame *traced = NULL;
	uint32_t i, kept = 0;

	for (i = 0; i < n; i++) {
		const struct function_info *info = &units->functions[frames[i].function];

		if (kind_of(units, &frames[i]) == RULE_UNIT) {
			if (traced)
				line = traced_lines(units, frames[i].stack, traced, line, depth);
			traced = rules__get(units->rules, frames[i].rule)->traces ? &frames[kept] : NULL;
			depth++;
		}
		if (kind_of(units, &frames[i]) != RULE_LINE)
			frames[kept++] = frames[i];
		else if (depth && !info->valued)
			line = unit_lines__of_text(units, line, depth, info->text, info->signature);
		else if (depth && frames[i].seen && frames[i].seen->value.named)
			line = unit_lines__of_text(units, line, depth, frames[i].seen->value.name, frames[i].seen->value.signature);
	}
	*ret = traced ? traced_lines(units, stack, traced, line, depth) : line;
	return kept;
}

/* Drops what makes no unit: a pass directly inside itself (GVNPass::runImpl below GVNLegacyPass::runOnFunction are one
 * pass), and a phase or pass outside of any compile. `inside`: a worker, whose caller is in a compile. */
static uint32_t drop_without_unit(const struct units *units, struct rule_frame *frames, uint32_t n, bool inside)
{
	uint32_t i, kept = 0;

	for (i = 0; i < n; i++) {
		const struct rule *rule = rules__get(units->rules, frames[i].rule);
		const struct function_info *info = &units->functions[frames[i].function];

		if (rule->kind != RULE_UNIT && !kept && !inside)
			continue;
		if (rule->kind == RULE_PASS && kept && info->text &&
		    info->text == units->functions[frames[kept - 1].function].text)
			continue;
		frames[kept++] = frames[i];
	}
	return kept;
}

/* A phase or pass that takes its name from a variable: if the variable changed, the next phase has begun. */
static bool is_renamed(const struct open_unit *open, const struct seen_frame *seen)
{
	return open->row.kind != RULE_UNIT && seen && open->value.named && seen->value.named && !open->doubted &&
	       seen->value.read >= open->since && open->value.name != seen->value.name;
}

/* Where what a path leads to was not known before, the names tell: of two that are known. What is not known now may be another
 * object, of another class. */
static bool same_paths(const struct open_unit *open, const struct seen_frame *seen)
{
	if (open->paths)
		return open->paths == seen->paths;
	return !open->value.named || !seen->value.named || open->value.name == seen->value.name;
}

/* Do the values of this frame show that it is the open unit's call? Unknown ones count as equal. */
static bool same_values(const struct open_unit *open, const struct seen_frame *seen)
{
	return !seen || !open->address || !seen->address ||
	       (seen->address == open->address &&
		((seen->locals == open->locals && same_paths(open, seen)) || open->unset || seen->deleted));
}

/* Is this frame the same call as the open unit? Unknown values count as equal. */
static bool continues(const struct units *units, const struct open_unit *open, const struct rule_frame *frame)
{
	/* Another rule, or called from elsewhere: another call for sure. */
	if (open->rule != frame->rule || (open->call_site && frame->call_site && open->call_site != frame->call_site))
		return false;
	/* Two functions with one display name belong to the same pass. */
	if (open->function != frame->function &&
	    (!units->functions[open->function].text ||
	     units->functions[open->function].text != units->functions[frame->function].text))
		return false;
	if (is_renamed(open, frame->seen))
		return false;
	/* Unknown: counts as the same, or each sample without values would begin a compile. */
	return same_values(open, frame->seen);
}

/* Has the frame values, and is no Python frame missing outside of it? */
static bool is_whole(const struct rule_frame *frame)
{
	return frame->seen && frame->seen->called_from;
}

/* Of a stack whose native frames are cut: do the values of its Python frames show another call of an open unit's function?
 * A thread that waits may have no other stack in the whole compile. */
static bool is_another(const struct thread_units *thread, const struct rule_frame *frames, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < thread->n && frames[i].rule == thread->open[i].rule; i++)
		if (!same_values(&thread->open[i], frames[i].seen))
			return is_whole(&frames[i]);
	return false;
}

/* --- phases that a unit has once --- */

static bool unit__has_had(const struct open_unit *unit, uint32_t function)
{
	for (uint32_t i = 0; i < unit->n_had; i++)
		if (unit->had[i] == function)
			return true;
	return false;
}

/* Notes in the innermost compile that it has had this `once` phase. */
static void unit__add_had(struct thread_units *thread, uint32_t function)
{
	for (uint32_t i = thread->n; i > 0; i--) {
		struct open_unit *unit = &thread->open[i - 1];

		if (unit->row.kind != RULE_UNIT)
			continue;
		if (unit->n_had < HAD_MAX && !unit__has_had(unit, function))
			unit->had[unit->n_had++] = function;
		return;
	}
}

/* How many of the first `keep` units really continue. If a `once` phase begins that its unit has had already, the unit
 * is a new one, although its frame looks the same: a loop compiles from one call site, and a freed object gives its
 * address to the next. */
static uint32_t begun_again(const struct units *units, const struct thread_units *thread,
			    const struct rule_frame *frames, uint32_t n, uint32_t keep)
{
	uint32_t i, unit;

	for (i = keep; i < n; i++) {
		if (!rules__get(units->rules, frames[i].rule)->once)
			continue;
		for (unit = i; unit > 0 && rules__get(units->rules, frames[unit - 1].rule)->kind != RULE_UNIT; unit--)
			;
		if (unit && unit <= keep && unit__has_had(&thread->open[unit - 1], frames[i].function))
			return unit - 1;
	}
	return keep;
}

/* The end of a unit, with what became known after its row was emitted. */
static struct event_unit_end late_of(const struct open_unit *open)
{
	return (struct event_unit_end){
		.id = open->id,
		.time = open->last,
		.name = open->late ? open->row.name : "",
		.signature = open->late ? open->row.signature : "",
		.file = open->late ? open->row.file : "",
		.line = open->late ? open->row.line : 0,
		.object = open->late ? open->row.object : 0,
	};
}

/* Each text has one address as long as the session lives (base/texts.h), so rows may point to it. */
static void put_value(const struct units *units, const struct value *value, struct unit_row *row)
{
	row->name = texts__get(&units->texts, value->name);
	row->signature = texts__get(&units->texts, value->signature);
	row->file = texts__get(&units->texts, value->file);
	row->line = value->line;
	row->object = value->object;
}

/* Another call site, yet a frame at the same address with the same words: the words may point to new objects in the
 * memory of freed ones. The new unit takes over the old name until its values were read again. */
static bool same_words(const struct open_unit *open, const struct rule_frame *frame)
{
	return open->rule == frame->rule && frame->seen && frame->seen->address &&
	       open->address == frame->seen->address && open->locals == frame->seen->locals && open->paths == frame->seen->paths;
}

/* The innermost first, so that a unit ends after those inside of it. */
static int end_units(struct units *units, struct thread_units *thread, uint32_t keep)
{
	while (thread->n > keep) {
		const struct open_unit *open = &thread->open[--thread->n];

		units->unnamed += open->row.kind == RULE_UNIT && !open->row.name[0] && rules__get(units->rules, open->rule)->name.n;
		if (ARRAY_ADD(units->ends, units->n_ends, units->ends_capacity, late_of(open)))
			return -ENOMEM;
	}
	return 0;
}

/* The trigger: the innermost Python frame outside of the unit that does not belong to the compiler itself. */
static uint32_t find_trigger(const struct units *units, uint32_t stack, uint32_t compiler)
{
	for (stack = units->stacks[stack - 1].parent; stack; stack = units->stacks[stack - 1].parent) {
		const struct function_info *info = function_of(units, stack);

		if (info->python && !(info->own >> compiler & 1))
			return stack;
	}
	return 0;
}

/* The compiler of a unit. LLVM's passes are listed in one compiler's rules but run for several, so a pass belongs to
 * the compile around it. */
static const char *compiler_of(const struct units *units, const struct thread_units *thread, const struct rule *rule)
{
	uint32_t i = thread->n;

	if (rule->kind == RULE_PASS && thread->outer && thread->outer_rule != RULE_NONE)
		rule = rules__get(units->rules, thread->outer_rule);
	while (rule->kind == RULE_PASS && i > 0)
		if (thread->open[--i].row.kind == RULE_UNIT) {
			rule = rules__get(units->rules, thread->open[i].rule);
			break;
		}
	return rules__compiler(units->rules, rule->compiler)->name;
}

/* Opens a unit inside of the innermost open one, and queues its row. `since`: values that were read earlier
 * belong to another call at the same address; `doubted`: take them as a name for now, until newer ones come
 * (same_words()). */
static int begin_unit(struct units *units, uint32_t thread_id, struct thread_units *thread,
		      const struct rule_frame *frame, uint64_t time, uint64_t since, bool doubted)
{
	const struct rule *rule = rules__get(units->rules, frame->rule);
	struct open_unit *open = &thread->open[thread->n];

	if (ARRAY_RESERVE(units->rows, units->n_rows, units->rows_capacity))
		return -ENOMEM;
	*open = (struct open_unit){
		.id = units->emitted_rows + units->n_rows + 1,
		.function = frame->function,
		.rule = frame->rule,
		.call_site = frame->call_site,
	};
	if (frame->seen) {
		open->address = frame->seen->address;
			open->locals = frame->seen->locals;
		open->unset = frame->seen->unset;
		open->paths = frame->seen->paths;
		open->since = since;
		open->doubted = doubted && frame->seen->value.read < since;
		if (doubted || frame->seen->value.read >= since)
			open->value = frame->seen->value;
	}
	if (!open->value.name && (!units->functions[frame->function].valued || !rules__values(&rule->name)))
		open->value.name = units->functions[frame->function].text;
	if (!open->value.signature)
		open->value.signature = units->functions[frame->function].signature;
	open->row = (struct unit_row){
		.parent = thread->n ? thread->open[thread->n - 1].id : thread->outer,
		.thread = thread_id,
		.kind = (uint8_t)rule->kind,
		.compiler = compiler_of(units, thread, rule),
		.time = time,
		.trigger = thread->n || thread->outer ? 0 : find_trigger(units, frame->stack, rule->compiler),
	};
	put_value(units, &open->value, &open->row);
	units->rows[units->n_rows++] = open->row;
	if (rule->once)
		unit__add_had(thread, frame->function);
	thread->n++;
	return 0;
}

/* Updates a unit that continues with this sample's values; a name that is new is queued as a late name. */
static int update_open(struct units *units, struct open_unit *open, const struct rule_frame *frame)
{
	bool known;

	if (!frame->seen || !frame->seen->address)
		return 0;
	known = !open->paths && frame->seen->paths;
	open->address = frame->seen->address;
	open->locals = frame->seen->locals;
	open->unset = frame->seen->unset;
	open->paths = frame->seen->paths;
	if ((!open->value.named || open->doubted || known) && frame->seen->value.read >= open->since &&
	    (frame->seen->value.named || (frame->seen->value.name && !open->value.name))) {
		open->value = frame->seen->value;
		put_value(units, &open->value, &open->row);
		open->late = true;
		open->doubted = false;
		if (ARRAY_RESERVE(units->names, units->n_names, units->names_capacity))
			return -ENOMEM;
		/* Emitted before the samples of this batch (emit_news()). */
		units->names[units->n_names++] = late_of(open);
	}
	return 0;
}

/* Allocates the thread's stack of open units at its first unit: most threads never compile. */
static int open_room(struct thread_units *thread)
{
	if (!thread->open)
		thread->open = calloc(UNITS_DEPTH_MAX, sizeof(*thread->open));
	return thread->open ? 0 : -ENOMEM;
}

/* Puts a worker inside a unit of its caller: the innermost open unit of the caller that the stack of the call
 * (row->call) has, too. Units in that stack that no sample of the caller has shown yet begin here. */
static int find_outer(struct units *units, struct thread_units *worker, const struct sample_row *row)
{
	struct thread_units *caller = &units->threads[row->caller];
	struct rule_frame frames[UNITS_DEPTH_MAX];
	bool known = row->call && !units->stacks[row->call - 1].cut;
	uint32_t n = known ? find_rule_frames(units, row->call, frames) : 0, i, outer = 0, line;
	int err = 0;

	n = take_lines(units, row->call, frames, n, 0, 0, &line);
	n = drop_without_unit(units, frames, n, false);
	for (i = 0; i < n && i < caller->n && continues(units, &caller->open[i], &frames[i]); i++)
		;
	if (units->period) {
		/* CPU time: a caller that waits has no ticks, so its open units are those of its last tick. They still
		 * hold if it was seen asleep since; else they may have ended. */
		n = caller->asleep ? caller->n : n;
		i = caller->asleep ? n : i;
	} else if (i == caller->n && i < n) {
		err = open_room(caller);
		for (; !err && i < n; i++) {
			err = begin_unit(units, row->caller, caller, &frames[i], row->time, 0, false);
			if (!err)
				caller->open[i].last = row->time;
		}
	}
	if (!err && i)
		outer = caller->open[i - 1].id;
	else if (!err && !known && caller->n)
		outer = caller->open[caller->n - 1].id, i = caller->n;
	if (worker->outer != outer)
		err = err ?: end_units(units, worker, 0);
	worker->outer = outer;
	worker->outer_rule = RULE_NONE;
	worker->outer_depth = caller->outer ? caller->outer_depth : 0;
	while (i-- > 0) {
		if (caller->open[i].row.kind != RULE_UNIT)
			continue;
		if (worker->outer_rule == RULE_NONE)
			worker->outer_rule = caller->open[i].rule;
		worker->outer_depth++;
	}
	return err;
}

/* The thread works for no other thread: the units that it had inside the caller's end. */
static int leave_outer(struct units *units, struct thread_units *thread)
{
	thread->outer = 0;
	return end_units(units, thread, 0);
}

int tree__sample(struct units *units, struct sample_row *row)
{
	struct thread_units *thread = &units->threads[row->thread];
	/* CPU time: one period of CPU passed since the last sample; wall time beyond that was waiting, before this
	 * work. */
	uint64_t span = !row->cause && units->period && units->period < row->wall ? units->period : row->wall;
	uint64_t before = thread->now, begin, since;
	struct rule_frame frames[UNITS_DEPTH_MAX];
	uint32_t n = row->stack ? find_rule_frames(units, row->stack, frames) : 0, i, again, line;
	const struct waiting *waiting = NULL;
	bool doubted, stale = row->cause && row->taken && row->taken < thread->seen;
	int err = 0;

	if (!row->cause || row->taken > thread->seen)
		thread->seen = row->cause ? row->taken : row->time;
	if (thread->now < (row->over ?: row->time))
		thread->now = row->over ?: row->time;
	begin = thread->now > before + span ? thread->now - span : before;
	thread->asleep = row->cause;
	if (thread->outer && row->cause) /* a worker that waits: for its next work, or shortly within it */
		return row->wall < units->tick ? 0 : leave_outer(units, thread);
	if (attribution__is_given(row->how) && row->caller != row->thread)
		err = find_outer(units, thread, row);
	else if (thread->outer)
		err = leave_outer(units, thread);
	row->unit = thread->outer;
	if (err || (!n && !thread->n))
		return err;
	if (row->stack)
		waiting = row->cause ? read__off_cpu(units, thread->tid, row->taken, row->time)
				     : read__take(units, thread->tid, row->time);
	if (row->stack)
		add_values(units, row->stack, frames, n, waiting);
	n = take_lines(units, row->stack, frames, n, thread->outer ? units->threads[row->caller].line : 0, thread->outer ? thread->outer_depth : 0, &line);
	n = drop_without_unit(units, frames, n, thread->outer != 0);
	if (row->stack && units->stacks[row->stack - 1].cut && thread->n && (stale || !is_another(thread, frames, n))) {
		/* The missing frames may be those of open units: end nothing, and count it for the innermost
		 * compile. */
		for (i = 0; !err && !stale && i < n && i < thread->n && is_whole(&frames[i]) && continues(units, &thread->open[i], &frames[i]); i++)
			err = update_open(units, &thread->open[i], &frames[i]);
		for (i = thread->n; i && thread->open[i - 1].row.kind != RULE_UNIT; i--)
			;
		row->unit = i ? thread->open[i - 1].id : thread->outer;
		for (; i; i--)
			thread->open[i - 1].last = thread->now;
		return err;
	}
	err = open_room(thread);
	if (err)
		return err;
	for (i = 0; !err && i < n && i < thread->n && continues(units, &thread->open[i], &frames[i]); i++)
		err = stale ? 0 : update_open(units, &thread->open[i], &frames[i]);
	if (err)
		return err;
	if (stale || (row->cause && !row->taken && row->wall < units->tick)) {
		/* Waits are summed by location and emitted out of order, and one that followed others quickly has the
		 * stack of an earlier one (docs/waits.md): what has an older stack than the last row ends and begins
		 * nothing. */
		row->unit = i ? thread->open[i - 1].id : thread->outer;
		for (; i; i--)
			thread->open[i - 1].last = thread->now;
		return 0;
	}
	/* The first `again` units continue; those after them end here, and the rest of the stack begins. */
	again = begun_again(units, thread, frames, n, i);
	doubted = again == i && i < n && i < thread->n && same_words(&thread->open[i], &frames[i]);
	i = doubted || again < i ? again : UINT32_MAX;
	/* The time of the record, by the same clock as value.read. */
	since = waiting ? waiting->time : row->time;
	err = end_units(units, thread, again);
	while (!err && thread->n < n)
		err = begin_unit(units, row->thread, thread, &frames[thread->n], begin, thread->n == i ? since : 0,
				 doubted);
	for (i = 0; i < thread->n; i++)
		thread->open[i].last = thread->now;
	row->unit = thread->n ? thread->open[thread->n - 1].id : thread->outer;
	row->line = thread->line = row->unit ? line : 0;
	return err;
}

void tree__end_thread(struct units *units, struct thread_units *thread)
{
	end_units(units, thread, 0);
}
