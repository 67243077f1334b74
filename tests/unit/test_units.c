/* SPDX-License-Identifier: MIT */
/* Events in, units out: which units continue, begin and end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/unit_sums.h"
#include "attribution/attribution.h"
#include "records.h"
#include "units/units.h"

static const char text[] = "compiler C\nown */own/*\n"
			   "unit\nfile */own/c.py\nfunction compile\nname @function\n"
			   "phase\nfile */own/c.py\nfunction parse emit\nname @function\n"
			   "phase\nfile */own/c.py\nfunction link\nonce\nname @function\n"
			   "phase\nfile */own/c.py\nfunction lock\napart\nname @function\n"
			   "line\nfile */own/c.py\nfunction at3\nsource \"u.py\"\nnumber \"3\"\n"
			   "line\nfile */own/c.py\nfunction at5\nsource \"u.py\"\nnumber \"7\" + \"-2\"\n"
			   "unit\nfile */own/c.py\nfunction trace\ntraces\nname @function\n"
			   "pass\nnative *::run(*\nname @class\n";

/* What came out, as words. */
struct keep {
	struct event_sink sink;
	char words[4096];
};

static int keep_event(struct event_sink *self, const struct event *event)
{
	struct keep *keep = (struct keep *)self;
	char *to = keep->words + strlen(keep->words);
	size_t room = sizeof(keep->words) - (size_t)(to - keep->words);
	const struct unit_row *rows = event->rows.rows;
	const struct source_line_row *lines = event->rows.rows;
	uint32_t i;

	if (event->kind == EVENT_UNITS)
		for (i = 0; i < event->rows.n; i++) {
			int n = snprintf(to, room, "+%u=%s<%u@%u ", event->rows.first + i, rows[i].name, rows[i].parent,
					 (unsigned)rows[i].time);
			to += n;
			room -= (size_t)n;
		}
	else if (event->kind == EVENT_SAMPLES)
		for (i = 0; i < event->samples.n; i++) {
			const struct sample_row *row = &event->samples.rows[i];
			int n = row->line ? snprintf(to, room, "%u:%u ", row->unit, row->line) : snprintf(to, room, "%u ", row->unit);

			to += n;
			room -= (size_t)n;
		}
	else if (event->kind == EVENT_LINES)
		for (i = 0; i < event->rows.n; i++) {
			int n = snprintf(to, room, "L%u=%s:%u<%u^%u ", event->rows.first + i, lines[i].file, lines[i].line, lines[i].parent, lines[i].depth);

			to += n;
			room -= (size_t)n;
		}
	else if (event->kind == EVENT_UNIT_END)
		snprintf(to, room, "-%u@%u%s ", event->unit_end.id, (unsigned)event->unit_end.time, event->unit_end.name);
	else if (event->kind == EVENT_UNIT_ENDS)
		for (i = 0; i < event->unit_ends.n; i++) {
			int n = snprintf(to, room, "-%u@%u ", event->unit_ends.rows[i].id, (unsigned)event->unit_ends.rows[i].time);

			to += n;
			room -= (size_t)n;
		}
	else if (event->kind == EVENT_UNIT_NAME)
		snprintf(to, room, "~%u=%s ", event->unit_end.id, event->unit_end.name);
	return 0;
}

struct state {
	struct rules *rules;
	struct units *units;
	struct unit_sums *table;
	struct keep keep;
	uint64_t now;
};

static void send(struct state *s, const struct event *event)
{
	assert_int_equal(units__sink(s->units)->event(units__sink(s->units), event), 0);
}

static void send_rows(struct state *s, enum event_kind kind, uint32_t first, uint32_t n, const void *rows)
{
	send(s, &(struct event){.kind = kind, .rows = {.first = first, .n = n, .rows = rows}});
}

/* Stacks: 1 main, 2 compile, 3 parse, 4 compile in parse, 5 A::run, 6 compile by itself, 7 main > cut, 8 emit,
 * 9 main's line 2, 10 (:) compile below it, 11 (;) link, 12 (<) without the GIL, 13 (=) lock in parse. */
static void send_tables(struct state *s)
{
	static const struct function_row functions[] = {
		{"main", "/x/main.py", 1, "", FUNCTION_PYTHON}, {"compile", "/x/own/c.py", 5, "", FUNCTION_PYTHON},
		{"parse", "/x/own/c.py", 9, "", FUNCTION_PYTHON}, {"ns::A::run(int)", "", 0, "lib", FUNCTION_NATIVE},
		{"(cut: half)", "", 0, "", FUNCTION_NOTE},	  {"emit", "/x/own/c.py", 20, "", FUNCTION_PYTHON},
		{"link", "/x/own/c.py", 30, "", FUNCTION_PYTHON}, {"(without the GIL)", "", 0, "", FUNCTION_NOTE},
		{"lock", "/x/own/c.py", 40, "", FUNCTION_PYTHON},
	};
	static const struct frame_row frames[] = {{0, 0, 1, 0}, {1, 0, 5, 0}, {2, 0, 9, 0}, {3, 0, 0, 0}, {4, -1, 0, 0}, {5, 0, 21, 0}, {0, 8, 2, 0}, {6, 0, 30, 0}, {7, -1, 0, 0}, {8, 0, 40, 0}};
	static const struct stack_row stacks[] = {{0, 0}, {1, 1}, {2, 2}, {3, 1}, {3, 3}, {0, 1}, {1, 4}, {2, 5}, {0, 6}, {9, 1}, {2, 7}, {0, 8}, {3, 9}};

	send(s, &(struct event){.kind = EVENT_EPOCH});
	send(s, &(struct event){.kind = EVENT_THREAD, .thread = {.tid = 7, .name = ""}});
	send_rows(s, EVENT_FUNCTIONS, 0, 9, functions);
	send_rows(s, EVENT_FRAMES, 0, 10, frames);
	send_rows(s, EVENT_STACKS, 1, 13, stacks);
}

static void samples(struct state *s, const char *stacks, const char *expected)
{
	struct sample_row rows[32] = {};
	uint32_t n = 0;

	for (; *stacks; stacks++, n++) {
		s->now += 10;
		rows[n] = (struct sample_row){.time = s->now, .wall = 10, .stack = (uint32_t)(*stacks - '0')};
	}
	s->keep.words[0] = '\0';
	send(s, &(struct event){.kind = EVENT_SAMPLES, .samples = {n, rows}});
	assert_string_equal(s->keep.words, expected);
}

static int set_up(void **state)
{
	struct state *s = calloc(1, sizeof(*s));
	struct rules_error error;

	if (!s)
		return -1;
	s->keep.sink.event = keep_event;
	if (rules__new(&s->rules) || rules__parse(s->rules, "test", text, strlen(text), &error) ||
	    units__new(s->rules, &s->keep.sink, &s->units))
		return -1;
	*state = s;
	send_tables(s);
	return 0;
}

static int tear_down(void **state)
{
	struct state *s = *state;

	units__free(s->units);
	rules__free(s->rules);
	free(s);
	return 0;
}

static void nest(void **state)
{
	struct state *s = *state;

	samples(s, "1", "0 ");
	samples(s, "2343", "+1=compile<0@10 +2=parse<1@20 +3=compile<2@30 1 2 3 2 -3@40 ");
	samples(s, "51", "+4=A<2@50 4 0 -4@60 -2@60 -1@60 ");
}

static void phases_follow(void **state)
{
	samples(*state, "3383", "+1=compile<0@0 +2=parse<1@0 +3=emit<1@20 +4=parse<1@30 2 2 3 4 -2@20 -3@30 ");
}

/* The phase that takes a lock is no part of the one that holds it. */
static void one_is_apart(void **state)
{
	samples(*state, "3=3", "+1=compile<0@0 +2=parse<1@0 +3=lock<1@10 +4=parse<1@20 2 3 4 -2@10 -3@20 ");
}

static void what_is_cut_ends_nothing(void **state)
{
	struct state *s = *state;

	samples(s, "373", "+1=compile<0@0 +2=parse<1@0 2 1 2 ");
	samples(s, "17", "0 0 -2@30 -1@30 ");
}

/* Nor does a stack that was not asked for: the compile goes on without it, of which phase is not known. */
static void without_the_gil_a_compile_goes_on(void **state)
{
	struct state *s = *state;

	samples(s, "8<8", "+1=compile<0@0 +2=emit<1@0 2 1 2 ");
	samples(s, "1<", "0 0 -2@30 -1@30 ");
}

/* compile() from another line of main; what is not known is no other place. */
static void another_place_is_another_call(void **state)
{
	struct state *s = *state;

	samples(s, "2:6", "+1=compile<0@0 +2=compile<0@10 1 2 2 -1@10 ");
}

/* link is there once in a compile: with a second one another compile has begun, in spite of its looks. */
static void once(void **state)
{
	samples(*state, "2;3;3", "+1=compile<0@0 +2=link<1@10 +3=parse<1@20 +4=compile<0@30 +5=link<4@30 +6=parse<4@40 1 2 3 5 6 -2@20 -3@30 -1@30 -5@40 ");
}

static void threads_end(void **state)
{
	struct state *s = *state;

	samples(s, "3", "+1=compile<0@0 +2=parse<1@0 2 ");
	s->keep.words[0] = '\0';
	send(s, &(struct event){.kind = EVENT_THREAD_END, .ending = {.id = 0, .time = 50}});
	assert_string_equal(s->keep.words, "-2@10 -1@10 ");
}

static void an_epoch_begins_again(void **state)
{
	struct state *s = *state;

	samples(s, "3", "+1=compile<0@0 +2=parse<1@0 2 ");
	send_tables(s);
	samples(s, "3", "+1=compile<0@10 +2=parse<1@10 2 ");
	s->keep.words[0] = '\0';
	assert_int_equal(units__replay(s->units, &s->keep.sink), 0);
	assert_string_equal(s->keep.words, "+1=compile<0@10 +2=parse<1@10 ");
	/* What is over is not told again. */
	samples(s, "8", "+3=emit<1@20 3 -2@20 ");
	s->keep.words[0] = '\0';
	assert_int_equal(units__replay(s->units, &s->keep.sink), 0);
	assert_string_equal(s->keep.words, "+1=compile<0@10 +2=<0@0 +3=emit<1@20 ");
}

/* A line is of the compile around it, and inside of the line of the compile around that. */
static void lines(void **state)
{
	static const struct function_row functions[] = {{"at3", "/x/own/c.py", 50, "", FUNCTION_PYTHON}, {"at5", "/x/own/c.py", 60, "", FUNCTION_PYTHON}};
	static const struct frame_row frames[] = {{9, 0, 51, 0}, {10, 0, 61, 0}};
	/* 14 (>) at3 in compile, 15 compile in that, 16 (@) at5 in that, 17 (A) at3 in main, 18 (B) main, 19 (C) 14 with a cut */
	static const struct stack_row stacks[] = {{2, 10}, {14, 1}, {15, 11}, {1, 10}, {0, 0}, {14, 4}};
	struct state *s = *state;

	send_rows(s, EVENT_FUNCTIONS, 9, 2, functions);
	send_rows(s, EVENT_FRAMES, 10, 2, frames);
	send_rows(s, EVENT_STACKS, 14, 6, stacks);
	samples(s, "2>@", "+1=compile<0@0 +2=compile<1@20 L1=u.py:3<0^1 L2=u.py:5<1^2 1 1:1 2:2 ");
	samples(s, ">C", "1:1 1 -2@30 ");
	samples(s, "A", "0 -1@50 ");
	s->keep.words[0] = '\0';
	assert_int_equal(units__replay(s->units, &s->keep.sink), 0);
	assert_string_equal(s->keep.words, "+1=<0@0 +2=<0@0 L1=u.py:3<0^1 L2=u.py:5<1^2 ");
	/* Ids begin again with an epoch. */
	send_tables(s);
	send_rows(s, EVENT_FUNCTIONS, 9, 2, functions);
	send_rows(s, EVENT_FRAMES, 10, 2, frames);
	send_rows(s, EVENT_STACKS, 14, 6, stacks);
	samples(s, "@", "+1=compile<0@60 +2=compile<1@60 L1=u.py:3<0^1 L2=u.py:5<1^2 2:2 ");
}

/* A compile that runs the program's own code is at its lines, one inside of the other; frames of the compiler between them are none. */
static void traced_lines(void **state)
{
	static const struct function_row functions[] = {{"trace", "/x/own/c.py", 70, "", FUNCTION_PYTHON}, {"f", "/x/u.py", 1, "", FUNCTION_PYTHON},
							{"add", "/x/own/np.py", 80, "", FUNCTION_PYTHON}, {"g", "/x/u.py", 8, "", FUNCTION_PYTHON}};
	static const struct frame_row frames[] = {{9, 0, 71, 0}, {10, 0, 2, 0}, {10, 2, 3, 0}, {11, 0, 81, 0}, {12, 0, 9, 0}};
	/* 14 (>) trace in main, 15 (?) f at 2 in that, 16 (@) f at 3, 17 (A) add in 16, 18 (B) g in 17, 19 (C) trace in 18, 20 (D) g in 19,
	 * 21 (E) f in compile, which does not trace */
	static const struct stack_row stacks[] = {{1, 10}, {14, 11}, {14, 12}, {16, 13}, {17, 14}, {18, 10}, {19, 14}, {2, 11}};
	struct state *s = *state;

	send_rows(s, EVENT_FUNCTIONS, 9, 4, functions);
	send_rows(s, EVENT_FRAMES, 10, 5, frames);
	send_rows(s, EVENT_STACKS, 14, 8, stacks);
	samples(s, ">?@A", "+1=trace<0@0 L1=/x/u.py:2<0^1 L2=/x/u.py:3<0^1 1 1:1 1:2 1:2 ");
	samples(s, "BD", "+2=trace<1@50 L3=/x/u.py:9<2^1 L4=/x/u.py:9<3^2 1:3 2:4 ");
	samples(s, "E", "+3=compile<0@60 3 -2@60 -1@60 ");
}

/* What the thread waited for before the first sample was no part of it: a period of CPU at most. */
static void a_wait_is_before(void **state)
{
	struct state *s = *state;
	const struct sample_row row = {.time = 9000000, .wall = 8000000, .stack = 2};

	send(s, &(struct event){.kind = EVENT_SESSION, .session = {.rate = 1000, .mode = "cpu", .boot_id = "", .command = ""}});
	send_tables(s);
	s->keep.words[0] = '\0';
	send(s, &(struct event){.kind = EVENT_SAMPLES, .samples = {1, &row}});
	assert_string_equal(s->keep.words, "+1=compile<0@8000000 1 ");
}

/* Their places are not in the order of time: one shorter than a period goes to what is around it. */
static void short_waits_begin_and_end_nothing(void **state)
{
	struct state *s = *state;
	const struct sample_row rows[] = {{.time = 9000000, .wall = 1000000, .stack = 3},
					  {.time = 9100000, .wall = 100000, .stack = 8, .cause = 1},
					  {.time = 9200000, .wall = 100000, .stack = 1, .cause = 1},
					  {.time = 9300000, .wall = 100000, .stack = 3},
					  {.time = 11000000, .wall = 1700000, .stack = 8, .cause = 1}};

	send(s, &(struct event){.kind = EVENT_SESSION, .session = {.rate = 1000, .mode = "wall", .boot_id = "", .command = ""}});
	send_tables(s);
	s->keep.words[0] = '\0';
	send(s, &(struct event){.kind = EVENT_SAMPLES, .samples = {5, rows}});
	assert_string_equal(s->keep.words, "+1=compile<0@8000000 +2=parse<1@8000000 +3=emit<1@9300000 2 1 0 2 3 -2@9300000 ");
}

static void works(struct state *s, uint32_t how, uint32_t call, uint32_t cause, const char *expected)
{
	struct sample_row row = {.time = s->now += 10, .wall = 10, .cpu = 10, .thread = 1, .stack = 14, .how = how, .call = call, .cause = cause};

	s->keep.words[0] = '\0';
	send(s, &(struct event){.kind = EVENT_SAMPLES, .samples = {1, &row}});
	assert_string_equal(s->keep.words, expected);
}

/* A worker's passes are in what its caller is in. */
static void workers(void **state)
{
	static const struct stack_row stack = {0, 3};
	struct state *s = *state;

	send_tables(s);
	send(s, &(struct event){.kind = EVENT_THREAD, .thread = {.id = 1, .tid = 8, .name = ""}});
	send_rows(s, EVENT_STACKS, 14, 1, &stack);
	works(s, ATTRIBUTION_UNKNOWN, 0, 0, "0 ");
	samples(s, "3", "+1=compile<0@10 +2=parse<1@10 2 ");
	works(s, ATTRIBUTION_WOKEN, 3, 0, "+3=A<2@20 3 ");
	works(s, ATTRIBUTION_WOKEN, 3, 0, "3 ");
	works(s, 0, 0, 5, "0 -3@40 ");
	works(s, ATTRIBUTION_ONLY, 3, 0, "+4=A<2@50 4 ");
	/* Its caller has gone on to a phase that no sample has told of yet; and into a compile inside of the phase. */
	works(s, ATTRIBUTION_ONLY, 8, 0, "+5=A<1@60 5 -4@60 ");
	works(s, ATTRIBUTION_ONLY, 4, 0, "+6=compile<2@80 +7=A<6@70 7 -5@70 ");
	samples(s, "4", "6 ");
	works(s, ATTRIBUTION_UNKNOWN, 0, 0, "0 -7@80 ");
	/* Of the call's stack nothing is known. */
	works(s, ATTRIBUTION_LIKELY, 0, 0, "+8=A<6@100 8 ");
	/* A call that is in no compile, though no sample of the caller has shown yet that its compile is over. */
	works(s, ATTRIBUTION_WOKEN, 1, 0, "0 -8@110 ");
}

static void refused(void **state)
{
	struct state *s = *state;
	const struct sample_row row = {.time = 5, .stack = 14};
	const struct event event = {.kind = EVENT_SAMPLES, .samples = {1, &row}};

	assert_int_equal(units__sink(s->units)->event(units__sink(s->units), &event), -EBADMSG);
}

static void sums(void **state)
{
	const struct unit_row rows[] = {
		{0, 0, RULE_UNIT, "C", "f", "int", 0, 0, "", 0, 0}, {1, 0, RULE_PHASE, "C", "typing", "", 0, 0, "", 0, 0},
		{2, 0, RULE_UNIT, "C", "g", "", 0, 0, "", 0, 0},	 {3, 0, RULE_PHASE, "C", "typing", "", 0, 0, "", 0, 0},
	};
	const struct sample_row samples[] = {
		{.time = 10, .wall = 10, .unit = 1}, {.time = 20, .wall = 10, .unit = 2}, {.time = 30, .wall = 10, .unit = 3}, {.time = 40, .wall = 10, .unit = 4}};
	const struct unit_row late[] = {{0, 0, RULE_UNIT, "C", "h", "", 70, 0, "", 0, 0}, {1, 0, RULE_UNIT, "C", "i", "", 98, 0, "", 0, 0}};
	const struct sample_row waited = {.time = 100, .wall = 50, .unit = 2};
	const struct unit_line *lines;
	struct unit_sums *table;
	uint32_t n;

	assert_int_equal(unit_sums__new(&table), 0);
	assert_int_equal(unit_sums__event(table, &(struct event){.kind = EVENT_UNITS, .rows = {1, 4, rows}}), 0);
	assert_int_equal(unit_sums__event(table, &(struct event){.kind = EVENT_SAMPLES, .samples = {4, samples}}), 0);
	assert_int_equal(unit_sums__lines(table, RULE_UNIT, &lines, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(lines[0].name, "f");
	assert_int_equal(lines[0].inclusive, 40);
	assert_int_equal(lines[0].exclusive, 20); /* its own, and its phase's own */
	assert_int_equal(lines[1].inclusive, 20);
	assert_int_equal(lines[1].exclusive, 20);
	assert_int_equal(unit_sums__lines(table, RULE_PHASE, &lines, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(lines[0].count, 2);
	assert_int_equal(lines[0].inclusive, 30); /* once, though it is inside of itself */
	assert_int_equal(lines[0].exclusive, 20);
	/* A sample that waited before the innermost began. */
	assert_int_equal(unit_sums__event(table, &(struct event){.kind = EVENT_UNITS, .rows = {1, 2, late}}), 0);
	assert_int_equal(unit_sums__event(table, &(struct event){.kind = EVENT_SAMPLES, .samples = {1, &waited}}), 0);
	assert_int_equal(unit_sums__lines(table, RULE_UNIT, &lines, &n), 0);
	assert_int_equal(n, 4);
	assert_string_equal(lines[1].name, "h");
	assert_int_equal(lines[1].inclusive, 30);
	assert_int_equal(lines[1].exclusive, 28);
	assert_string_equal(lines[3].name, "i");
	assert_int_equal(lines[3].inclusive, 2);
	unit_sums__free(table);
}

/* What a worker did has a part of the time that its caller waited meanwhile, at most what it ran. */
static void shared_out(void **state)
{
	const struct unit_row rows[] = {{0, 0, RULE_UNIT, "C", "f", "", 0, 0, "", 0, 0},
					{1, 1, RULE_PASS, "C", "p", "", 0, 0, "", 0, 0},
					{1, 2, RULE_PASS, "C", "q", "", 0, 0, "", 0, 0}};
	const struct sample_row samples[] = {
		{.time = 10, .wall = 10, .cpu = 10, .unit = 1},
		{.time = 20, .wall = 20, .cpu = 10, .thread = 1, .unit = 2, .how = ATTRIBUTION_WOKEN},
		{.time = 30, .wall = 30, .cpu = 30, .thread = 2, .unit = 3, .how = ATTRIBUTION_WOKEN},
		{.time = 30, .wall = 20, .unit = 1, .cause = 5},
		{.time = 40, .wall = 10, .cpu = 5, .thread = 2, .unit = 3, .how = ATTRIBUTION_ONLY},
		{.time = 50, .wall = 20, .cpu = 0, .unit = 1, .cause = 5},
	};
	const struct unit_line *lines;
	struct unit_sums *table;
	uint32_t n;

	assert_int_equal(unit_sums__new(&table), 0);
	assert_int_equal(unit_sums__event(table, &(struct event){.kind = EVENT_UNITS, .rows = {1, 3, rows}}), 0);
	assert_int_equal(unit_sums__event(table, &(struct event){.kind = EVENT_SAMPLES, .samples = {6, samples}}), 0);
	assert_int_equal(unit_sums__lines(table, RULE_UNIT, &lines, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(lines[0].inclusive, 50);
	assert_int_equal(unit_sums__lines(table, RULE_PASS, &lines, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(lines[0].name, "q");
	assert_int_equal(lines[0].exclusive, 15 + 5);
	assert_int_equal(lines[1].exclusive, 5);
	unit_sums__free(table);
}

static void add_variable(struct rec *rec, struct part_variables *part, const char *name, uint16_t kind)
{
	struct part_string *string = (void *)(rec->data + rec->size);
	uint32_t before = part->part.size;

	rec_string(rec, PART_NAME, name);
	string->variable = kind;
	part->part.size = before + string->part.size;
	part->n = ++part->total;
	((struct record_code *)rec->data)->parts--; /* it is inside of the other part */
}

/* Which slots are asked for: cells are marked so, the last one of a name counts, and what a rule does not name is left out. */
static void marks(void **state)
{
	static const char rule[] = "compiler C\nunit\nfile */c.py\nfunction compile\n"
				   "name absent | func.name | \"none\"\nsignature args.* | func.args\ndefined code\n";
	struct record_task task = rec_task(7, 7, 0, 1, "t");
	struct rules_error error;
	struct part_variables *part;
	struct locals_capture capture;
	struct units *units;
	struct rules *rules;
	struct keep keep = {};
	static struct rec rec;

	assert_int_equal(rules__new(&rules), 0);
	assert_int_equal(rules__parse(rules, "test", rule, strlen(rule), &error), 0);
	assert_int_equal(units__new(rules, &keep.sink, &units), 0);
	rec_code(&rec, 1, &task, 0x1234, 1, 0);
	rec_string(&rec, PART_NAME, "compile");
	rec_string(&rec, PART_FILE, "/x/c.py");
	part = rec_part(&rec, PART_VARIABLES, 0, sizeof(*part), 0);
	add_variable(&rec, part, "self", 0);
	add_variable(&rec, part, "args", 0);
	add_variable(&rec, part, "func", 0);
	add_variable(&rec, part, "other", 0);
	add_variable(&rec, part, "func", VARIABLE_CELL);
	add_variable(&rec, part, "code", VARIABLE_CELL);
	part->part.loss = LOSS_PAGE_FAULT; /* whole ones only: another comes */
	assert_false(units__code(units, (void *)rec.data, false, &capture));
	part->part.loss = 0;
	assert_true(units__code(units, (void *)rec.data, false, &capture));
	assert_int_equal(capture.key, 0x1234);
	assert_int_equal(capture.slots[0], 4 | VALUE_SLOT_CELL);
	assert_int_equal(capture.slots[1], 1);
	assert_int_equal(capture.slots[2], 5 | VALUE_SLOT_CELL);
	assert_int_equal(capture.slots[3], VALUE_SLOT_NONE);
	/* code itself; func.name, func.args, which begin with the first word; no items */
	assert_int_equal(capture.copies, 1 << 2 | 1 << capture_path_shift(0) | 1 << capture_path_shift(1));
	units__free(units);
	rules__free(rules);
}

/* --- calls, told apart by what the sampler gave of them --- */

static bool in_cell; /* `func` is an argument in a cell */
static const char valued[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nhas code\nname func.__name__\n";
#define KEY 0x77ull

static void set_up_values(struct state *s, const char *valued, uint32_t arguments)
{
	struct record_task task = rec_task(7, 7, 0, 1, "t");
	struct rules_error error;
	struct part_variables *part;
	struct locals_capture capture;
	static struct rec rec;

	s->keep.sink.event = keep_event;
	assert_int_equal(rules__new(&s->rules), 0);
	assert_int_equal(rules__parse(s->rules, "test", valued, strlen(valued), &error), 0);
	assert_int_equal(units__new(s->rules, &s->keep.sink, &s->units), 0);
	/* Line 5 is the one that has `code`; a method of the same name, on line 9, is none. */
	for (uint32_t i = 0; i < 2; i++) {
		rec_code(&rec, 1, &task, KEY + i, i ? 9 : 5, 0);
		rec_string(&rec, PART_NAME, "compile");
		rec_string(&rec, PART_FILE, "/x/own/c.py");
		((struct record_code *)rec.data)->arg_count = arguments;
		part = rec_part(&rec, PART_VARIABLES, 0, sizeof(*part), 0);
		add_variable(&rec, part, "func", in_cell ? VARIABLE_CELL | VARIABLE_ARGUMENT : 0);
		if (!i)
			add_variable(&rec, part, "code", 0);
		assert_int_equal(units__code(s->units, (void *)rec.data, false, &capture), !i);
	}
	{
		static const struct function_row functions[] = {{"compile", "/x/own/c.py", 5, "", FUNCTION_PYTHON},
								{"compile", "/x/own/c.py", 9, "", FUNCTION_PYTHON}};
		static const struct frame_row frames[] = {{0, 0, 5, 0}, {1, 0, 9, 0}};
		static const struct stack_row stacks[] = {{0, 0}, {1, 1}};

		send(s, &(struct event){.kind = EVENT_EPOCH});
		send(s, &(struct event){.kind = EVENT_THREAD, .thread = {.tid = 7, .name = ""}});
		send_rows(s, EVENT_FUNCTIONS, 0, 2, functions);
		send_rows(s, EVENT_FRAMES, 0, 2, frames);
		send_rows(s, EVENT_STACKS, 1, 2, stacks);
	}
}

static struct host_reader *memory;
static int32_t stands; /* offset in the bytecode */
static const char *held; /* the text that the word refers to: the record has a copy of it */
static bool apart;       /* its characters are elsewhere */
static bool by_path;     /* it is what an attribute of the word's object leads to */

static void put_held(struct rec *rec, const struct py_layout *layout, uint64_t word)
{
	uint32_t len = (uint32_t)strlen(held), state = 1 << 2 | 1 << 6 | (apart ? 0 : 1 << 5);
	uint16_t begin = apart ? layout->unicode_compact_data + 8 : layout->unicode_ascii_data;
	struct part_object *object = rec_part(rec, PART_OBJECT, 0, OBJECT_FIXED, begin + len);
	const uint64_t place = object->apart = apart ? 0x123456 : 0;

	object->address = word;
	object->flags = OBJECT_IS_TEXT | (by_path ? object_of_path(0, 1) : 0);
	object->begin = begin;
	object->end = (uint16_t)(begin + len);
	memcpy(object->bytes + layout->unicode_length, &len, 4);
	memcpy(object->bytes + layout->unicode_state, &state, 4);
	memcpy(object->bytes + layout->unicode_compact_data, &place, 8);
	memcpy(object->bytes + begin, held, len);
}

/* A record of stack 2, whose frame at `address` holds `word`. */
static void valued_record(struct state *s, uint32_t flags, uint64_t address, uint64_t word, uint8_t unread)
{
	static const struct py_layout layout = {.version = 0x030b00, .unicode_length = 16, .unicode_state = 32, .unicode_ascii_data = 48,
						.unicode_compact_data = 72, .state_kind_shift = 2, .state_compact_shift = 5, .state_ascii_shift = 6};
	struct record_task task = rec_task(7, 7, 0, 1, "t");
	const struct py_frame frames[] = {{.code = KEY + 1}, {.code = KEY, .offset = stands}};
	struct frame_values values = {.frame = 1, .unread = unread, .n = 1, .slots = {in_cell ? VALUE_SLOT_CELL : 0, 0xff, 0xff, 0xff}, .address = address, .words = {word}};
	struct part_values *part;
	static struct rec rec;
	struct sample sample;

	rec_sample(&rec, s->now += 10, &task, 0)->flags = flags;
	rec_frames(&rec, 0, frames, 2);
	part = rec_part(&rec, PART_VALUES, 0, sizeof(*part), FRAME_VALUES_HEAD + 8);
	part->n = 1;
	memcpy(part + 1, &values, FRAME_VALUES_HEAD + 8);
	if (held)
		put_held(&rec, &layout, word);
	record__parse((void *)rec.data, &sample);
	assert_int_equal(units__sample(s->units, &sample, memory, &layout), 0);
}

/* ... and its event: a tick's, or a wait's, which comes later. */
static void valued_event(struct state *s, uint64_t taken)
{
	struct sample_row row = {.time = taken ? s->now += 5 : s->now, .wall = 10, .stack = 2, .cause = !!taken, .taken = taken};

	send(s, &(struct event){.kind = EVENT_SAMPLES, .samples = {1, &row}});
}

static void valued_sample(struct state *s, uint64_t address, uint64_t word, uint8_t unread)
{
	valued_record(s, 0, address, word, unread);
	valued_event(s, 0);
}

static void calls_are_told_apart(void **state)
{
	struct state s = {};

	set_up_values(&s, valued, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	assert_string_equal(s.keep.words, "+1=<0@0 1 1 ");
	s.keep.words[0] = '\0';
	valued_sample(&s, 0x1000, 0x6000, 0); /* other locals */
	valued_sample(&s, 0x2000, 0x6000, 0); /* another frame */
	assert_string_equal(s.keep.words, "+2=<0@20 2 -1@20 +3=<0@30 3 -2@30 ");
	s.keep.words[0] = '\0';
	valued_sample(&s, 0x2000, 0x9999, 1); /* what could not be read tells nothing */
	valued_sample(&s, 0x2000, 0x6000, 0);
	valued_sample(&s, 0x2000, 0, 0); /* the next call, before it has set its variable */
	valued_sample(&s, 0x2000, 0x6000, 0);
	assert_string_equal(s.keep.words, "3 3 +4=<0@60 4 -3@60 4 ");
	assert_int_equal(units__unnamed(s.units), 3); /* the fourth goes on */
	assert_int_equal(units__unnamed(s.units), 0);
	units__free(s.units);
	rules__free(s.rules);
}

/* An argument that is unset was deleted: the same call; when it is set again, it is another one. */
static void arguments_are_deleted(void **state)
{
	struct state s = {};

	set_up_values(&s, valued, 1);
	valued_sample(&s, 0x1000, 0x5000, 0);
	valued_sample(&s, 0x1000, 0, 0);
	valued_sample(&s, 0x1000, 0, 0);
	assert_string_equal(s.keep.words, "+1=<0@0 1 1 1 ");
	s.keep.words[0] = '\0';
	valued_sample(&s, 0x1000, 0x5000, 0);
	assert_string_equal(s.keep.words, "+2=<0@30 2 -1@30 ");
	units__free(s.units);
	rules__free(s.rules);
}

/* An argument that is to be in a cell: before the cell is made, what was read is none of its. */
static void cells_are_made(void **state)
{
	struct state s = {};

	in_cell = true;
	set_up_values(&s, valued, 1);
	stands = 40;
	valued_sample(&s, 0x1000, 0x5000, 0);
	stands = 0; /* the next call */
	valued_sample(&s, 0x1000, 0x9999, 0);
	valued_sample(&s, 0x1000, 0x8888, 1);
	stands = 40;
	valued_sample(&s, 0x1000, 0x6000, 0);
	valued_sample(&s, 0x1000, 0x6000, 0);
	assert_string_equal(s.keep.words, "+1=<0@0 1 +2=<0@10 2 -1@10 2 2 2 ");
	in_cell = false;
	stands = 0;
	units__free(s.units);
	rules__free(s.rules);
}

/* What a thread's frames held as it left its CPU, for the waits whose stack was recorded then; one that is older than another row ends and begins nothing. */
static void waits_have_values(void **state)
{
	struct state s = {};
	uint64_t taken;

	set_up_values(&s, valued, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	valued_record(&s, SAMPLE_OFF_CPU, 0x1000, 0x6000, 0);
	taken = s.now;
	valued_event(&s, taken);
	assert_string_equal(s.keep.words, "+1=<0@0 1 +2=<0@15 2 -1@10 ");
	s.keep.words[0] = '\0';
	valued_sample(&s, 0x1000, 0x7000, 0);
	valued_event(&s, taken);
	valued_sample(&s, 0x1000, 0x7000, 0);
	assert_string_equal(s.keep.words, "+3=<0@25 3 -2@25 0 3 ");
	units__free(s.units);
	rules__free(s.rules);
}

static unsigned n_reads;
static int read_nothing(struct host_reader *self, void *to, size_t size, uint64_t address)
{
	n_reads++;
	return -EFAULT;
}

static void record_without_values(struct state *s, uint16_t loss)
{
	struct record_task task = rec_task(7, 7, 0, 1, "t");
	const struct py_frame frames[] = {{.code = KEY + 1}};
	static struct rec rec;
	struct sample sample;

	rec_sample(&rec, s->now += 10, &task, 0);
	rec_frames(&rec, loss, frames, 1);
	record__parse((void *)rec.data, &sample);
	assert_int_equal(units__sample(s->units, &sample, memory, NULL), 0);
}

/* What a frame's words point to is read once, as long as each record of the thread has the frame. */
static void read_again_after_a_stack_without_it(void **state)
{
	static const char text[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nhas code\nname func.__name__ | \"f\"\n";
	struct host_reader reader = {.read = read_nothing};
	struct state s = {};
	unsigned once;

	set_up_values(&s, text, 0);
	memory = &reader;
	n_reads = 0;
	valued_sample(&s, 0x1000, 0x5000, 0);
	once = n_reads;
	assert_true(once);
	valued_sample(&s, 0x1000, 0x5000, 0);
	record_without_values(&s, LOSS_FRAME_READ); /* cut: the frame may be in what it lacks */
	valued_sample(&s, 0x1000, 0x5000, 0);
	assert_int_equal(n_reads, once);
	record_without_values(&s, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	assert_int_equal(n_reads, 2 * once);
	memory = NULL;
	units__free(s.units);
	rules__free(s.rules);
}

/* A name that comes after the unit's row is told when it comes, to late joiners as well, and with its end. */
static void named_late(void **state)
{
	static const char text[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nhas code\nname func.__name__ | \"f\"\n";
	struct host_reader reader = {.read = read_nothing};
	struct state s = {};

	set_up_values(&s, text, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	memory = &reader;
	valued_sample(&s, 0x1000, 0x5000, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	assert_string_equal(s.keep.words, "+1=<0@0 1 ~1=f 1 1 ");
	s.keep.words[0] = '\0';
	assert_int_equal(units__replay(s.units, &s.keep.sink), 0);
	assert_string_equal(s.keep.words, "+1=f<0@0 ");
	s.keep.words[0] = '\0';
	valued_sample(&s, 0x2000, 0x6000, 0);
	assert_string_equal(s.keep.words, "+2=f<0@30 2 -1@30f ");
	memory = NULL;
	units__free(s.units);
	rules__free(s.rules);
}

/* What needs no value is taken in its place among those that do. */
static void own_name_behind_a_value(void **state)
{
	static const char text[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nhas code\n"
				   "name func.__name__ | @function + \" of \" + func.x | \"a \" + @function\nsignature func.y | @function\n";
	struct host_reader reader = {.read = read_nothing};
	struct state s = {};

	set_up_values(&s, text, 0);
	memory = &reader;
	valued_sample(&s, 0x1000, 0x5000, 0);
	assert_string_equal(s.keep.words, "+1=a compile<0@0 1 ");
	memory = NULL;
	units__free(s.units);
	rules__free(s.rules);
}

/* A text that a local holds is that of the tick, wherever its characters are: at the same address it may be another one, and what
 * lies there later is never read. */
static void texts_are_the_tick_s(void **state)
{
	static const char text[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nhas code\nname func\nsignature func.@symbol\n";
	struct host_reader reader = {.read = read_nothing};

	memory = &reader;
	n_reads = 0;
	for (apart = false;; apart = true) {
		struct state s = {};

		set_up_values(&s, text, 1);
		held = "first";
		valued_sample(&s, 0x1000, 0x5000, 0);
		valued_sample(&s, 0x1000, 0x5000, 0);
		held = "of '_Z6seconda'";
		valued_sample(&s, 0x1000, 0x5000, 0);
		held = NULL; /* a copy that is missing tells nothing, and does not end what goes on */
		valued_sample(&s, 0x1000, 0x5000, 0);
		valued_sample(&s, 0x2000, 0x5000, 0);
		held = "third";
		valued_sample(&s, 0x2000, 0x5000, 0);
		assert_string_equal(s.keep.words, "+1=first<0@0 1 1 +2=of '_Z6seconda'<0@20 2 -1@20 2 2 +3=third<0@50 3 -2@50 ");
		units__free(s.units);
		rules__free(s.rules);
		if (apart)
			break;
	}
	assert_int_equal(n_reads, 0);
	memory = NULL;
	held = NULL;
	apart = false;
}

/* What an attribute leads to is that of the tick. Until the tick has it there is no name; then it comes, but not to another call's. */
static void attributes_are_the_tick_s(void **state)
{
	static const char text[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nhas code\nname func.name | func.__name__\n";
	struct host_reader reader = {.read = read_nothing};
	struct state s = {};

	memory = &reader;
	by_path = true;
	set_up_values(&s, text, 1);
	valued_sample(&s, 0x1000, 0x5000, 0);
	held = "first";
	valued_sample(&s, 0x1000, 0x5000, 0);
	valued_sample(&s, 0x1000, 0x5000, 0);
	held = "second"; /* all lies where it lay */
	valued_sample(&s, 0x1000, 0x5000, 0);
	held = NULL; /* an object that the tick cannot follow: which call it is of is not known */
	valued_sample(&s, 0x1000, 0x5000, 0);
	held = "third"; /* another object */
	valued_sample(&s, 0x1000, 0x6000, 0);
	assert_string_equal(s.keep.words, "+1=<0@0 1 ~1=first 1 1 +2=second<0@30 2 -1@30first +3=<0@40 3 -2@40 +4=third<0@50 4 -3@50 ");
	units__free(s.units);
	rules__free(s.rules);
	memory = NULL;
	held = NULL;
	by_path = false;
}

/* Names by values are not the same name because neither is known. */
static void passes_by_values(void **state)
{
	static const char text[] = "compiler C\nunit\nfile */own/c.py\nfunction compile\nname x.y\n"
				   "pass\nfile */own/c.py\nfunction parse\nname x.y\n";
	struct rules_error error;
	struct state s = {};

	s.keep.sink.event = keep_event;
	assert_int_equal(rules__new(&s.rules), 0);
	assert_int_equal(rules__parse(s.rules, "test", text, strlen(text), &error), 0);
	assert_int_equal(units__new(s.rules, &s.keep.sink, &s.units), 0);
	send_tables(&s);
	samples(&s, "23", "+1=<0@0 +2=<1@10 1 2 ");
	units__free(s.units);
	rules__free(s.rules);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nest),	TEST(phases_follow), TEST(what_is_cut_ends_nothing), TEST(without_the_gil_a_compile_goes_on), TEST(another_place_is_another_call), TEST(threads_end),
		TEST(an_epoch_begins_again), TEST(lines), TEST(traced_lines), TEST(a_wait_is_before), TEST(refused), TEST(workers), TEST(short_waits_begin_and_end_nothing), TEST(once), TEST(one_is_apart), cmocka_unit_test(sums), cmocka_unit_test(shared_out), cmocka_unit_test(marks),
		cmocka_unit_test(calls_are_told_apart), cmocka_unit_test(arguments_are_deleted),
		cmocka_unit_test(cells_are_made), cmocka_unit_test(waits_have_values),
		cmocka_unit_test(read_again_after_a_stack_without_it), cmocka_unit_test(named_late),
		cmocka_unit_test(own_name_behind_a_value), cmocka_unit_test(texts_are_the_tick_s), cmocka_unit_test(attributes_are_the_tick_s), cmocka_unit_test(passes_by_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
