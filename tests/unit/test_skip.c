/* SPDX-License-Identifier: MIT */
/* --skip-first: which compiles are left out; of synthetic recordings against their generator, of one written by hand
 * against its contents. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "export_util.h"

struct row_truth {
	uint64_t exclusive, calls;
};

/* Is the call, or one that it is in, among the first N compiles of its name? */
static bool is_skipped(const struct synthetic *s, uint32_t call, uint32_t first)
{
	for (; call != UINT32_MAX; call = s->calls[call].parent) {
		const struct synthetic_unit *unit = &s->calls[call];
		uint32_t i, before = 0;

		if (unit->kind)
			continue;
		for (i = 0; i < s->calls_n; i++)
			before += !s->calls[i].kind && s->calls[i].number == unit->number &&
				  (s->calls[i].begin < unit->begin || (s->calls[i].begin == unit->begin && i < call));
		if (before < first)
			return true;
	}
	return false;
}

static uint32_t compile_of(const struct synthetic *s, uint32_t call)
{
	while (s->calls[call].kind)
		call = s->calls[call].parent;
	return call;
}

/* Rows of compiles: their own time, and how many there are. `left`: that of all others. */
static void rows_are_true(const struct synthetic *s, uint32_t first, json_t *json, uint64_t *ret_left)
{
	json_t *rows = json_object_get(json_array_get(json_object_get(json, "tables"), 0), "rows"), *row;
	struct row_truth truth[20] = {};
	uint32_t i, number, n = 0;
	size_t at;

	*ret_left = 0;
	for (i = 0; i < s->calls_n; i++) {
		number = s->calls[compile_of(s, i)].number;
		if (is_skipped(s, i, first)) {
			*ret_left += s->calls[i].cpu;
			continue;
		}
		truth[number].exclusive += s->calls[i].cpu;
		truth[number].calls += !s->calls[i].kind;
	}
	json_array_foreach(rows, at, row)
	{
		if (sscanf(text_of(row, "name"), "compile_%u", &number) != 1)
			continue;
		assert_int_equal(number_of(row, "exclusive_ns"), truth[number].exclusive);
		assert_int_equal(number_of(row, "calls"), truth[number].calls);
		truth[number].calls = 0;
		n++;
	}
	for (i = 0; i < 20; i++)
		assert_int_equal(truth[i].calls, 0);
	assert_true(n > 3);
}

static void check(uint32_t threads, uint32_t epoch_seconds, uint32_t first)
{
	struct synthetic s = {.threads = threads,
			      .rate = 999,
			      .seconds = 6,
			      .depth = 20,
			      .seed = 20 + threads,
			      .epoch_seconds = epoch_seconds,
			      .units = true};
	const struct report_options options = {.tables = 1u << REPORT_UNIT, .filter = {.skip_first = first}},
				    all = {.tables = 1u << REPORT_UNIT};
	_cleanup_close_ int fd = made_up(&s), again = memfd_create("again", MFD_CLOEXEC);
	struct export_report told;
	json_t *json = report_of(fd, &options), *file = json_array_get(json_object_get(json, "recordings"), 0);
	uint64_t left;
	FILE *out = fdopen(dup(again), "w");

	rows_are_true(&s, first, json, &left);
	assert_true(left > 0);
	assert_int_equal(number_of(file, "left_out_cpu_ns"), left);
	assert_int_equal(number_of(file, "cpu_ns"), number_of(file, "shown_cpu_ns") + left);
	assert_int_equal(number_of(json_object_get(json, "filters"), "skip_first"), first);
	json_decref(json);
	/* A recording that is made with it has the same. */
	assert_int_equal(export__run("events", fd, &options.filter, out, &told), 0);
	fclose(out);
	json = report_of(again, &all);
	rows_are_true(&s, first, json, &left);
	json_decref(json);
	synthetic_free(&s);
}

static void the_first(void **state)
{
	check(1, 0, 1);
}
static void of_threads(void **state)
{
	check(4, 0, 3);
}
static void over_epochs(void **state)
{
	check(3, 1, 2);
}

#define HEAD                                                                                                      \
	"{\"ev\":\"hello\",\"major\":1,\"minor\":5}\n"                                                              \
	"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,\"command\":\"c\"}\n"                \
	"{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n"                                                           \
	"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n"                                      \
	"{\"ev\":\"process\",\"id\":1,\"pid\":9,\"time\":1000,\"name\":\"q\"}\n"                                      \
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"                       \
	"{\"ev\":\"thread\",\"id\":1,\"process\":0,\"tid\":8,\"time\":1000,\"name\":\"other\"}\n"                      \
	"{\"ev\":\"thread\",\"id\":2,\"process\":1,\"tid\":9,\"time\":1000,\"name\":\"child\"}\n"
#define UNIT(thread, name, signature, time, file)                                                                 \
	"[0," #thread ",0,\"Made-up\",\"" name "\",\"" signature "\"," #time ",0,\"" file "\",4]"
#define SAMPLE(time, thread, unit, cpu)                                                                           \
	"{\"ev\":\"samples\",\"t\":[" #time "],\"wall\":[" #cpu "],\"cpu\":[" #cpu "],\"thread\":[" #thread "],\"unit\":[" #unit "]}\n"

/* f for i is compiled by two threads, and the one that began later is told first; f of another place, of another process
 * and for d are other units; a name that comes with the end counts from the begin; one that never comes is a first. */
static void who_is_the_first(void **state)
{
	static const char text[] = HEAD
		"{\"ev\":\"units\",\"first\":1,\"rows\":[" UNIT(1, "f", "i", 2500, "a.py") "," UNIT(0, "f", "i", 2000, "a.py") "]}\n"
		SAMPLE(3000, 0, 2, 1) SAMPLE(3000, 1, 1, 10)
		"{\"ev\":\"unit_end\",\"id\":1,\"time\":3000}\n{\"ev\":\"unit_end\",\"id\":2,\"time\":3000}\n"
		"{\"ev\":\"units\",\"first\":3,\"rows\":[" UNIT(0, "f", "i", 4000, "b.py") "," UNIT(1, "f", "d", 4000, "a.py") ","
		UNIT(2, "f", "i", 4000, "a.py") "]}\n"
		SAMPLE(4100, 0, 3, 2) SAMPLE(4100, 1, 4, 4) SAMPLE(4100, 2, 5, 8)
		"{\"ev\":\"unit_end\",\"id\":3,\"time\":4100}\n{\"ev\":\"unit_end\",\"id\":4,\"time\":4100}\n"
		"{\"ev\":\"units\",\"first\":6,\"rows\":[" UNIT(0, "", "", 5000, "") "]}\n"
		SAMPLE(5100, 0, 6, 100)
		"{\"ev\":\"unit_end\",\"id\":6,\"time\":5100,\"name\":\"f\",\"signature\":\"d\",\"file\":\"a.py\",\"line\":4}\n"
		"{\"ev\":\"units\",\"first\":7,\"rows\":[" UNIT(0, "", "", 6000, "") "," UNIT(1, "", "", 6000, "") "]}\n"
		SAMPLE(6100, 0, 7, 16) SAMPLE(6100, 1, 8, 32) SAMPLE(7000, 0, 0, 500)
		"{\"ev\":\"end\",\"time\":9000}\n";
	const struct report_options options = {.tables = 1u << REPORT_UNIT, .filter = {.skip_first = 1}};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *json, *row;
	size_t i;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	json = report_of(fd, &options);
	json_array_foreach(json_object_get(json_array_get(json_object_get(json, "tables"), 0), "rows"), i, row)
	{
		uint64_t want = !strcmp(text_of(row, "name"), "(outside of compiles)") ? 500
				: !strcmp(text_of(row, "signature"), "i")		? 10
				: !strcmp(text_of(row, "signature"), "d")		? 100
											: 0;

		assert_int_equal(number_of(row, "exclusive_ns"), want);
	}
	assert_int_equal(i, 3);
	json_decref(json);
}

/* Nothing is a first one where nothing is compiled; what cannot be read twice is not taken for that. */
static void where_it_cannot(void **state)
{
	static const char text[] = HEAD SAMPLE(3000, 0, 0, 1) "{\"ev\":\"end\",\"time\":9000}\n";
	const struct export_options options = {.skip_first = 1};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	struct export_report told = {};
	_cleanup_close_ int in = -1;
	FILE *out = tmpfile();
	int ends[2];

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(export__run("collapsed", fd, &options, out, &told), -ENOENT);
	assert_string_equal(told.missing.option, "skip-first");
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	in = ends[0];
	assert_int_equal(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
	close(ends[1]);
	assert_int_equal(export__run("collapsed", in, &options, out, &told), -ESPIPE);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first),	    cmocka_unit_test(of_threads),      cmocka_unit_test(over_epochs),
		cmocka_unit_test(who_is_the_first), cmocka_unit_test(where_it_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
