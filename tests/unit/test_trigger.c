/* SPDX-License-Identifier: MIT */
/* Conditions: how they are read, and what fires in events that are made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trigger/trigger.h"

#define MS 1000000ull
#define S (1000 * MS)

/* --- the parser --- */

static void good(void **state)
{
	static const struct {
		const char *text;
		struct condition is;
	} rows[] = {
		{"unit>2s", {.kind = UNIT_COMPILE, .limit = 2 * S}},
		{" unit > 2s ", {.kind = UNIT_COMPILE, .limit = 2 * S}},
		{"unit=svd>1.5", {.kind = UNIT_COMPILE, .name = "svd", .limit = 1500 * MS}},
		{"unit=a->b>1m", {.kind = UNIT_COMPILE, .name = "a->b", .limit = 60 * S}},
		{"phase=native_lowering>500ms", {.kind = UNIT_PHASE, .name = "native_lowering", .limit = 500 * MS}},
		{"phase>1ms", {.kind = UNIT_PHASE, .limit = MS}},
		{"pass = Loop* > 100ms", {.kind = UNIT_PASS, .name = "Loop*", .limit = 100 * MS}},
		{"cpu>90% for 10s", {.kind = CONDITION_CPU, .limit = 900 * MS, .seconds = 10}},
		{"cpu > 250%  for  1m", {.kind = CONDITION_CPU, .limit = 2500 * MS, .seconds = 60}},
		{"cpu>50%", {.kind = CONDITION_CPU, .limit = 500 * MS, .seconds = 1}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct condition condition;
		const char *sentence = condition__parse(rows[i].text, &condition);

		if (sentence)
			fail_msg("'%s' %s", rows[i].text, sentence);
		assert_int_equal(condition.kind, rows[i].is.kind);
		assert_string_equal(condition.name, rows[i].is.name);
		assert_int_equal(condition.limit, rows[i].is.limit);
		assert_int_equal(condition.seconds, rows[i].is.seconds);
		assert_string_equal(condition.text, rows[i].text);
	}
}

/* The sentence has the word that is wrong. */
static void bad(void **state)
{
	static const struct {
		const char *text, *word;
	} rows[] = {
		{"", "'>'"}, {"unit", "'>'"}, {"unit<2s", "'>'"}, {"units>2s", "'units'"}, {">2s", "''"}, {"unit>", "''"}, {"unit>2 s", "'2 s'"}, {"unit>-2s", "'-2s'"},
		{"unit>0s", "'0s'"}, {"unit>90%", "'90%'"}, {"unit>2s for 10s", "'2s for 10s'"}, {"unit=>2s", "which unit"}, {"phase= >2s", "which phase"},
		{"cpu>2s", "'2s'"}, {"cpu>90", "'90'"}, {"cpu>90% for", "'90% for'"}, {"cpu>90% for x", "'for x'"}, {"cpu>90% for 1500ms", "'for 1500ms'"},
		{"cpu>90% for 2h", "'for 2h'"}, {"cpu>90% in 10s", "'90% in 10s'"}, {"cpu=all>90%", "'all'"}, {"memory>1G", "none of unit, phase, pass, cpu"},
	};
	char long_name[2 * CONDITION_NAME_MAX];
	struct condition condition;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *sentence = condition__parse(rows[i].text, &condition);

		if (!sentence || strncmp(sentence, "is ", 3) || !strstr(sentence, rows[i].word))
			fail_msg("'%s' %s", rows[i].text, sentence ? sentence : "is good");
	}
	memset(long_name, 'x', sizeof(long_name));
	memcpy(long_name, "unit=", 5);
	strcpy(long_name + sizeof(long_name) - 4, ">2s");
	assert_non_null(condition__parse(long_name, &condition));
	long_name[5] = '\0';
	assert_non_null(condition__parse(long_name, &condition));
}

/* --- what fires --- */

struct session {
	struct watch *watch;
	struct event_sink *sink;
	struct condition conditions[4];
	uint32_t epoch, units, n;
	struct fired fired[32];
};

static void emit(struct session *session, struct event event)
{
	assert_int_equal(session->sink->event(session->sink, &event), 0);
	while (watch__next(session->watch, &session->fired[session->n]))
		session->n++;
}

/* Two threads, which go on from the epoch before. */
static void begin_epoch(struct session *session, uint64_t time)
{
	emit(session, (struct event){.kind = EVENT_EPOCH, .epoch = {session->epoch++, time}});
	emit(session, (struct event){.kind = EVENT_PROCESS, .process = {.pid = 1, .time = time, .name = "", .python = ""}});
	for (uint32_t i = 0; i < 2; i++)
		emit(session, (struct event){.kind = EVENT_THREAD, .thread = {.id = i, .tid = 7 + (int32_t)i, .time = time, .name = ""}});
	session->units = 0;
}

static struct session start(const char *const *texts)
{
	struct session session = {};
	uint32_t n = 0;

	for (; texts[n]; n++)
		assert_null(condition__parse(texts[n], &session.conditions[n]));
	/* Borrowed, and the struct is returned: */
	struct condition *conditions = malloc(sizeof(session.conditions));
	memcpy(conditions, session.conditions, sizeof(session.conditions));
	assert_int_equal(watch__new(conditions, n, &session.watch), 0);
	session.conditions[0].text = (const char *)conditions;
	session.sink = watch__sink(session.watch);
	begin_epoch(&session, 0);
	return session;
}

static void finish(struct session *session)
{
	watch__free(session->watch);
	free((void *)session->conditions[0].text);
}

static uint32_t unit(struct session *session, uint32_t parent, uint8_t kind, const char *name, uint64_t time)
{
	const struct unit_row row = {.parent = parent, .kind = kind, .compiler = "C", .name = name, .signature = kind || !*name ? "" : "int64", .time = time, .file = ""};

	emit(session, (struct event){.kind = EVENT_UNITS, .rows = {++session->units, 1, &row}});
	return session->units;
}

static void sample(struct session *session, uint32_t thread, uint32_t unit, uint64_t time, uint64_t wall, uint64_t cpu)
{
	const struct sample_row row = {.time = time, .wall = wall, .cpu = cpu, .thread = thread, .unit = unit};

	emit(session, (struct event){.kind = EVENT_SAMPLES, .samples = {1, &row}});
}

static void samples(struct session *session, uint32_t unit, uint64_t from, uint64_t to)
{
	for (; from < to; from += 10 * MS)
		sample(session, 0, unit, from, 10 * MS, 10 * MS);
}

static void end(struct session *session, uint32_t unit, uint64_t time)
{
	emit(session, (struct event){.kind = EVENT_UNIT_END, .unit_end = {.id = unit, .time = time, .name = "", .signature = "", .file = ""}});
}

/* At once, not at its end; once; and what is inside of it, too. */
static void of_compiles(void **state)
{
	struct session s = start((const char *const[]){"unit>2s", "phase=low*>500ms", "phase=typing>500ms", NULL});
	uint32_t f = unit(&s, 0, 0, "f", 1 * S), low = unit(&s, f, 1, "lowering", 1 * S);

	samples(&s, low, 1 * S, 4 * S);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.fired[0].condition, 1);
	assert_in_range(s.fired[0].time, 1500 * MS, 1520 * MS);
	assert_in_range(s.fired[0].value, 500 * MS, 520 * MS);
	assert_string_equal(s.fired[0].name, "lowering of f(int64)");
	assert_int_equal(s.fired[1].condition, 0);
	assert_in_range(s.fired[1].time, 3 * S, 3020 * MS);
	assert_string_equal(s.fired[1].name, "f(int64)");
	assert_int_equal(s.fired[1].tid, 7);
	/* The first of them is followed. */
	assert_true(watch__goes_on(s.watch));
	end(&s, low, 4 * S);
	assert_false(watch__goes_on(s.watch));
	watch__release(s.watch);
	samples(&s, f, 4 * S, 5 * S);
	assert_int_equal(s.n, 2);
	end(&s, f, 5 * S);
	/* Short ones never do. */
	for (uint64_t at = 5 * S; at < 50 * S; at += 1900 * MS) {
		f = unit(&s, 0, 0, "f", at);
		samples(&s, f, at, at + 1900 * MS);
		end(&s, f, at + 1890 * MS);
	}
	assert_int_equal(s.n, 2);
	finish(&s);
}

static void over_parts(void **state)
{
	struct session s = start((const char *const[]){"unit=g>2s", "unit>4s", NULL});
	uint32_t f;
	uint64_t at;

	/* Its name comes late, and it goes on in each new epoch. */
	f = unit(&s, 0, 0, "", 1 * S);
	samples(&s, f, 1 * S, 2 * S);
	emit(&s, (struct event){.kind = EVENT_UNIT_NAME, .unit_end = {.id = f, .time = 2 * S, .name = "g", .signature = "int64", .file = ""}});
	for (at = 2 * S; at < 6 * S; at += S) {
		begin_epoch(&s, at);
		f = unit(&s, 0, 0, "g", at);
		samples(&s, f, at, at + S);
		assert_int_equal(watch__goes_on(s.watch), s.n > 0);
	}
	assert_int_equal(s.n, 2);
	assert_int_equal(s.fired[0].condition, 0);
	assert_in_range(s.fired[0].time, 3 * S, 3020 * MS);
	assert_in_range(s.fired[1].time, 5 * S, 5020 * MS);
	assert_string_equal(s.fired[1].name, "g(int64)");
	finish(&s);
}

/* The thread waits outside of any compile, without a sample, and compiles the same again, over borders of parts. */
static void same_again(void **state)
{
	struct session s = start((const char *const[]){"unit>2s", NULL});

	for (uint64_t at = 1 * S; at < 60 * S; at += 3 * S) {
		uint32_t f = unit(&s, 0, 0, "f", at);

		samples(&s, f, at, at + 500 * MS);
		begin_epoch(&s, at + S);
		sample(&s, 1, 0, at + 2 * S, 10 * MS, 0);
	}
	assert_int_equal(s.n, 0);
	/* It sleeps in a compile meanwhile: its row reaches back to the border. */
	samples(&s, unit(&s, 0, 0, "h", 61 * S), 61 * S, 62 * S);
	begin_epoch(&s, 62 * S);
	begin_epoch(&s, 64 * S);
	sample(&s, 0, unit(&s, 0, 0, "h", 64 * S), 66 * S, 2 * S, 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.fired[0].value, 5 * S);
	/* It has had no sample for a while, and nothing says that it is over. */
	assert_true(watch__goes_on(s.watch));
	sample(&s, 1, 0, 72 * S, 10 * MS, 0);
	assert_false(watch__goes_on(s.watch));
	finish(&s);
}

static void of_cpu(void **state)
{
	struct session s = start((const char *const[]){"cpu>90% for 3s", "cpu>190%", NULL});
	uint64_t at;

	/* One second below the limit in each three. */
	for (at = 0; at < 30 * S; at += 10 * MS)
		sample(&s, 0, 0, at + 10 * MS, 10 * MS, at / S % 3 == 2 ? 8 * MS : 10 * MS);
	assert_int_equal(s.n, 0);
	/* A long sleep's wall time, and a long span's CPU time, lie where they were. */
	sample(&s, 0, 0, 40 * S, 10 * S, 5 * MS);
	sample(&s, 0, 0, 44 * S, 4 * S, 3800 * MS);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.fired[0].condition, 0);
	assert_in_range(s.fired[0].value, 2700 * MS, 3 * S);
	/* It holds on: it does not fire again. */
	for (at = 44 * S; at < 60 * S; at += 10 * MS)
		sample(&s, 0, 0, at + 10 * MS, 10 * MS, 10 * MS);
	assert_int_equal(s.n, 1);
	/* Two threads. */
	for (at = 60 * S; at < 62 * S; at += 10 * MS)
		for (uint32_t i = 0; i < 2; i++)
			sample(&s, i, 0, at + 10 * MS, 10 * MS, 10 * MS);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.fired[1].condition, 1);
	/* A pause of days, and then again. */
	for (at = 600000 * S; at < 600004 * S; at += 10 * MS)
		sample(&s, 0, 0, at + 10 * MS, 10 * MS, 10 * MS);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.fired[2].condition, 0);
	assert_in_range(s.fired[2].time, 600003 * S, 600003100 * MS);
	/* The end of one second and the begin of the next one are not two. */
	finish(&s);
	s = start((const char *const[]){"cpu>10% for 2s", NULL});
	for (at = 800 * MS; at < 1900 * MS; at += 10 * MS)
		sample(&s, 0, 0, at + 10 * MS, 10 * MS, 10 * MS);
	assert_int_equal(s.n, 0);
	for (; at < 2100 * MS; at += 10 * MS)
		sample(&s, 0, 0, at + 10 * MS, 10 * MS, 10 * MS);
	assert_int_equal(s.n, 1);
	assert_in_range(s.fired[0].time, 2000 * MS, 2010 * MS);
	finish(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good), cmocka_unit_test(bad), cmocka_unit_test(of_compiles), cmocka_unit_test(over_parts), cmocka_unit_test(same_again), cmocka_unit_test(of_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
