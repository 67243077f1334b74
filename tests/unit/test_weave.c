/* SPDX-License-Identifier: MIT */
/* Weaving, by cases that were written by hand from what CPython does (docs/weaving.md).
 *
 * Python frames, innermost first, one letter each; '.' behind a letter: PY_FRAME_ENTRY; '*': PY_FRAME_UNSURE; '|' before
 * one: PY_FRAME_TSTATE; '-' before one: inside of it a loop without a frame, '_' behind one: outside of it; '~' at
 * the end: cut. Native frames, innermost first: 'E' the eval loop, 'H' a handler of a tail-calling interpreter, 'B' where
 * a greenlet begins, 'X' where one is left for another, 'L' what that calls before it overwrites the stack, 'A' and when it
 * is done, 'S' greenlet's code without names, lower case: other code; '~' at the end: cut. The stack that must
 * come out, innermost first: letters of Python frames, native frames by their place in the list in
 * brackets; "!" a note that Python frames are missing, "?" that native ones are, "#" left out. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "weave/eval_ranges.h"
#include "weave/frames.h"
#include "weave/weave.h"

#define FRAMES 64u

struct stacks {
	struct py_frame python[FRAMES];
	uint8_t native[FRAMES];
	char letters[2][FRAMES];
	struct weave_input input;
	struct weave_item items[2 * FRAMES + WEAVE_ITEMS_MORE];
	struct weave_result result;
	char text[512];
};

static struct stacks s;

static void read_python(const char *text)
{
	uint32_t n = 0, flags = 0;

	for (; *text; text++) {
		if (*text == '.') {
			s.python[n - 1].flags |= PY_FRAME_ENTRY;
		} else if (*text == '*') {
			s.python[n - 1].flags |= PY_FRAME_UNSURE;
		} else if (*text == '|') {
			flags |= PY_FRAME_TSTATE;
		} else if (*text == '-') {
			flags += 1u << PY_FRAME_LOOPS_INSIDE_SHIFT;
		} else if (*text == '_') {
			s.python[n - 1].flags += 1u << PY_FRAME_LOOPS_OUTSIDE_SHIFT;
		} else if (*text == '~') {
			s.input.python_whole = false;
		} else {
			s.letters[0][n] = *text;
			s.python[n++] = (struct py_frame){.code = (uint64_t)*text, .flags = flags};
			flags = 0;
		}
	}
	s.input.n_python = n;
}

static void read_native(const char *text)
{
	uint32_t n = 0;

	for (; *text; text++) {
		if (*text == '~') {
			s.input.native_whole = false;
			continue;
		}
		s.letters[1][n] = *text;
		s.native[n++] = *text == 'E'   ? WEAVE_EVAL
				: *text == 'H' ? WEAVE_HANDLER
				: *text == 'B' ? WEAVE_BASE
				: *text == 'S' ? WEAVE_SWITCHER
				: *text == 'X' ? WEAVE_SWITCH
				: *text == 'L' ? WEAVE_LEAVE
				: *text == 'A' ? WEAVE_ARRIVE
					       : WEAVE_CODE;
	}
	s.input.n_native = n;
}

static const char *run(const char *python, const char *native)
{
	uint32_t i, len = 0;

	memset(&s, 0, sizeof(s));
	s.input = (struct weave_input){.python = s.python,
				       .native = s.native,
				       .python_whole = true,
				       .native_whole = true,
				       .eval_known = true};
	read_python(python);
	read_native(native);
	weave(&s.input, s.items, &s.result);
	assert_true(s.result.n <= s.input.n_python + s.input.n_native + WEAVE_ITEMS_MORE);
	for (i = 0; i < s.result.n; i++) {
		const struct weave_item *item = &s.items[i];

		switch (item->kind) {
		case WEAVE_PYTHON:
			assert_true(item->index < s.input.n_python);
			s.text[len++] = s.letters[0][item->index];
			break;
		case WEAVE_NATIVE:
			assert_true(item->index < s.input.n_native);
			s.text[len++] = '[';
			s.text[len++] = s.letters[1][item->index];
			s.text[len++] = ']';
			break;
		default:
			s.text[len++] = item->kind == WEAVE_CUT_PYTHON	 ? '!'
					: item->kind == WEAVE_CUT_NATIVE ? '?'
									 : '#';
		}
	}
	return s.text;
}

struct row {
	const char *why, *python, *native, *want;
	uint16_t loss;
	bool guess;
};

#define ROW(why_, python_, native_, want_, ...)                                                    \
	{                                                                                          \
		.why = (why_), .python = (python_), .native = (native_), .want = (want_),          \
		##__VA_ARGS__                                                                      \
	}

static void check(const struct row *rows, size_t n)
{
	for (; n; n--, rows++) {
		const char *got = run(rows->python, rows->native);

		if (strcmp(got, rows->want) || s.result.loss != rows->loss ||
		    s.result.guess != rows->guess)
			fail_msg("%s: %s + %s: wanted %s (loss %u, guess %d), got %s (loss %u, "
				 "guess %d)",
				 rows->why, rows->python, rows->native, rows->want, rows->loss,
				 rows->guess, got, s.result.loss, s.result.guess);
	}
}
#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

static void both_whole(void **state)
{
	static const struct row rows[] = {
		ROW("3.8: a native frame for each Python frame", "b.a.", "EvEms", "b[v]a[m][s]"),
		ROW("3.8: a C function is on top", "b.a.", "kEvEms", "[k]b[v]a[m][s]"),
		ROW("3.11: a loop runs many Python frames", "cba.", "kEms", "[k]cba[m][s]"),
		ROW("3.11: through C and back (ctypes, map, sort)", "dc.ba.", "EtqEms",
		    "dc[t][q]ba[m][s]"),
		ROW("3.12: deeper", "e.dc.ba.", "lExEyEms", "[l]e[x]dc[y]ba[m][s]"),
		ROW("loops that are neighbours", "b.a.", "EEms", "ba[m][s]"),
		ROW("a thread without main()", "a.", "E", "a"),
		ROW("another thread state inside of the first", "d.|cb.a.", "EiEjEs",
		    "d[i]cb[j]a[s]"),
		ROW("3.11: the inner state's end has no entry", "d|cb.", "EiEs", "d[i]cb[s]"),
		ROW("no Python at all", "", "klm", "[k][l][m]"),
		ROW("3.14, tail calls: handler and loop", "b.a.", "HEvHEms", "b[v]a[m][s]"),
		ROW("3.14: a handler called C", "b.a.", "kHEvHEms", "[k]b[v]a[m][s]"),
		ROW("3.14: the loop without a handler (it begins)", "b.a.", "EvHEms",
		    "b[v]a[m][s]"),
		ROW("3.14: the loop jumps to its first handler", "b.a.", "HvHms", "b[v]a[m][s]"),
		ROW("3.14: the same, neighbours", "b.a.", "HHms", "ba[m][s]"),
		ROW("destroying inside of a loop that goes on", "d.ba.", "EfdEms",
		    "d[f][d]ba[m][s]"),
	};

	CHECK(rows);
}

static void a_loop_begins_or_ends(void **state)
{
	static const struct row rows[] = {
		ROW("prologue: not linked yet", "a.", "EvEms", "[E][v]a[m][s]"),
		ROW("prologue of the first of all", "", "Ems", "[E][m][s]"),
		ROW("prologue: it checks the depth of recursion", "a.", "rEvEms",
		    "[r][E][v]a[m][s]"),
		ROW("3.8: the end checks the result", "a.", "rEvEms", "[r][E][v]a[m][s]"),
		ROW("a signal's handler on top of it", "a.", "hrEvEms", "[h][r][E][v]a[m][s]"),
		ROW("below what destroys something a loop begins", "b.a.", "EtdEvEms", "[E][t][d]b[v]a[m][s]"),
		ROW("tail calls: prologue", "a.", "EvHEms", "[E][v]a[m][s]"),
	};

	CHECK(rows);
}

static void a_loop_without_a_frame(void **state)
{
	static const struct row rows[] = {
		ROW("its locals are freed", "-a.", "fdEvEms", "[f][d][E][v]a[m][s]"),
		ROW("freeing runs Python code (__del__), which calls C", "d.-a.", "kEtdEvEms", "[k]d[t][d][E][v]a[m][s]"),
		ROW("the same twice", "d.--a.", "kEtdEudEvEms", "[k]d[t][d][E][u][d][E][v]a[m][s]"),
		ROW("that code's loop begins", "-a.", "EtdEvEms", "[E][t][d][E][v]a[m][s]"),
		ROW("further out", "d.cb.-a.", "EtEudEvEms", "d[t]cb[u][d][E][v]a[m][s]"),
		ROW("of all of the thread", "d._", "kEtdEms", "[k]d[t][d][E][m][s]"),
		ROW("two, and one begins", "d.__", "EkEtdEudEms", "[E][k]d[t][d][E][u][d][E][m][s]"),
		ROW("tail calls", "d.-a.", "HEtdHEvHEms", "d[t][d][H][E][v]a[m][s]"),
		ROW("of an inner thread state", "d.-|cb.a.", "EtEiEjEs", "d[t][E][i]cb[j]a[s]"),
		ROW("at an inner thread state's end", "d._|b.", "EtEiEs", "d[t][E][i]b[s]"),
		ROW("native cut", "d.-a.", "kEtdEw~", "[k]d[t][d][E][w]?a"),
		ROW("Python cut", "d.-a~", "kEtdEvEwEs", "[k]d[t][d][E][v]a![w][E][s]"),
		ROW("the last known one is such", "d._~", "kEtdEvEms", "[k]d[t][d][E]![v][E][m][s]"),
		ROW("too few loops", "d.-a.", "kEvEms", "[k]#da[m][s]", .loss = LOSS_WEAVE_COUNT),
	};

	CHECK(rows);
}

static void cut_at_the_outer_end(void **state)
{
	static const struct row rows[] = {
		ROW("native cut: pairs from the inner end", "c.b.a.", "kEvEw~", "[k]c[v]b[w]?a"),
		ROW("the leaf may have begun: a guess", "c.b.a.", "EvEw~", "c[v]b[w]?a",
		    .guess = true),
		ROW("only the leaf was asked for", "c.b.", "E~", "c?b"),
		ROW("native cut at once", "ba.", "~", "?ba"),
		ROW("native cut below a C function", "ba.", "jk~", "[j][k]?ba"),
		ROW("native reaches all Python frames", "b.a.", "kEvEm~", "[k]b[v]a[m]?"),
		ROW("one more, at the leaf", "a.", "EvEm~", "[E][v]a[m]?"),
		ROW("Python cut: pairs from the inner end", "cb~", "kEvEms", "[k]cb![v][E][m][s]"),
		ROW("Python cut behind an entry", "c.b~", "kEvEwEms", "[k]c[v]b![w][E][m][s]"),
		ROW("Python cut, the leaf may have begun: a guess", "b~", "EvEms", "b![v][E][m][s]",
		    .guess = true),
		ROW("no Python frame could be read", "~", "kEvEms", "[k][E][v][E][m][s]!"),
		ROW("both cut", "c.b~", "kEv~", "[k]c[v]?b!"),
		ROW("both cut, native further out", "c~", "kEvEw~", "[k]c![v][E][w]?"),
		ROW("both cut at once", "~", "~", "?!"),
		ROW("no Python, native cut", "", "kl~", "[k][l]?"),
	};

	CHECK(rows);
}

static void what_does_not_match(void **state)
{
	static const struct row rows[] = {
		ROW("3.9: throw() links generators without a loop", "c.b.a.", "kEvEms",
		    "[k]#cba[m][s]", .loss = LOSS_WEAVE_COUNT),
		ROW("two loops too many", "a.", "kEvEwEms", "[k]#a[m][s]",
		    .loss = LOSS_WEAVE_COUNT),
		ROW("and one of them may begin", "a.", "EvEwEms", "#a[m][s]",
		    .loss = LOSS_WEAVE_COUNT),
		ROW("Python cut, too few loops", "b.a~", "kEms", "[k]#ba!",
		    .loss = LOSS_WEAVE_COUNT),
		ROW("native cut, too many loops", "a.", "kEvEwEm~", "[k]#a",
		    .loss = LOSS_WEAVE_COUNT),
		ROW("no loop at all", "a.", "kms", "#a", .loss = LOSS_WEAVE_NO_EVAL),
		ROW("a thread that has loops and no Python", "", "kEvEms", "[k][E][v][E][m][s]#",
		    .loss = LOSS_WEAVE_COUNT),
	};

	CHECK(rows);
}

static void without_eval_loop_nothing_is_placed(void **state)
{
	run("a.", "kms~");
	s.input.eval_known = false;
	weave(&s.input, s.items, &s.result);
	assert_int_equal(s.result.loss, LOSS_WEAVE_NO_EVAL);
	assert_int_equal(s.result.n, 2);
	assert_int_equal(s.items[0].kind, WEAVE_LEFT_OUT);
	assert_int_equal(s.items[1].kind, WEAVE_PYTHON);
	run("", "kms");
	s.input.eval_known = false;
	weave(&s.input, s.items, &s.result);
	assert_int_equal(s.result.loss, 0);
	assert_int_equal(s.result.n, 3);
}

/* What is further out than a greenlet's begin is of other stacks. */
static void greenlets(void **state)
{
	static const struct {
		const char *python, *native;
		uint32_t own;
	} rows[] = {
		{"ab.", "EcBggE", 3},      /* two loops for one group: not a loop that begins */
		{"ab.c.", "EcEBggE~", 4},
		{"ab.", "EcEBg", 4},       /* a loop that begins, in a greenlet */
		{"a.b.c.", "EcBgEcEcB", 9}, /* the first one called Python code before the greenlet began: of the one around it */
		{"ab.", "EcSSgE", 3},      /* a stripped module */
		{"ab.", "SSgE", 4},        /* one that only switches */
		{"a.b.", "EcSSgE", 6},     /* nothing agrees: all stays */
		{"", "cBgg~", 2},          /* nothing of it runs yet */
		{"ab~", "EcEBg~", 4},
		{"ab.", "EccE", 4},
	};
	uint32_t n;
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		n = (run(rows[i].python, rows[i].native), s.input.n_native);
		assert_int_equal(weave__greenlet(&s.input), rows[i].own < n ? WEAVE_GREENLET : WEAVE_NO_GREENLET);
		assert_int_equal(s.input.n_native, rows[i].own);
		assert_int_equal(s.input.native_whole, rows[i].own < n || !strchr(rows[i].native, '~'));
	}
}

/* While one greenlet is left for another, only the switch itself is of both sides. */
static void greenlets_switch(void **state)
{
	static const struct {
		const char *python, *native;
		uint32_t own; /* 0: no switch */
	} rows[] = {
		{"ab.", "mXXgEs", 3},     /* though both sides are whole: they may be of two greenlets */
		{"ab.c.", "mXXgEcEcEs~", 3},
		{"ab.", "mXc~", 2},       /* what it returns to is being overwritten */
		{"", "mXXgs", 3},         /* nothing of Python runs */
		{"ab.c.", "mLXXgEcEs", 0}, /* it has overwritten nothing yet */
		{"ab.c.", "mLXXgEcEBgE", 0},
		{"abc.", "mLXXgEcEs", 5}, /* ..., but links frames anew */
		{"abc~", "LXgEcEs", 3},
		{"ab.", "EmXgE", 0},      /* Python runs inside of it */
		{"ab.c.", "mSSgEs", 3},   /* a stripped module */
		{"ab.", "mSSc~", 3},
		{"ab.", "mScEs~", 0},     /* one function of it may be any */
		{"ab.", "mSSgEs", 0},
	};
	bool switches;
	unsigned i;

	run("a*b.", "mXgE"); /* the other one's, or not all */
	assert_int_equal(weave__greenlet(&s.input), WEAVE_SWITCHES);
	assert_int_equal(s.input.n_python, 0);
	run("a*b~", "AXgE");
	assert_int_equal(weave__greenlet(&s.input), WEAVE_SWITCHES);
	assert_int_equal(s.input.n_python, 2);

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		run(rows[i].python, rows[i].native);
		switches = weave__greenlet(&s.input) == WEAVE_SWITCHES;
		assert_int_equal(switches ? s.input.n_native : 0, rows[i].own);
		assert_true(!switches || !s.input.native_whole);
	}
}

static void marks_by_name(void **state)
{
	assert_true(weave__switches("_greenlet.cpython-311-x86_64-linux-gnu.so") && !weave__switches("_gevent_cgreenlet.so"));
	assert_int_equal(frame_role__of_switcher("_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenletP7_object"), WEAVE_BASE);
	assert_int_equal(frame_role__of_switcher("g_initialstub"), WEAVE_BASE);
	assert_int_equal(frame_role__of_switcher("_ZN8greenlet12UserGreenlet8g_switchEv"), WEAVE_CODE);
	assert_int_equal(frame_role__of_switcher(NULL), WEAVE_SWITCHER);
	assert_int_equal(frame_role__of_switcher("slp_restore_state_trampoline"), WEAVE_CODE);
	assert_int_equal(frame_role__of_switcher("slp_save_state_trampoline.cold"), WEAVE_LEAVE);
	assert_int_equal(frame_role__of_switcher("_ZN8greenlet8Greenlet21g_switchstack_successEv"), WEAVE_SWITCH);
	assert_int_equal(frame_role__of_switcher("_ZN8greenlet8Greenlet13expose_framesEv"), WEAVE_LEAVE);
	assert_int_equal(frame_role__of_switcher("_ZN8greenlet11PythonState15unexpose_framesEv"), WEAVE_ARRIVE);
	static const struct {
		const char *name;
		enum frame_role role;
	} rows[] = {
		{"_PyEval_EvalFrameDefault", WEAVE_EVAL},
		{"_PyEval_EvalFrameDefault.cold", WEAVE_EVAL},
		{"_PyEval_EvalFrameDefault.lto_priv.0.cold.1", WEAVE_EVAL},
		{"_PyEval_EvalFrameDefaultX", WEAVE_CODE},
		{"_PyEval_EvalFrame", WEAVE_CODE},
		{"_TAIL_CALL_BINARY_OP", WEAVE_HANDLER},
		{"_TAIL_CALL_CALL.llvm.123", WEAVE_HANDLER},
		{"PyObject_Vectorcall", WEAVE_CODE},
		{"", WEAVE_CODE},
		{NULL, WEAVE_CODE},
		{".", WEAVE_CODE},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (frame_role__of(rows[i].name) != rows[i].role)
			fail_msg("%s: %d", rows[i].name, frame_role__of(rows[i].name));
}

/* Each address of a stretch has the same mark. */
static void stretches_of_the_loop(void **state)
{
	struct eval_range ranges[] = {{3, 5, WEAVE_EVAL, 0}, {5, 9, WEAVE_HANDLER, 0}, {12, 20, WEAVE_EVAL, 1}};
	uint32_t n;

	for (n = 0; n <= 3; n++) {
		const struct eval_ranges eval = {ranges, n};

		for (uint64_t vaddr = 1; vaddr < 24; vaddr++) {
			struct range in = {1, 24};
			enum frame_role role = eval_ranges__role(&eval, vaddr, &in);
			uint64_t at;

			assert_true(1 <= in.start && in.start <= vaddr && vaddr < in.end && in.end <= 24);
			for (at = in.start; at < in.end; at++)
				assert_int_equal(eval_ranges__role(&eval, at, NULL), role);
			assert_true(in.start == 1 || eval_ranges__role(&eval, in.start - 1, NULL) != role);
			assert_true(in.end == 24 || eval_ranges__role(&eval, in.end, NULL) != role);
		}
	}
}

/* A piece whose entry is damaged from its first instruction on is no function's begin: it has no state at all. */
static void damaged_entries(void **state)
{
	uint8_t bytes[] = {
		/* the CIE: version 1, "zR", code and data align, return column; def_cfa rsp + 8, offset 16 */
		20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
		/* the FDE: 16 bytes of code, one instruction, nops */
		16, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0};
	struct code_frames frames = {.bytes = bytes};
	const struct code_piece piece = {.start = 32, .size = 16, .entry = 24};

	frames.elf.eh_frame.size = sizeof(bytes);
	assert_true(code_frames__is_entry(&frames, &piece));
	bytes[41] = 0x3f; /* no instruction */
	assert_false(code_frames__is_entry(&frames, &piece));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_whole),
		cmocka_unit_test(a_loop_begins_or_ends),
		cmocka_unit_test(a_loop_without_a_frame),
		cmocka_unit_test(cut_at_the_outer_end),
		cmocka_unit_test(what_does_not_match),
		cmocka_unit_test(without_eval_loop_nothing_is_placed),
		cmocka_unit_test(greenlets),
		cmocka_unit_test(greenlets_switch),
		cmocka_unit_test(marks_by_name),
		cmocka_unit_test(stretches_of_the_loop),
		cmocka_unit_test(damaged_entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
