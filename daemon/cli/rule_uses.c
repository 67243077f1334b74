/* SPDX-License-Identifier: MIT */
/* Which rules were used, for the author of a rule file. Rules are numbered, one bit each. A function's row
 * gets the bits of the rules that match it; a stack node gets the bits of its frame and of its parent. So
 * each sample costs one table lookup.
 *
 * Which rule made a unit is not in the events. Two observations are: the units of a sample, innermost first,
 * with compiler and kind; and the rules that match some function of its stack. A unit belongs to a rule that
 * had a function on the stack in each of its samples (`could`, which only shrinks). */
#include "cli/unmatched.h"

#include "base/array.h"

/* A unit of the current epoch. In `own` and `could`, each bit is a rule. `parent`: the number of the unit
 * around it, 0 for none, as in unit rows. */
struct unit_use {
	uint32_t parent;
	uint64_t own;      /* all rules of its compiler and kind */
	uint64_t could;    /* of `own`: rules with a function on the stack of every sample so far */
	bool seen, named;
};

/* Different lacks that are counted. A rule file makes few: one for each combination of rules on a stack. */
#define LACKS_MAX 256u
struct lack {
	uint64_t rules;    /* of one kind, that matched functions of a stack */
	uint32_t lacking;  /* how many of them have no unit in such samples */
	uint32_t samples;
};

/* Memory: the tables of one epoch, without any string. All functions accept out of memory (`lost`): then
 * nothing is reported, as this is only advice. */
struct rule_uses {
	const struct rules *rules;
	uint32_t first, n;
	bool lost;         /* out of memory */
	/* Per epoch: the rules that match each function, or any function of each stack. */
	uint64_t *functions, *stacks;
	/* frame -> function, both by id */
	uint32_t *frames;
	struct unit_use *units;
	uint32_t n_functions, functions_capacity, n_frames, frames_capacity, n_stacks, stacks_capacity, n_units, units_capacity;
	struct rule_use uses[RULE_USES_MAX];
	uint64_t kinds[RULE_USES_MAX]; /* of each rule: those of its compiler and kind, including itself */
	uint64_t useful;   /* rules that had units */
	struct lack lacks[LACKS_MAX];
	uint32_t n_lacks;
};

struct rule_uses *rule_uses__new(const struct rules *rules, uint32_t first)
{
	struct rule_uses *uses = calloc(1, sizeof(*uses));

	if (!uses)
		return NULL;
	uses->rules = rules;
	uses->first = first;
	uses->n = rules__count(rules) - first < RULE_USES_MAX ? rules__count(rules) - first : RULE_USES_MAX;
	for (uint32_t i = 0; i < uses->n; i++)
		for (uint32_t j = 0; j < uses->n; j++) {
			const struct rule *rule = rules__get(rules, first + i), *other = rules__get(rules, first + j);

			uses->kinds[i] |= (uint64_t)(rule->kind == other->kind && rule->compiler == other->compiler) << j;
		}
	return uses;
}

void rule_uses__free(struct rule_uses *uses)
{
	if (uses) {
		free(uses->functions);
		free(uses->frames);
		free(uses->stacks);
		free(uses->units);
	}
	free(uses);
}

/* Tries each rule: once for each function of an epoch, not for each sample. Kernel frames and notes such as
 * "(idle)" are no code of a compiler. Rules of lines make no units. */
static uint64_t rules_of_function(const struct rule_uses *uses, const struct function_row *row)
{
	uint64_t found = 0;

	if (row->kind == FUNCTION_NOTE || row->kind == FUNCTION_KERNEL)
		return 0;
	for (uint32_t i = 0; i < uses->n; i++)
		found |= (uint64_t)(rules__get(uses->rules, uses->first + i)->kind != RULE_LINE && rule__could_match(rules__get(uses->rules, uses->first + i), row->kind == FUNCTION_PYTHON ? row->file : NULL,
						     row->name, NULL))
			 << i;
	return found;
}

/* The candidates for a new unit. 0: its compiler has no rules in the user's file, so it is a built-in one's. */
static uint64_t rules_of_unit(const struct rule_uses *uses, const struct unit_row *row)
{
	const struct compiler *compiler = rules__compiler_named(uses->rules, row->compiler);

	for (uint32_t i = 0; compiler && i < uses->n; i++) {
		const struct rule *rule = rules__get(uses->rules, uses->first + i);

		if (rule->kind == row->kind && rules__compiler(uses->rules, rule->compiler) == compiler)
			return uses->kinds[i];
	}
	return 0;
}

static int add_unit(struct rule_uses *uses, const struct unit_row *row)
{
	struct unit_use unit = {.parent = row->parent, .own = rules_of_unit(uses, row), .named = *row->name};

	if (ARRAY_RESERVE(uses->units, uses->n_units, uses->units_capacity))
		return -1;
	/* A parent comes before its child; the file may be damaged. */
	if (unit.parent > uses->n_units)
		return -1;
	unit.could = unit.own;
	uses->units[uses->n_units++] = unit;
	return 0;
}

static int add_row(struct rule_uses *uses, enum event_kind kind, const struct event_rows *rows, uint32_t i)
{
	const struct frame_row *frame = rows->rows;
	const struct stack_row *stack = rows->rows;

	switch (kind) {
	case EVENT_FUNCTIONS:
		if (ARRAY_ADD(uses->functions, uses->n_functions, uses->functions_capacity,
			      rules_of_function(uses, (const struct function_row *)rows->rows + i)))
			return -1;
		return 0;
	case EVENT_FRAMES:
		if (ARRAY_RESERVE(uses->frames, uses->n_frames, uses->frames_capacity) ||
		    frame[i].function >= uses->n_functions)
			return -1;
		uses->frames[uses->n_frames++] = frame[i].function;
		return 0;
	case EVENT_STACKS:
		if (ARRAY_RESERVE(uses->stacks, uses->n_stacks, uses->stacks_capacity) ||
		    stack[i].frame >= uses->n_frames || stack[i].parent > uses->n_stacks)
			return -1;
		uses->stacks[uses->n_stacks++] = uses->functions[uses->frames[stack[i].frame]] |
						 (stack[i].parent ? uses->stacks[stack[i].parent - 1] : 0);
		return 0;
	default:
		return add_unit(uses, (const struct unit_row *)rows->rows + i);
	}
}

/* Counts a sample whose stack has functions of more rules of one kind than it has units of that kind. */
static void add_lack(struct rule_uses *uses, uint64_t rules, uint32_t lacking)
{
	uint32_t i;

	for (i = 0; i < uses->n_lacks && (uses->lacks[i].rules != rules || uses->lacks[i].lacking != lacking); i++)
		;
	if (i == LACKS_MAX)
		return;
	if (i == uses->n_lacks)
		uses->lacks[uses->n_lacks++] = (struct lack){.rules = rules, .lacking = lacking};
	uses->lacks[i].samples++;
}

/* Compares, for each kind, the rules that matched functions of the stack with the units of the sample. */
static void add_sample(struct rule_uses *uses, const struct sample_row *row)
{
	uint64_t left = row->stack && row->stack <= uses->n_stacks ? uses->stacks[row->stack - 1] : 0, rules;
	uint32_t unit = row->unit <= uses->n_units ? row->unit : 0, at, n, n_units;

	/* Each unit around the sample loses the candidates that are not on this stack. A sample without a
	 * stack says nothing. The loop ends, as parents have smaller numbers. */
	for (at = unit; at && row->stack; at = uses->units[at - 1].parent) {
		uses->units[at - 1].seen = true;
		uses->units[at - 1].could &= left;
	}
	/* One round for each kind of one compiler that is on the stack. */
	for (; left; left &= ~rules) {
		const uint64_t kind = uses->kinds[__builtin_ctzll(left)];

		rules = left & kind;
		n = (uint32_t)__builtin_popcountll(rules);
		for (n_units = 0, at = unit; at; at = uses->units[at - 1].parent)
			n_units += uses->units[at - 1].own == kind;
		/* Two rules may match one function, or a rule matches but its `has` or `from` did not hold:
		 * fewer units than rules. With as many units as rules, each rule works. */
		if (n_units < n)
			add_lack(uses, rules, n - n_units);
		else
			uses->useful |= rules;
	}
}

/* Credits each unit with one candidate left (`could` has one bit) to that rule, and forgets the tables: ids start
 * again in the next epoch. */
static void end_epoch(struct rule_uses *uses)
{
	for (uint32_t i = 0; i < uses->n_units; i++) {
		const struct unit_use *unit = &uses->units[i];

		/* x & (x - 1) clears the lowest bit: zero if there was only one. */
		if (!unit->seen || !unit->could || unit->could & (unit->could - 1))
			continue;
		if (unit->named)
			uses->uses[__builtin_ctzll(unit->could)].named++;
		else
			uses->uses[__builtin_ctzll(unit->could)].nameless++;
	}
	uses->n_functions = uses->n_frames = uses->n_stacks = uses->n_units = 0;
}

void rule_uses__event(struct rule_uses *uses, const struct event *event)
{
	const struct event_unit_end *end = &event->unit_end;

	if (!uses || uses->lost)
		return;
	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
		end_epoch(uses);
		return;
	case EVENT_FUNCTIONS:
	case EVENT_FRAMES:
	case EVENT_STACKS:
	case EVENT_UNITS:
		for (uint32_t i = 0; !uses->lost && i < event->rows.n; i++)
			uses->lost = add_row(uses, event->kind, &event->rows, i);
		return;
	case EVENT_UNIT_NAME:
	case EVENT_UNIT_END:
		if (end->id && end->id <= uses->n_units && *end->name)
			uses->units[end->id - 1].named = true;
		return;
	case EVENT_SAMPLES:
		for (uint32_t i = 0; i < event->samples.n; i++)
			add_sample(uses, &event->samples.rows[i]);
		return;
	default:
		return;
	}
}

void rule_uses__get(struct rule_uses *uses, uint32_t rule, struct rule_use *ret)
{
	*ret = (struct rule_use){};
	if (!uses || uses->lost || rule < uses->first || rule - uses->first >= uses->n)
		return;
	end_epoch(uses);
	rule -= uses->first;
	*ret = uses->uses[rule];
	for (uint32_t i = 0; i < uses->n_lacks; i++) {
		const struct lack *lack = &uses->lacks[i];
		uint64_t open = lack->rules & ~uses->useful;

		/* The rules that had units elsewhere are assumed to have had theirs here. If as many are left
		 * as units are missing, each of those left lacks one; if more, nobody knows which. */
		if (open >> rule & 1 && (uint32_t)__builtin_popcountll(open) == lack->lacking)
			ret->missed += lack->samples;
	}
}
