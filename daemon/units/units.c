/* SPDX-License-Identifier: MIT */
/* The event sink: takes functions, frames, stacks and threads into tables that tree.c needs, hands samples to it, and
 * passes everything on to the next sink, with the new units in between. */
#include "units/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "units/internal.h"

/* --- texts --- */

uint32_t units__text(struct units *units, const char *text, size_t len)
{
	if (memchr(text, '\0', len)) /* the text comes from the target and may hold NUL bytes: cut there */
		len = strlen(text);
	return len ? texts__id(&units->texts, text, len) : 0;
}

/* --- tables --- */

/* Once for each function of an epoch: decides its rule, and what can be known of its unit without values. */
static int add_function(struct units *units, const struct function_row *row)
{
	struct function_info info = {.rule = RULE_NONE, .python = row->kind == FUNCTION_PYTHON};
	char text[RULES_WORD_MAX];
	bool valued = false;
	int err = ARRAY_RESERVE(units->functions, units->n_functions, units->functions_capacity);

	if (err)
		return err;
	if (info.python)
		info.rule = captures__rule(units, row->name, row->file, row->line, &valued);
	else if (row->kind != FUNCTION_NOTE && row->kind != FUNCTION_KERNEL)
		info.rule = rules__native(units->rules, row->name);
	if (info.rule != RULE_NONE) {
		const struct rule *rule = rules__get(units->rules, info.rule);

		/* If a first choice without a value succeeds, those after it do not count: in
		 * `@class | self.__class__.__name__` a method never needs `self`. */
		struct choices first = rule->name;

		first.n = first.n ? choices__next(&first, 0) : 0;
		info.valued = valued && (rules__values(&rule->signature) ||
					      (rules__values(&rule->name) && rule__text(&first, row->name, text, sizeof(text))));
		if (!rule__text(&rule->name, row->name, text, sizeof(text))) {
			compiler__polish(rules__compiler(units->rules, rule->compiler), text);
			info.text = units__text(units, text, strlen(text));
		}
		if ((!info.valued || !rules__values(&rule->signature)) && !rule__text(&rule->signature, row->name, text, sizeof(text)))
			info.signature = units__text(units, text, strlen(text));
	}
	for (uint32_t i = 0; i < units->n_from; i++) {
		if (info.python && rule__is_caller(rules__get(units->rules, units->from[i]), row->name))
			info.calls |= 1ull << i;
		if (info.rule == units->from[i])
			info.from = (uint8_t)(i + 1);
	}
	info.cut = row->kind == FUNCTION_NOTE &&
		   (!strncmp(row->name, "(cut", 4) || !strncmp(row->name, "(no Python frame", 16) ||
		     !strncmp(row->name, "(without the GIL", 16));
	/* `own` has 64 bits: RULES_COMPILERS_MAX. */
	for (uint32_t i = 0; info.python && i < rules__compilers(units->rules); i++)
		info.own |= (uint64_t)rules__is_own(units->rules, i, row->file) << i;
	if (info.python && units->traces && *row->file)
		info.file = texts__id(&units->files, row->file, strlen(row->file));
	units->functions[units->n_functions++] = info;
	return 0;
}

static int add_frame(struct units *units, const struct frame_row *row)
{
	int err = ARRAY_RESERVE(units->frames, units->n_frames, units->frames_capacity);

	/* The engine's own events: an error here is a bug in profile/, found early. */
	if (!err && row->function >= units->n_functions)
		err = -EBADMSG;
	if (!err)
		units->frames[units->n_frames++] = (struct frame_info){row->function, row->line};
	return err;
}

/* Does a rule name the function of this stack's frame, and does it accept the caller? */
static bool is_of_rule(const struct units *units, const struct stack_row *row)
{
	const struct function_info *function = &units->functions[units->frames[row->frame].function];
	const struct stack_info *parent = row->parent ? &units->stacks[row->parent - 1] : NULL;

	if (function->rule == RULE_NONE || !function->from)
		return function->rule != RULE_NONE;
	return parent && parent->python && units->functions[parent->innermost].calls >> (function->from - 1) & 1;
}

/* Everything that tree.c asks of a stack is inherited from its parent, so each row costs O(1), however deep
 * it is. */
static int add_stack(struct units *units, const struct stack_row *row)
{
	uint32_t id = units->n_stacks + 1;
	struct stack_info *info;
	int err = ARRAY_RESERVE(units->stacks, units->n_stacks, units->stacks_capacity);

	if (!err && (row->frame >= units->n_frames || row->parent >= id))
		err = -EBADMSG;
	if (err)
		return err;
	info = &units->stacks[units->n_stacks++];
	*info = (struct stack_info){.parent = row->parent, .frame = row->frame};
	info->cut = units->functions[units->frames[row->frame].function].cut ||
		    (row->parent && units->stacks[row->parent - 1].cut);
	info->python = (row->parent ? units->stacks[row->parent - 1].python : 0) +
		       units->functions[units->frames[row->frame].function].python;
	info->call_site = row->parent ? units->stacks[row->parent - 1].call_site : 0;
	if (units->functions[units->frames[row->frame].function].python)
		info->call_site = (uint32_t)hash__pair(&units->seed, info->call_site, row->frame) | 1;
	if (is_of_rule(units, row))
		info->rule_code = id;
	else if (row->parent)
		info->rule_code = units->stacks[row->parent - 1].rule_code;
	info->innermost = units->functions[units->frames[row->frame].function].python || !row->parent ?
				  units->frames[row->frame].function : units->stacks[row->parent - 1].innermost;
	return 0;
}

static int add_thread(struct units *units, const struct event_thread *thread)
{
	int err = ARRAY_RESERVE(units->threads, units->n_threads, units->threads_capacity);

	if (!err && thread->id > units->n_threads)
		err = -EBADMSG;
	/* A known id: only its name has changed. */
	if (!err && thread->id == units->n_threads)
		units->threads[units->n_threads++] = (struct thread_units){.tid = (uint32_t)thread->tid};
	return err;
}

/* A new epoch: all ids become invalid. An open unit begins again with its first sample in the new epoch. */
static void clear(struct units *units)
{
	for (uint32_t i = 0; i < units->n_threads; i++)
		free(units->threads[i].open);
	units->n_threads = units->n_functions = units->n_frames = units->n_stacks = 0;
	units->emitted_rows = units->n_rows = units->n_names = units->n_ends = 0;
	unit_lines__clear(units);
	texts__free(&units->files);
}

/* --- emitting --- */

/* Rows of one event: bounds the length of a line of the stream. */
#define ROWS_A_LINE 1024u
#define ENDS_A_LINE 256u

static int emit_rows(struct event_sink *sink, uint32_t first, uint32_t n, const struct unit_row *rows)
{
	return sink->event(sink, &(struct event){.kind = EVENT_UNITS, .rows = {.first = first, .n = n, .rows = rows}});
}

static int emit_each(struct event_sink *sink, enum event_kind kind, const struct event_unit_end *each, uint32_t n)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < n; i++)
		err = sink->event(sink, &(struct event){.kind = kind, .unit_end = each[i]});
	return err;
}

/* Does the end carry nothing but id and time? Then it can be one row of a batch (`unit_ends`). */
static bool is_whole_end(const struct event_unit_end *end)
{
	return !*end->name && !*end->signature && !*end->file && !end->line && !end->object;
}

/* In order: a batch ends where an end carries more than id and time, and goes as an event of its own. */
static int emit_ends(struct event_sink *sink, const struct event_unit_end *ends, uint32_t n)
{
	struct event batch = {.kind = EVENT_UNIT_ENDS};
	struct unit_end_row rows[ENDS_A_LINE];
	uint32_t i, m;
	int err = 0;

	batch.unit_ends.rows = rows;
	for (i = 0; !err && i < n; i += m) {
		for (m = 0; m < ENDS_A_LINE && i + m < n && is_whole_end(&ends[i + m]); m++)
			rows[m] = (struct unit_end_row){.time = ends[i + m].time, .id = ends[i + m].id};
		batch.unit_ends.n = m;
		err = m ? sink->event(sink, &batch) : emit_each(sink, EVENT_UNIT_END, &ends[i], m = 1);
	}
	return err;
}

/* Order matters to readers: rows of new units first, then late names, the samples that refer to them, and the ends. */
static int emit_news(struct units *units, const struct event_samples *samples)
{
	struct event event = {.kind = EVENT_SAMPLES};
	uint32_t i, n;
	int err = 0;

	for (i = 0; !err && i < units->n_rows; i += n) {
		n = units->n_rows - i < ROWS_A_LINE ? units->n_rows - i : ROWS_A_LINE;
		err = emit_rows(units->next, units->emitted_rows + i + 1, n, units->rows + i);
	}
	units->emitted_rows += units->n_rows;
	units->n_rows = 0;
	err = err ?: emit_each(units->next, EVENT_UNIT_NAME, units->names, units->n_names);
	units->n_names = 0;
	err = err ?: unit_lines__emit(units, units->emitted_lines + 1, units->next);
	units->emitted_lines = units->n_lines;
	if (!err && samples) {
		event.samples = *samples;
		err = units->next->event(units->next, &event);
	}
	err = err ?: emit_ends(units->next, units->ends, units->n_ends);
	units->n_ends = 0;
	return err;
}

/* In portions of the fixed array, as rows are changed (`unit`) and the event is borrowed. */
static int take_samples(struct units *units, const struct event_samples *samples)
{
	uint32_t done, n, i;
	int err = 0;

	for (done = 0; !err && done < samples->n; done += n) {
		n = samples->n - done;
		if (n > sizeof(units->samples) / sizeof(units->samples[0]))
			n = sizeof(units->samples) / sizeof(units->samples[0]);
		memcpy(units->samples, samples->rows + done, n * sizeof(*units->samples));
		for (i = 0; !err && i < n; i++) {
			struct sample_row *row = &units->samples[i];

			if (row->thread >= units->n_threads || row->stack > units->n_stacks || row->caller >= units->n_threads ||
			    row->call > units->n_stacks)
				return -EBADMSG;
			/* It may come from a recording that is processed again, whose units are void. */
			row->unit = row->line = 0;
			err = tree__sample(units, row);
		}
		err = err ?: emit_news(units, &(struct event_samples){.n = n, .rows = units->samples});
	}
	return err;
}

static int take_rows(struct units *units, const struct event *event)
{
	const struct event_rows *rows = &event->rows;
	int err = 0;

	for (uint32_t i = 0; !err && i < rows->n; i++) {
		if (event->kind == EVENT_FUNCTIONS)
			err = add_function(units, (const struct function_row *)rows->rows + i);
		else if (event->kind == EVENT_FRAMES)
			err = add_frame(units, (const struct frame_row *)rows->rows + i);
		else
			err = add_stack(units, (const struct stack_row *)rows->rows + i);
	}
	return err;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct units *units = (struct units *)((char *)self - offsetof(struct units, sink));
	int err = 0;

	switch (event->kind) {
	case EVENT_SAMPLES:
		return take_samples(units, &event->samples);
	case EVENT_LINES: /* from a recording that is processed again: ours replace them */
	case EVENT_UNITS:
	case EVENT_UNIT_NAME:
	case EVENT_UNIT_END:
	case EVENT_UNIT_ENDS:
		return 0;
	case EVENT_SESSION:
		units->tick = event->session.rate ? 1000000000u / event->session.rate : 0;
		units->period = !strcmp(event->session.mode, "cpu") ? units->tick : 0;
		clear(units);
		break;
	case EVENT_EPOCH:
		clear(units);
		break;
	case EVENT_THREAD:
		err = add_thread(units, &event->thread);
		break;
	case EVENT_FUNCTIONS:
	case EVENT_FRAMES:
	case EVENT_STACKS:
		err = take_rows(units, event);
		break;
	case EVENT_THREAD_END:
		if (event->ending.id < units->n_threads && !event->ending.goes_on) {
			tree__end_thread(units, &units->threads[event->ending.id]);
			err = emit_news(units, NULL);
		}
		break;
	default:
		break;
	}
	return err ? err : units->next->event(units->next, event);
}

uint32_t units__count(const struct units *units)
{
	return units->emitted_rows > units->n_lines ? units->emitted_rows : units->n_lines;
}

const struct py_path *units__paths(struct units *units, uint32_t *ret_n)
{
	*ret_n = units->n_paths;
	units->n_paths = 0;
	return units->paths;
}

uint32_t units__unnamed(struct units *units)
{
	uint32_t unnamed = units->unnamed;

	units->unnamed = 0;
	return unnamed;
}

/* Rows of kind UNIT_OVER for ended units, so that ids of a late joiner count on. */
static int emit_over(struct event_sink *sink, uint32_t first, uint32_t end)
{
	struct unit_row over[ROWS_A_LINE];
	uint32_t n;
	int err = 0;

	for (n = 0; n < ROWS_A_LINE && n < end - first; n++)
		over[n] = (struct unit_row){.kind = UNIT_OVER, .compiler = "", .name = "", .signature = "", .file = ""};
	for (; !err && first < end; first += n) {
		n = end - first < ROWS_A_LINE ? end - first : ROWS_A_LINE;
		err = emit_rows(sink, first, n, over);
	}
	return err;
}

/* The open unit with the least id from `from` on. Ids of one thread's open units rise from the outermost
 * inwards. O(threads) for each open unit, only when somebody joins late. */
static const struct open_unit *next_open(const struct units *units, uint32_t from)
{
	const struct open_unit *found = NULL;
	uint32_t thread, i;

	for (thread = 0; thread < units->n_threads; thread++) {
		for (i = 0; i < units->threads[thread].n && units->threads[thread].open[i].id < from; i++)
			;
		if (i < units->threads[thread].n && (!found || units->threads[thread].open[i].id < found->id))
			found = &units->threads[thread].open[i];
	}
	return found;
}

/* Open units, and rows of ended ones for the ids between them. Units whose rows are not emitted yet come with
 * the next batch, to late joiners as to all. */
int units__replay(struct units *units, struct event_sink *sink)
{
	const struct open_unit *open;
	uint32_t next = 1;
	int err = 0;

	while (!err && (open = next_open(units, next)) && open->id <= units->emitted_rows) {
		err = emit_over(sink, next, open->id) ?: emit_rows(sink, open->id, 1, &open->row);
		next = open->id + 1;
	}
	return err ?: emit_over(sink, next, units->emitted_rows + 1) ?: unit_lines__emit(units, 1, sink);
}

/* --- life --- */

int units__new(const struct rules *rules, struct event_sink *next, struct units **ret)
{
	struct units *units = calloc(1, sizeof(*units));
	int err;

	if (!units)
		return -ENOMEM;
	units->sink.event = on_event;
	units->next = next;
	units->rules = rules;
	for (uint32_t i = 0; i < rules__count(rules) && units->n_from < sizeof(units->from) / sizeof(units->from[0]); i++)
		if (rules__get(rules, i)->callers.n)
			units->from[units->n_from++] = i;
	for (uint32_t i = 0; i < rules__count(rules); i++)
		units->traces |= rules__get(rules, i)->traces;
	/* Beyond it units have no names: a target that makes up names cannot fill the engine's memory. */
	units->texts.most = UNITS_TEXT_MAX;
	err = hash_seed__draw(&units->seed);
	if (err) {
		free(units);
		return err;
	}
	*ret = units;
	return 0;
}

void units__free(struct units *units)
{
	if (!units)
		return;
	clear(units);
	read__free(units);
	unit_lines__free(units);
	texts__free(&units->texts);
	free(units->rule_codes);
	free(units->by_key.slots);
	free(units->function_rules);
	free(units->by_function.slots);
	buf__free(&units->scratch[0]);
	buf__free(&units->scratch[1]);
	free(units->functions);
	free(units->frames);
	texts__free(&units->files);
	free(units->stacks);
	free(units->threads);
	free(units->rows);
	free(units->names);
	free(units->ends);
	free(units);
}

void units__asleep(struct units *units, bool (*asleep)(const struct record_sample *sample))
{
	units->asleep = asleep;
}

struct event_sink *units__sink(struct units *units) { return &units->sink; }
