/* SPDX-License-Identifier: MIT */
/* Reports and filters. Sums are compared with those of the recording's generator; names and paths with text written
 * by hand. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../tools/synthetic.h"
#include "base/cleanup.h"
#include "events_util.h"
#include "export/class_names.h"
#include "export/close.h"
#include "export/export.h"
#include "export/filter.h"
#include "export/places.h"
#include "report/report.h"

/* --- names --- */

static void patterns(void **state)
{
	assert_true(pattern__function("run_pass", "run_pass"));
	assert_true(pattern__function("run_pass", "NativeLowering.run_pass"));
	assert_true(pattern__function("NativeLowering.run_pass", "NativeLowering.run_pass"));
	assert_false(pattern__function("pass", "NativeLowering.run_pass"));
	assert_false(pattern__function("NativeLowering", "NativeLowering.run_pass"));
	assert_true(pattern__function("runOnModule", "llvm::Pass::runOnModule(llvm::Module&)"));
	assert_true(
		pattern__function("Pass::runOnModule", "llvm::Pass::runOnModule(llvm::Module&)"));
	assert_true(pattern__function("foo", "foo(array(float64, 1d, C))"));
	assert_true(pattern__function("(idle)", "(idle)"));
	assert_false(pattern__function("", "f"));
	assert_true(pattern__function("*Pass*", "llvm::Pass::runOnModule(llvm::Module&)"));
	assert_false(pattern__function("Pass*", "llvm::Pass::runOnModule(llvm::Module&)"));
	assert_true(pattern__module("numba", "numba"));
	assert_true(pattern__module("numba", "numba.core.compiler"));
	assert_false(pattern__module("numba", "numbapro.core"));
	assert_true(pattern__module("libLLVM-14", "libLLVM-14.so.1"));
	assert_true(pattern__module("libLLVM*", "libLLVM-14.so.1"));
	assert_false(pattern__module("core", "numba.core"));
}

static void globs(void **state)
{
	char text[20001];

	assert_true(pattern__glob("", ""));
	assert_true(pattern__glob("***", ""));
	assert_false(pattern__glob("?", ""));
	assert_true(pattern__glob("a?c*e", "abcddde"));
	/* A character of UTF-8, of one byte to four. */
	assert_true(pattern__glob("????", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d"));
	assert_true(pattern__glob("*\xe2\x82\xac?", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d"));
	assert_false(pattern__glob("??", "\xe2\x82\xac"));
	assert_false(pattern__glob("*??", "\xe2\x82\xac"));
	assert_false(pattern__glob("a?c*e", "abcdddef"));
	assert_true(pattern__glob("*ab*ab", "abxabyabab"));
	memset(text, 'a', sizeof(text) - 1); /* the worst: still at once */
	text[sizeof(text) - 1] = '\0';
	assert_false(pattern__glob("*a*a*a*a*a*a*a*a*b", text));
}

static void patterns_of_processes(void **state)
{
	const char *name = "/usr/bin/python3 -O /srv/my app/the script.py --lr 3";

	assert_true(pattern__process("42", 42, name) && !pattern__process("43", 42, name));
	assert_true(pattern__process("python3", 42, name) && pattern__process("/usr/bin/python?", 42, name));
	/* Words in a row: of one argument, or of several. */
	assert_true(pattern__process("the script.py", 42, name) && pattern__process("app/the script.py", 42, name));
	assert_true(pattern__process("python3 -O", 42, name) && pattern__process("script.py --lr 3", 42, name));
	assert_true(pattern__process("the s*.py", 42, name) && pattern__process(name, 42, name));
	assert_false(pattern__process("the script", 42, name));
	assert_false(pattern__process("he script.py", 42, name));
	assert_false(pattern__process("script.py 3", 42, name));
	assert_false(pattern__process("--lr 3 4", 42, name));
	assert_false(pattern__process("", 42, name));
	assert_true(pattern__process("a  b", 42, "python3 a  b c"));
}

static void close_names(void **state)
{
	struct close close = {.want = "run_pss"};
	char text[512];

	close__offer(&close, "completely_else");
	close__text(&close, text, sizeof(text));
	assert_string_equal(text, "");
	close__offer(&close, "NativeLowering.run_pass");
	close__offer(&close, "NativeLowering.run_pass");
	close__offer(&close, "run_pas");
	close__offer(&close, "");
	close__offer(&close, "runpss");
	close__text(&close, text, sizeof(text));
	assert_string_equal(text, "NativeLowering.run_pass, run_pas, runpss");
	close__offer(&close, "x.my_run_pss_too"); /* has it whole */
	close__text(&close, text, sizeof(text));
	assert_string_equal(text, "x.my_run_pss_too, NativeLowering.run_pass, run_pas");
	close__text(&close, text, 12);
	assert_int_equal(strlen(text), 11);
}

static void long_names_are_compared_too(void **state)
{
	char name[5000];
	struct close close = {.want = name};

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	close__offer(&close, name);
	name[300] = '.';
	close__offer(&close, name);
	name[0] = '(';
	close__offer(&close, name);
	close.want = "short";
	close__offer(&close, name);
}

static void is_at(uint8_t kind, const char *file, const char *elf, const char *module,
		  const char *package)
{
	char text[256];

	place__module(kind, file, elf, text, sizeof(text));
	assert_string_equal(text, module);
	place__package(kind, file, elf, text, sizeof(text));
	assert_string_equal(text, package);
}

static void places(void **state)
{
	char text[8];

	is_at(0, "/usr/lib/python3/dist-packages/numba/core/compiler.py", "", "numba.core.compiler",
	      "numba");
	is_at(0, "/usr/lib/python3/dist-packages/numba/__init__.py", "", "numba", "numba");
	is_at(0, "/home/me/v/lib/python3.12/site-packages/six.py", "", "six", "six");
	is_at(0, "/usr/lib/python3.11/json/decoder.py", "", "json.decoder", PLACE_STANDARD);
	is_at(0, "/srv/lib/python3.14t/re/__init__.py", "", "re", PLACE_STANDARD);
	is_at(0, "/home/me/python3/compile.py", "", "compile", "/home/me/python3");
	is_at(0, "/compile.py", "", "compile", "/");
	is_at(0, "compile.py", "", "compile", ".");
	is_at(0, "<frozen importlib._bootstrap>", "", "importlib._bootstrap", PLACE_STANDARD);
	is_at(0, "<string>", "", PLACE_GENERATED, PLACE_GENERATED);
	is_at(0, "", "", LOCATION_UNKNOWN, LOCATION_UNKNOWN);
	is_at(0, "/a/site-packages/", "", "", "/a/site-packages");
	is_at(1, "", "libLLVM-14.so.1", "libLLVM-14.so.1", "libLLVM-14.so.1");
	is_at(1, "malloc.c", "/usr/lib/libc.so.6", "libc.so.6", "libc.so.6");
	is_at(1, "", "", LOCATION_UNKNOWN, LOCATION_UNKNOWN);
	is_at(4, "", "[jit]", LOCATION_JIT, LOCATION_JIT);
	is_at(5, "", "python3.11", LOCATION_INTERPRETER, LOCATION_INTERPRETER);
	is_at(2, "", "", LOCATION_KERNEL, LOCATION_KERNEL);
	is_at(3, "", "", PLACE_NOTES, PLACE_NOTES);
	is_at(200, "", "x.so", "x.so", "x.so");
	place__module(0, "/usr/lib/python3/dist-packages/numba/core/compiler.py", "", text,
		      sizeof(text));
	assert_string_equal(text, "numba.c");
}

static void classes(void **state)
{
	struct class_names names = {};
	uint32_t none, one, again;

	assert_int_equal(class_names__id(&names, 0, &none), 0);
	assert_string_equal(class_names__name(&names, none), CLASS_NOT_DETERMINED);
	assert_int_equal(class_names__id(&names, 7, &one), 0);
	assert_string_equal(class_names__name(&names, one), "class 7");
	class_names__epoch(&names);
	assert_int_equal(class_names__emit(&names, 2, "interpreter"), 0);
	assert_int_equal(class_names__id(&names, 2, &one), 0);
	assert_string_equal(class_names__name(&names, one), "interpreter");
	class_names__epoch(&names); /* another id, the same class */
	assert_int_equal(class_names__emit(&names, 5, "interpreter"), 0);
	assert_int_equal(class_names__id(&names, 5, &again), 0);
	assert_int_equal(one, again);
	assert_int_equal(class_names__id(&names, 0, &again), 0);
	assert_int_equal(none, again);
	assert_int_equal(class_names__id(&names, UINT32_MAX, &again), 0);
	class_names__free(&names);
}

/* --- reports --- */

static int made_up(struct synthetic *s)
{
	struct memory memory = {.sink = {memory_event}};
	int fd = memfd_create("recording", MFD_CLOEXEC);

	assert_int_equal(recording_writer__new(fd, true, &memory.writer), 0);
	s->sink = &memory.sink;
	synthetic_run(s);
	assert_int_equal(recording_writer__flush(memory.writer), 0);
	recording_writer__free(memory.writer);
	buf__free(&memory.line);
	return fd;
}

static json_t *json_of(struct report *report)
{
	size_t len;
	char *text = NULL;
	FILE *out = open_memstream(&text, &len);
	json_error_t error;
	json_t *json;

	assert_int_equal(report__json(report, out), 0);
	fclose(out);
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%s at %d", error.text, error.position);
	free(text);
	return json;
}

/* What a report of this recording alone says. */
static json_t *report_of(const struct report_options *options, int fd)
{
	struct report *report;
	json_t *json;

	assert_int_equal(report__new(options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), 0);
	json = json_of(report);
	report__free(report);
	return json;
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static json_t *rows_of(json_t *json, size_t table)
{
	return json_object_get(json_array_get(json_object_get(json, "tables"), table), "rows");
}

/* Exclusive time by name, of all threads that `which` says (UINT32_MAX: all). */
static void is_true(json_t *rows, const struct synthetic *s, uint32_t which)
{
	json_t *told = json_object(), *row;
	uint32_t f, i;
	size_t at;
	char name[64];

	json_array_foreach(rows, at, row)
		json_object_set_new(told, json_string_value(json_object_get(row, "name")),
				    json_integer((json_int_t)number_of(row, "exclusive_ns")));
	for (f = 0; f < SYNTHETIC_FUNCTIONS; f++) {
		uint64_t want = 0;

		for (i = 0; i < s->threads; i++)
			if (which == UINT32_MAX || which == i)
				want += s->truth[i].self[f];
		synthetic_name(f, name);
		assert_int_equal(number_of(told, name), want);
	}
	json_decref(told);
}

static void check_report(uint32_t threads, uint32_t epoch_seconds)
{
	struct synthetic s = {.threads = threads,
			      .rate = 999,
			      .seconds = 6,
			      .depth = 30,
			      .seed = threads,
			      .epoch_seconds = epoch_seconds};
	const struct report_options options = {.tables =
						       1u << REPORT_FUNCTION | 1u << REPORT_THREAD};
	_cleanup_close_ int fd = made_up(&s);
	struct report *report;
	uint64_t cpu = 0, wall = 0;
	json_t *json, *recording, *row;
	size_t at;
	uint32_t i;

	assert_int_equal(report__new(&options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), 0);
	json = json_of(report);
	is_true(rows_of(json, 1), &s, UINT32_MAX);
	for (i = 0; i < threads; i++) {
		cpu += s.truth[i].cpu;
		wall += s.truth[i].wall;
	}
	recording = json_array_get(json_object_get(json, "recordings"), 0);
	assert_int_equal(number_of(recording, "cpu_ns"), cpu);
	assert_int_equal(number_of(recording, "wall_ns"), wall);
	assert_int_equal(number_of(recording, "idle_ns"), wall - cpu);
	json_array_foreach(rows_of(json, 0), at, row) cpu -= number_of(row, "exclusive_ns");
	assert_int_equal(cpu, 0);
	json_decref(json);
	report__free(report);
	synthetic_free(&s);
}

static void one_thread(void **state)
{
	check_report(1, 0);
}
static void several_threads(void **state)
{
	check_report(4, 0);
}
static void epochs(void **state)
{
	check_report(4, 2);
}

static void a_thread_alone(void **state)
{
	struct synthetic s = {.threads = 4,
			      .rate = 999,
			      .seconds = 4,
			      .depth = 20,
			      .seed = 3,
			      .epoch_seconds = 1};
	struct report_options options = {.tables = 1u << REPORT_FUNCTION,
					 .filter = {.thread = "worker-1"}};
	_cleanup_close_ int fd = made_up(&s);
	struct report *report;
	json_t *json;

	assert_int_equal(report__new(&options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), 0);
	json = json_of(report);
	is_true(rows_of(json, 0), &s, 1);
	json_decref(json);
	report__free(report);
	options.filter.thread = "worker-9";
	assert_int_equal(report__new(&options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), -ENOENT);
	assert_string_equal(report__missing(report)->option, "thread");
	assert_non_null(strstr(report__missing(report)->close, "worker-1"));
	report__free(report);
	synthetic_free(&s);
}

/* Twice the same recording: its mean is itself, nothing spreads. */
static void the_same_twice(void **state)
{
	struct synthetic s = {.threads = 2, .rate = 999, .seconds = 3, .depth = 20, .seed = 8};
	const struct report_options options = {.tables = 1u << REPORT_FUNCTION};
	_cleanup_close_ int fd = made_up(&s);
	struct report *report;
	json_t *json, *row;
	size_t at;

	assert_int_equal(report__new(&options, 2, &report), 0);
	assert_int_equal(report__read(report, fd, "a"), 0);
	assert_int_equal(report__read(report, fd, "b"), 0);
	assert_int_equal(report__finish(report), 0);
	json = json_of(report);
	is_true(rows_of(json, 0), &s, UINT32_MAX);
	json_array_foreach(rows_of(json, 0), at, row)
	{
		assert_int_equal(number_of(row, "exclusive_sd_ns"), 0);
		assert_int_equal(json_array_size(json_object_get(row, "each")), 2);
	}
	json_decref(json);
	report__free(report);
	synthetic_free(&s);
}

/* A filter's events are events of the protocol, and lose no time. */
static void filtered_recordings_are_recordings(void **state)
{
	struct synthetic s = {.threads = 3,
			      .rate = 999,
			      .seconds = 4,
			      .depth = 20,
			      .seed = 5,
			      .epoch_seconds = 1};
	const struct export_options how = {.function = "Pass.run_on_function_1*"};
	const struct report_options options = {.tables = 1u << REPORT_FUNCTION};
	const struct report_options filtered = {.tables = 1u << REPORT_FUNCTION, .filter = how};
	_cleanup_close_ int fd = made_up(&s), copy = memfd_create("copy", MFD_CLOEXEC);
	FILE *out = fdopen(dup(copy), "w");
	struct export_report done;
	json_t *x, *y, *row;
	uint64_t total;
	size_t at;

	assert_int_equal(export__run("events", fd, &how, out, &done), 0);
	assert_true(done.samples > 0);
	assert_int_equal(done.span / 100000000, s.seconds * 10);
	fclose(out);
	x = report_of(&filtered, fd);
	y = report_of(&options, copy);
	json_array_foreach(
		rows_of(y, 0), at,
		row) assert_string_not_equal(json_string_value(json_object_get(row, "name")), FILTER_LEFT_OUT);
	row = json_array_get(json_object_get(x, "recordings"), 0);
	assert_true(number_of(row, "left_out_cpu_ns") > 0);
	total = number_of(row, "shown_cpu_ns");
	row = json_array_get(json_object_get(y, "recordings"), 0);
	assert_int_equal(number_of(row, "cpu_ns"), total);
	assert_int_equal(number_of(row, "shown_cpu_ns"), total);
	assert_int_equal(number_of(row, "samples"), done.samples);
	/* All that is in a table is the same, row by row. */
	assert_true(json_array_size(rows_of(x, 0)) > 0);
	assert_true(json_equal(rows_of(x, 0), rows_of(y, 0)));
	json_decref(x);
	json_decref(y);
	synthetic_free(&s);
}

/* A window of a recording, as a recording: the same as the window of the recording. */
static void a_window_is_cut(void **state)
{
	struct synthetic s = {.threads = 3,
			      .rate = 99,
			      .seconds = 4,
			      .depth = 20,
			      .seed = 6,
			      .epoch_seconds = 1};
	const struct export_options how = {.from = 1003000000, .to = 2707000000ull}, none = {.from = 50000000000ull, .to = 60000000000ull};
	const struct report_options options = {.tables = 1u << REPORT_FUNCTION};
	const struct report_options filtered = {.tables = 1u << REPORT_FUNCTION, .filter = how};
	_cleanup_close_ int fd = made_up(&s), copy = memfd_create("copy", MFD_CLOEXEC), empty = memfd_create("empty", MFD_CLOEXEC);
	FILE *out = fdopen(dup(copy), "w"), *nothing = fdopen(dup(empty), "w");
	struct export_report done;
	json_t *x, *y;

	assert_int_equal(export__run("events", fd, &how, out, &done), 0);
	fclose(out);
	x = report_of(&filtered, fd);
	y = report_of(&options, copy);
	assert_true(json_array_size(rows_of(x, 0)) > 0);
	assert_true(json_equal(rows_of(x, 0), rows_of(y, 0)));
	assert_int_equal(number_of(json_array_get(json_object_get(y, "recordings"), 0), "samples"), done.samples);
	json_decref(x);
	json_decref(y);
	assert_int_equal(export__run("events", fd, &none, nothing, &done), 0);
	fclose(nothing);
	assert_true(!done.samples && done.span / 100000000 == s.seconds * 10);
	synthetic_free(&s);
}

static void nothing_at_all(void **state)
{
	const struct report_options options = {
		.tables = (1u << REPORT_BY_COUNT) - 1, .callers = "f", .callees = "f"};
	const struct report_options plain = {.tables = (1u << REPORT_CALLERS) - 1};
	_cleanup_close_ int fd = memfd_create("empty", MFD_CLOEXEC);
	struct report *report;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(report__new(&options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), -ENOMSG);
	report__free(report);
	dprintf(fd, "{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n"
		    "{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000}\n");
	assert_int_equal(report__new(&options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), -ENOENT);
	report__free(report);
	assert_int_equal(report__new(&plain, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), 0);
	assert_true(report__empty(report));
	assert_int_equal(report__text(report, out), 0);
	assert_int_equal(report__csv(report, out), 0);
	json_decref(json_of(report));
	fclose(out);
	free(text);
	report__free(report);
}

/* Times of threads are those of their process, of which two run the same command. */
static void processes(void **state)
{
	const struct report_options options = {.tables = 1u << REPORT_PROCESS | 1u << REPORT_THREAD};
	static const struct { const char *name; int pid; uint64_t ns; } want[] = {{"python3 a.py", 8, 7000000}, {"python3 a.py", 7, 5000000}, {"make", 6, 1000000}};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *json, *row;
	size_t at;

	dprintf(fd, "{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n"
		    "{\"ev\":\"session\",\"id\":1,\"pid\":6,\"rate\":1000,\"monotonic\":1000}\n");
	for (int i = 0; i < 3; i++)
		dprintf(fd, "{\"ev\":\"process\",\"id\":%d,\"pid\":%d,\"start\":%d,\"time\":1000,\"name\":\"%s\"}\n", i, 6 + i, 1 + i, i ? "python3 a.py" : "make");
	for (int i = 0; i < 4; i++)
		dprintf(fd, "{\"ev\":\"thread\",\"id\":%d,\"process\":%d,\"tid\":%d,\"start\":%d,\"time\":1000,\"name\":\"t\"}\n", i, i < 3 ? i : 2, 6 + i, 1 + i);
	dprintf(fd, "{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"f\",\"f.py\",1,\"\",0]]}\n{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,1]]}\n"
		    "{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0]]}\n"
		    "{\"ev\":\"samples\",\"t\":[10001000,0,0,0],\"wall\":[1000000,5000000,4000000,3000000],\"cpu\":[1000000,5000000,4000000,3000000],"
		    "\"thread\":[0,1,2,3],\"stack\":[1,1,1,1]}\n");
	json = report_of(&options, fd);
	assert_int_equal(json_array_size(rows_of(json, 0)), 3);
	json_array_foreach(rows_of(json, 0), at, row) {
		assert_string_equal(json_string_value(json_object_get(row, "name")), want[at].name);
		assert_int_equal(number_of(row, "pid"), want[at].pid);
		assert_int_equal(number_of(row, "exclusive_ns"), want[at].ns);
	}
	assert_int_equal(json_array_size(rows_of(json, 1)), 4);
	json_array_foreach(rows_of(json, 1), at, row)
		assert_int_equal(number_of(row, "pid"), number_of(row, "exclusive_ns") == 5000000 ? 7 : number_of(row, "exclusive_ns") == 1000000 ? 6 : 8);
	json_decref(json);
}

/* Each new format of a recording that is cut off anywhere: written, or refused. */
static void cut_anywhere(void **state)
{
	struct synthetic s = {.threads = 2, .rate = 999, .seconds = 10, .depth = 10, .seed = 5};
	static const char *const formats[] = {"svg", "pprof", "otlp", "collapsed", "events"};
	const struct export_options how = {.module = "libLLVM-14"};
	_cleanup_close_ int fd = made_up(&s), copy = memfd_create("copy", MFD_CLOEXEC);
	off_t size = lseek(fd, 0, SEEK_END), cut;
	_cleanup_free_ char *bytes = malloc((size_t)size);
	struct export_report done;
	bool begun = false;
	size_t i;

	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	for (cut = 0; cut < size; cut += size / 40 + 1) {
		assert_int_equal(ftruncate(copy, 0), 0);
		assert_int_equal(pwrite(copy, bytes, (size_t)cut, 0), cut);
		for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
			_cleanup_free_ char *text = NULL;
			size_t len;
			FILE *out = strcmp(formats[i], "events") ? open_memstream(&text, &len)
								 : tmpfile();
			int err = export__run(formats[i], copy, &how, out, &done);

			/* Events are copied. Of the others there is nothing until a session begins, and always something after that. */
			begun |= err != -ENOMSG && strcmp(formats[i], "events") != 0;
			assert_true(!err || err == -ENOENT || (err == -ENOMSG && !begun));
			fclose(out);
		}
	}
	assert_true(begun);
	synthetic_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns),
		cmocka_unit_test(globs),
		cmocka_unit_test(patterns_of_processes),
		cmocka_unit_test(close_names),
		cmocka_unit_test(long_names_are_compared_too),
		cmocka_unit_test(places),
		cmocka_unit_test(classes),
		cmocka_unit_test(one_thread),
		cmocka_unit_test(several_threads),
		cmocka_unit_test(epochs),
		cmocka_unit_test(a_thread_alone),
		cmocka_unit_test(the_same_twice),
		cmocka_unit_test(filtered_recordings_are_recordings),
		cmocka_unit_test(a_window_is_cut),
		cmocka_unit_test(processes),
		cmocka_unit_test(nothing_at_all),
		cmocka_unit_test(cut_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
