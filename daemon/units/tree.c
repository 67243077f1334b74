/* SPDX-License-Identifier: MIT */
/* Which units a sample is of: those of the sample before that go on, and new ones inside of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "units/internal.h"

/* A frame of a stack that a rule names. */
struct mark {
	uint32_t stack, function, rule;
	uint32_t place; /* as in struct open_unit */
	const struct seen_frame *seen; /* NULL: no values came with it */
};

static const struct function_info *function_of(const struct units *units, uint32_t stack)
{
	return &units->functions[units->frames[units->stacks[stack - 1].frame]];
}

/* Frames that called stay where they are: from another place comes another call. */
static uint32_t called_from(const struct units *units, uint32_t stack)
{
	uint32_t parent = units->stacks[stack - 1].parent;

	return parent && function_of(units, stack)->python ? units->stacks[parent - 1].place : 0;
}

/* A phase that is apart interrupts the phase that calls it. */
static uint32_t without_interrupted(const struct units *units, struct mark *marks, uint32_t n)
{
	uint32_t i, kept = 0;

	for (i = 0; i < n; i++)
		if (i + 1 == n || !rules__get(units->rules, marks[i + 1].rule)->apart || rules__get(units->rules, marks[i].rule)->kind != RULE_PHASE)
			marks[kept++] = marks[i];
	return kept;
}

/* The marks of a stack, outermost first; at most UNITS_DEPTH_MAX of the outermost. */
static uint32_t find_marks(const struct units *units, uint32_t stack, struct mark *ret)
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
			ret[i] = (struct mark){.stack = at,
					       .function = units->frames[units->stacks[at - 1].frame],
					       .rule = function_of(units, at)->rule,
					       .place = called_from(units, at)};
		at = units->stacks[at - 1].parent;
		at = at ? units->stacks[at - 1].rule_code : 0;
	}
	return without_interrupted(units, ret, n < UNITS_DEPTH_MAX ? n : UNITS_DEPTH_MAX);
}

/* Both are in the order of the stack. Some marks have no values: code objects that the sampler was not told of yet, and the
 * outermost of very many. Which frame is which, its place tells; if the stack that came out of the record has another number
 * of Python frames, their order. */
static void add_values(const struct units *units, uint32_t stack, struct mark *marks, uint32_t n, const struct waiting *waiting)
{
	uint32_t python = units->stacks[stack - 1].python, i, next = 0;

	for (i = 0; waiting && i < n && next < waiting->n; i++) {
		const uint32_t outside = units->stacks[marks[i].stack - 1].python - 1;

		if (!units->functions[marks[i].function].valued)
			continue;
		while (waiting->python == python && next < waiting->n && waiting->frames[next].outside < outside)
			next++;
		if (next < waiting->n && waiting->frames[next].rule == marks[i].rule &&
		    (waiting->python != python || waiting->frames[next].outside == outside))
			marks[i].seen = &waiting->frames[next++];
	}
}

/* A pass inside of itself (GVNPass::runImpl below GVNLegacyPass::runOnFunction) is one; a phase or a pass of no compile
 * is none of ours. `inside`: all of them are in a compile. */
static uint32_t drop_marks(const struct units *units, struct mark *marks, uint32_t n, bool inside)
{
	uint32_t i, kept = 0;

	for (i = 0; i < n; i++) {
		const struct rule *rule = rules__get(units->rules, marks[i].rule);
		const struct function_info *info = &units->functions[marks[i].function];

		if (rule->kind != RULE_UNIT && !kept && !inside)
			continue;
		if (rule->kind == RULE_PASS && kept && info->text && info->text == units->functions[marks[kept - 1].function].text)
			continue;
		marks[kept++] = marks[i];
	}
	return kept;
}

/* A phase or a pass whose name comes of a variable that was set meanwhile is the next one. */
static bool is_called_otherwise(const struct open_unit *open, const struct seen_frame *seen)
{
	return open->row.kind != RULE_UNIT && seen && open->value.named && seen->value.named && !open->doubted &&
	       seen->value.read >= open->since && open->value.name != seen->value.name;
}

static bool goes_on(const struct units *units, const struct open_unit *open, const struct mark *mark)
{
	if (open->rule != mark->rule || (open->place && mark->place && open->place != mark->place))
		return false;
	/* Two functions of one pass: the same pass at work. */
	if (open->function != mark->function &&
	    (!units->functions[open->function].text ||
	     units->functions[open->function].text != units->functions[mark->function].text))
		return false;
	if (is_called_otherwise(open, mark->seen))
		return false;
	return !mark->seen || !open->address || !mark->seen->address ||
	       (mark->seen->address == open->address &&
		(mark->seen->words == open->words || open->unset || mark->seen->deleted));
}

/* --- phases that a unit has once --- */

static bool unit__had(const struct open_unit *unit, uint32_t function)
{
	uint32_t i;

	for (i = 0; i < unit->n_had; i++)
		if (unit->had[i] == function)
			return true;
	return false;
}

static void unit__have(struct thread_units *thread, uint32_t function)
{
	uint32_t i;

	for (i = thread->n; i > 0; i--) {
		struct open_unit *unit = &thread->open[i - 1];

		if (unit->row.kind != RULE_UNIT)
			continue;
		if (unit->n_had < HAD_MAX && !unit__had(unit, function))
			unit->had[unit->n_had++] = function;
		return;
	}
}

/* How many of the first `keep` units go on: what looks like one of them has begun again with such a phase. (A loop that
 * compiles calls from one place, and an object that was freed gives its address to the next one.) */
static uint32_t begun_again(const struct units *units, const struct thread_units *thread, const struct mark *marks, uint32_t n,
			    uint32_t keep)
{
	uint32_t i, unit;

	for (i = keep; i < n; i++) {
		if (!rules__get(units->rules, marks[i].rule)->once)
			continue;
		for (unit = i; unit > 0 && rules__get(units->rules, marks[unit - 1].rule)->kind != RULE_UNIT; unit--)
			;
		if (unit && unit <= keep && unit__had(&thread->open[unit - 1], marks[i].function))
			return unit - 1;
	}
	return keep;
}

/* What became known after its row. */
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

static void put_value(const struct units *units, const struct value *value, struct unit_row *row)
{
	row->name = texts__get(&units->texts, value->name);
	row->signature = texts__get(&units->texts, value->signature);
	row->file = texts__get(&units->texts, value->file);
	row->line = value->line;
	row->object = value->object;
}

/* It is another call, by its place, with a frame at the same address and the same words: what they point to may be another
 * object, too, in the memory of one that was freed. It is called so until it was read again. */
static bool same_words(const struct open_unit *open, const struct mark *mark)
{
	return open->rule == mark->rule && mark->seen && mark->seen->address && open->address == mark->seen->address &&
	       open->words == mark->seen->words;
}

static int end_units(struct units *units, struct thread_units *thread, uint32_t keep)
{
	while (thread->n > keep) {
		const struct open_unit *open = &thread->open[--thread->n];

		if (array__reserve((void **)&units->ends, sizeof(*units->ends), units->n_ends, &units->ends_capacity))
			return -ENOMEM;
		units->ends[units->n_ends++] = late_of(open);
	}
	return 0;
}

/* The innermost frame outside of this unit that is none of its compiler's. */
static uint32_t find_trigger(const struct units *units, uint32_t stack, uint32_t compiler)
{
	for (stack = units->stacks[stack - 1].parent; stack; stack = units->stacks[stack - 1].parent) {
		const struct function_info *info = function_of(units, stack);

		if (info->python && !(info->own >> compiler & 1))
			return stack;
	}
	return 0;
}

/* Whose it is: LLVM's passes are named by the rules of one compiler, and are at work for any. */
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

static int begin_unit(struct units *units, uint32_t thread_id, struct thread_units *thread, const struct mark *mark,
		      uint64_t time, uint64_t since, bool doubted)
{
	const struct rule *rule = rules__get(units->rules, mark->rule);
	struct open_unit *open = &thread->open[thread->n];

	if (array__reserve((void **)&units->rows, sizeof(*units->rows), units->n_rows, &units->rows_capacity))
		return -ENOMEM;
	*open = (struct open_unit){
		.id = units->emitted_rows + units->n_rows + 1, .function = mark->function, .rule = mark->rule, .place = mark->place};
	if (mark->seen) {
		open->address = mark->seen->address;
		open->words = mark->seen->words;
		open->unset = mark->seen->unset;
		open->since = since;
		open->doubted = doubted && mark->seen->value.read < since;
		if (doubted || mark->seen->value.read >= since)
			open->value = mark->seen->value;
	}
	if (!open->value.name && (!units->functions[mark->function].valued || !rules__values(&rule->name)))
		open->value.name = units->functions[mark->function].text;
	if (!open->value.signature)
		open->value.signature = units->functions[mark->function].signature;
	open->row = (struct unit_row){
		.parent = thread->n ? thread->open[thread->n - 1].id : thread->outer,
		.thread = thread_id,
		.kind = (uint8_t)rule->kind,
		.compiler = compiler_of(units, thread, rule),
		.time = time,
		.trigger = thread->n || thread->outer ? 0 : find_trigger(units, mark->stack, rule->compiler),
	};
	put_value(units, &open->value, &open->row);
	units->rows[units->n_rows++] = open->row;
	if (rule->once)
		unit__have(thread, mark->function);
	thread->n++;
	return 0;
}

/* What this sample tells of a unit that goes on. */
static int learn(struct units *units, struct open_unit *open, const struct mark *mark)
{
	if (!mark->seen || !mark->seen->address)
		return 0;
	open->address = mark->seen->address;
	open->words = mark->seen->words;
	open->unset = mark->seen->unset;
	if ((!open->value.named || open->doubted) && mark->seen->value.read >= open->since &&
	    (mark->seen->value.named || (mark->seen->value.name && !open->value.name))) {
		open->value = mark->seen->value;
		put_value(units, &open->value, &open->row);
		open->late = true;
		open->doubted = false;
		if (array__reserve((void **)&units->names, sizeof(*units->names), units->n_names, &units->names_capacity))
			return -ENOMEM;
		units->names[units->n_names++] = late_of(open);
	}
	return 0;
}

static int open_room(struct thread_units *thread)
{
	if (!thread->open)
		thread->open = calloc(UNITS_DEPTH_MAX, sizeof(*thread->open));
	return thread->open ? 0 : -ENOMEM;
}

/* A worker belongs to what its caller is in: of the caller's units those that the call's stack has, too; what the call has
 * beyond, and no sample of the caller has told of yet, begins. */
static int find_outer(struct units *units, struct thread_units *worker, const struct sample_row *row)
{
	struct thread_units *caller = &units->threads[row->caller];
	struct mark marks[UNITS_DEPTH_MAX];
	uint32_t n = row->call ? find_marks(units, row->call, marks) : 0, i, outer = 0;
	int err = 0;

	if (row->call && units->stacks[row->call - 1].cut)
		n = 0;
	n = drop_marks(units, marks, n, false);
	for (i = 0; i < n && i < caller->n && goes_on(units, &caller->open[i], &marks[i]); i++)
		;
	if (units->period) {
		/* What its last tick had was told then, and may be over: it was seen asleep since, or it was not. */
		n = caller->asleep ? caller->n : n;
		i = caller->asleep ? n : i;
	} else if (i == caller->n && i < n) {
		err = open_room(caller);
		for (; !err && i < n; i++) {
			err = begin_unit(units, row->caller, caller, &marks[i], row->time, 0, false);
			if (!err)
				caller->open[i].last = row->time;
		}
	}
	if (!err && i)
		outer = caller->open[i - 1].id;
	else if (!err && !n && caller->n) /* its stack is not known */
		outer = caller->open[caller->n - 1].id, i = caller->n;
	if (worker->outer != outer)
		err = err ?: end_units(units, worker, 0);
	worker->outer = outer;
	worker->outer_rule = RULE_NONE;
	while (i-- > 0 && worker->outer_rule == RULE_NONE)
		if (caller->open[i].row.kind == RULE_UNIT)
			worker->outer_rule = caller->open[i].rule;
	return err;
}

static int leave_outer(struct units *units, struct thread_units *thread)
{
	thread->outer = 0;
	return end_units(units, thread, 0);
}

int tree__sample(struct units *units, struct sample_row *row)
{
	struct thread_units *thread = &units->threads[row->thread];
	/* What it waited before, it waited before this began: a period of CPU has gone by since the last sample. */
	uint64_t span = !row->cause && units->period && units->period < row->wall ? units->period : row->wall;
	uint64_t begin = row->time > span ? row->time - span : 0;
	uint64_t since;
	struct mark marks[UNITS_DEPTH_MAX];
	uint32_t n = row->stack ? find_marks(units, row->stack, marks) : 0, i, again;
	const struct waiting *waiting = NULL;
	bool doubted;
	int err = 0;

	if (!row->cause)
		thread->last = row->time;
	thread->asleep = row->cause;
	if (thread->outer && row->cause) /* a worker's rest, or a pause in its work */
		return row->wall < units->tick ? 0 : leave_outer(units, thread);
	if (attribution__is_given(row->how) && row->caller != row->thread)
		err = find_outer(units, thread, row);
	else if (thread->outer)
		err = leave_outer(units, thread);
	row->unit = thread->outer;
	if (err || (!n && !thread->n))
		return err;
	if (row->stack && units->stacks[row->stack - 1].cut && thread->n) {
		/* What it lacks may be of what goes on: it ends nothing, and counts for the innermost compile. */
		for (i = thread->n; i && thread->open[i - 1].row.kind != RULE_UNIT; i--)
			;
		row->unit = i ? thread->open[i - 1].id : thread->outer;
		for (; i; i--)
			thread->open[i - 1].last = row->time;
		return 0;
	}
	if (row->stack)
		waiting = row->cause ? read__away(units, thread->tid, thread->last, row->time)
				     : read__take(units, thread->tid, row->time);
	if (row->stack)
		add_values(units, row->stack, marks, n, waiting);
	n = drop_marks(units, marks, n, thread->outer != 0);
	err = open_room(thread);
	if (err)
		return err;
	for (i = 0; !err && i < n && i < thread->n && goes_on(units, &thread->open[i], &marks[i]); i++)
		err = learn(units, &thread->open[i], &marks[i]);
	if (err)
		return err;
	if (row->cause && row->wall < units->tick) {
		/* Short waits are told by place, which is not their order in time (docs/waits.md): they end and begin nothing. */
		row->unit = i ? thread->open[i - 1].id : thread->outer;
		for (; i; i--)
			thread->open[i - 1].last = row->time;
		return 0;
	}
	again = begun_again(units, thread, marks, n, i);
	doubted = again == i && i < n && i < thread->n && same_words(&thread->open[i], &marks[i]);
	if ((doubted || again < i) && marks[again].seen)
		read__again(units, thread->tid, marks[again].seen->address);
	i = doubted || again < i ? again : UINT32_MAX;
	since = waiting ? waiting->time : row->time;
	err = end_units(units, thread, again);
	while (!err && thread->n < n)
		err = begin_unit(units, row->thread, thread, &marks[thread->n], begin, thread->n == i ? since : 0, doubted);
	for (i = 0; i < thread->n; i++)
		thread->open[i].last = row->time;
	row->unit = thread->n ? thread->open[thread->n - 1].id : thread->outer;
	return err;
}

void tree__end_thread(struct units *units, struct thread_units *thread)
{
	end_units(units, thread, 0);
}
