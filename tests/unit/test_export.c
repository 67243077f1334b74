/* SPDX-License-Identifier: MIT */
/* Exporters: recordings by hand for cases that the generator does not make; collapsed stacks against the ground
 * truth of a synthetic recording. test_speedscope.c has the rest. */
#include <unistd.h>

#include "export/filter.h"
#include "export_util.h"

/* --- a recording by hand: the cases that the generator does not make --- */

#define TABLES                                                                                     \
	"{\"ev\":\"hello\",\"major\":1,\"minor\":0}\n"                                             \
	"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000000000,"           \
	"\"command\":\"a \\\"b\\\"\"}\n"                                                           \
	"{\"ev\":\"epoch\",\"number\":1,\"time\":1000000000}\n"                                    \
	"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000000000,\"name\":\"p;q\"}\n"           \
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000000000,\"name\":"        \
	"\"main\"}\n"                                                                              \
	"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"f;\\n\",\"f.py\",1,\"\",0],[\"g\",\"\",0," \
	"\"/lib/x.so\",1],[\"f;\\n\",\"f.py\",1,\"\",0]]}\n"                                       \
	"{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,2,5,3],[0,4,5,9],[1,0,0,0],[2,2,6,3]]}\n"     \
	"{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0],[0,1],[1,2],[0,3]]}\n"

static int by_hand(const char *rest)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);

	assert_int_equal(write(fd, TABLES, strlen(TABLES)), (ssize_t)strlen(TABLES));
	assert_int_equal(write(fd, rest, strlen(rest)), (ssize_t)strlen(rest));
	return fd;
}

static void expect(const char *rest, const char *profile, struct export_options options,
		   const char *samples, const char *weights)
{
	_cleanup_close_ int fd = by_hand(rest);
	struct export_report report;
	json_t *file = export_json(fd, &options, &report), *sample, *words = json_array();
	json_t *found = profile_of(file, profile);
	size_t i, j;
	char *text;

	json_array_foreach(json_object_get(found, "samples"), i, sample)
	{
		char line[256] = "";

		for (j = 0; j < json_array_size(sample); j++) {
			json_t *frame = json_array_get(
				frames_of(file),
				(size_t)json_integer_value(json_array_get(sample, j)));

			snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s:%llu:%llu",
				 j ? "/" : "", text_of(frame, "name"),
				 (unsigned long long)number_of(frame, "line"),
				 (unsigned long long)number_of(frame, "col"));
		}
		json_array_append_new(words, json_string(line));
	}
	text = json_dumps(words, JSON_COMPACT);
	assert_string_equal(text, samples);
	free(text);
	text = json_dumps(json_object_get(found, "weights"), JSON_COMPACT);
	assert_string_equal(text, weights);
	free(text);
	json_decref(words);
	json_decref(file);
}

static void short_idle_is_carried_over(void **state)
{
	/* 0.4 ms idle before each of five samples: given out after the third */
	expect("{\"ev\":\"samples\",\"t\":[1001400000,1400000,1400000,1400000,1400000],"
	       "\"wall\":[1400000,1400000,1400000,1400000,1400000],\"cpu\":[1000000,1000000,"
	       "1000000,1000000,1000000],"
	       "\"stack\":[1,1,1,1,1]}\n{\"ev\":\"thread_end\",\"id\":0,\"time\":1007500000,"
	       "\"wall\":500000}\n"
	       "{\"ev\":\"end\",\"time\":1010000000}\n",
	       "main (7)", (struct export_options){},
	       "[\"f;\\n:1:0\",\"(idle):0:0\",\"f;\\n:1:0\",\"(idle):0:0\",\"\"]",
	       "[2000000,1200000,3000000,1300000,2500000]");
}

static void lines_and_columns(void **state)
{
	/* line 5 at two columns has none to show; line 6 has one; equal functions are one */
	static const char rest[] = "{\"ev\":\"samples\",\"t\":[1001000000,1000000,1000000,1000000],"
				   "\"wall\":[1000000,1000000,1000000,1000000],\"cpu\":[1000000,"
				   "1000000,1000000,1000000],\"stack\":[1,2,3,4]}\n"
				   "{\"ev\":\"end\",\"time\":1004000000}\n";

	expect(rest, "main (7)", (struct export_options){.lines = true},
	       "[\"f;\\n:5:0\",\"f;\\n:5:0/g:0:0\",\"f;\\n:6:3\"]", "[2000000,1000000,1000000]");
	expect(rest, "main (7)", (struct export_options){},
	       "[\"f;\\n:1:0\",\"f;\\n:1:0/g:0:0\",\"f;\\n:1:0\"]", "[2000000,1000000,1000000]");
}

static void what_was_not_recorded_is_said(void **state)
{
	expect("{\"ev\":\"samples\",\"t\":[1001000000],\"wall\":[1000000],\"cpu\":[1000000],"
	       "\"stack\":[1]}\n"
	       "{\"ev\":\"gap\",\"time\":1002000000,\"events\":5}\n"
	       "{\"ev\":\"samples\",\"t\":[1009000000,1000000],\"wall\":[1000000,1000000],\"cpu\":["
	       "1000000,1000000],\"stack\":[1,0]}\n"
	       "{\"ev\":\"thread_end\",\"id\":0,\"time\":1010000500,\"wall\":500,\"cpu\":500}\n"
	       "{\"ev\":\"end\",\"time\":1010000500}\n",
	       "main (7)", (struct export_options){},
	       "[\"f;\\n:1:0\",\"(not recorded):0:0\",\"f;\\n:1:0\",\"(no stack):0:0\",\"(not "
	       "sampled):0:0\"]",
	       "[1000000,7000000,1000000,1000000,500]");
}

/* One sample has 0.5 ms more CPU than wall: idle time of later ones pays for it. */
static void cpu_beyond_wall_is_made_up_for(void **state)
{
	expect("{\"ev\":\"samples\",\"t\":[1001000000,3000000],\"wall\":[1000000,3000000],\"cpu\":["
	       "1500000,1000000],\"stack\":[1,1]}\n"
	       "{\"ev\":\"end\",\"time\":1004000000}\n",
	       "main (7)", (struct export_options){},
	       "[\"f;\\n:1:0\",\"(idle):0:0\",\"f;\\n:1:0\"]", "[1500000,1500000,1000000]");
}

static void waiting_stacks_on_request(void **state)
{
	static const char rest[] = "{\"ev\":\"samples\",\"t\":[1005000000],\"wall\":[5000000],"
				   "\"cpu\":[1000000],\"stack\":[3],\"cause\":[1]}\n"
				   "{\"ev\":\"end\",\"time\":1005000000}\n";

	expect(rest, "main (7)", (struct export_options){}, "[\"(idle):0:0\",\"f;\\n:1:0/g:0:0\"]",
	       "[4000000,1000000]");
	expect(rest, "main (7)", (struct export_options){.idle = true},
	       "[\"f;\\n:1:0/g:0:0\"]", "[5000000]");
}

static void processes_are_named(void **state)
{
	expect("{\"ev\":\"process\",\"id\":1,\"pid\":8,\"time\":1000000000,\"name\":\"child\"}\n"
	       "{\"ev\":\"thread\",\"id\":1,\"process\":1,\"tid\":8,\"time\":1002000000,\"name\":"
	       "\"main\"}\n"
	       "{\"ev\":\"end\",\"time\":1005000000}\n",
	       "child (8) main (8)", (struct export_options){}, "[\"\",\"(idle):0:0\"]",
	       "[2000000,3000000]");
}

/* A recording that was cut, at any byte, is exported up to there. */
static void cut_recordings_export(void **state)
{
	struct synthetic s = {.threads = 2, .rate = 999, .seconds = 10, .depth = 10, .seed = 5};
	_cleanup_close_ int fd = made_up(&s);
	const struct export_options options = {};
	off_t size = lseek(fd, 0, SEEK_END), at;
	FILE *nowhere = fopen("/dev/null", "we");
	bool begun = false;
	uint32_t none = 0;

	assert_non_null(nowhere);
	for (at = 0; at < size; at += size / 37 + 1) {
		_cleanup_close_ int part = memfd_create("part", MFD_CLOEXEC);
		struct export_report report;
		off_t from = 0;

		assert_int_equal(copy_file_range(fd, &from, part, NULL, (size_t)at, 0), at);
		/* Nothing, until there is a session to tell of. */
		if (!begun && export__run("collapsed", part, &options, nowhere, &report) == -ENOMSG) {
			none++;
			continue;
		}
		begun = true;
		json_decref(export_json(part, &options, &report));
		assert_true(report.cut);
	}
	assert_true(begun && none);
	fclose(nowhere);
	synthetic_free(&s);
}

/* --- collapsed, events --- */

static void collapsed_lines(void **state)
{
	static const char rest[] = "{\"ev\":\"samples\",\"t\":[1001500600,2000000,1000000],"
				   "\"wall\":[1500600,2000000,1000000],"
				   "\"cpu\":[1000600,1000600,1000],\"stack\":[3,3,1]}\n{\"ev\":"
				   "\"end\",\"time\":1005000000}\n";
	_cleanup_close_ int fd = by_hand(rest);
	struct export_report report;
	struct export_options options = {};
	size_t len;
	char *text = run("collapsed", fd, &options, &report, &len);

	assert_string_equal(text, "f:\\n (f.py:1);g (/lib/x.so) 2001\nf:\\n (f.py:1) 1\n");
	free(text);
	options = (struct export_options){.thread_names = true, .idle = true, .lines = true};
	text = run("raw", fd, &options, &report, &len);
	assert_string_equal(text, "main (7);f:\\n (f.py:5);g (/lib/x.so) 2001\nmain (7);(idle) "
				  "2998\nmain (7);f:\\n (f.py:5) 1\n");
	free(text);
}

static void collapsed_is_true(void **state)
{
	struct synthetic s = {.threads = 4,
			      .rate = 999,
			      .seconds = 4,
			      .depth = 20,
			      .seed = 4,
			      .epoch_seconds = 1};
	const struct export_options options = {};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	size_t len;
	char *text = run("collapsed", fd, &options, &report, &len), *line, *save;
	uint64_t total = 0, cpu = 0;
	uint32_t i;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		total += strtoull(strrchr(line, ' '), NULL, 10);
	for (i = 0; i < s.threads; i++)
		cpu += s.truth[i].cpu;
	assert_true(total <= cpu / 1000 && total + 1 >= cpu / 1000);
	assert_int_equal(report.cpu, cpu);
	free(text);
	synthetic_free(&s);
}

/* What does not fit is folded into callers: the time stays, and each stack is one of the recording, or its outer part. */
static void collapsed_fits(void **state)
{
	struct synthetic s = {.threads = 2, .rate = 999, .seconds = 4, .depth = 20, .seed = 4, .epoch_seconds = 1};
	struct export_options options = {};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	size_t len, small_len;
	char *whole = run("collapsed", fd, &options, &report, &len), *small, *line, *save;
	uint64_t total = 0, cpu = report.cpu;

	assert_int_equal(report.folded_below, 0);
	options.max_bytes = len / 8;
	small = run("collapsed", fd, &options, &report, &small_len);
	assert_in_range(small_len, options.max_bytes / 8, options.max_bytes);
	assert_true(report.folded_below >= 1000000000 / 999);
	for (line = strtok_r(small, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *end = strrchr(line, ' ');
		_cleanup_free_ char *stack = strndup(line, (size_t)(end - line));
		const char *at = whole;
		bool found = !strcmp(stack, "(folded)");

		total += strtoull(end, NULL, 10);
		for (; !found && (at = strstr(at, stack)); at++)
			found = (at == whole || at[-1] == '\n') && strchr("; ", at[strlen(stack)]);
		assert_true(found);
	}
	assert_true(total <= cpu / 1000 && total + 1 >= cpu / 1000);
	free(whole);
	free(small);
	synthetic_free(&s);
}

static void events_are_copied(void **state)
{
	_cleanup_close_ int fd = by_hand("{\"ev\":\"end\",\"time\":1005000000}\n");
	const struct export_options options = {};
	struct export_report report;
	size_t len;
	char *text = run("events", fd, &options, &report, &len);

	assert_int_equal(len, lseek(fd, 0, SEEK_END));
	assert_memory_equal(text, TABLES, strlen(TABLES));
	free(text);
}

static void errors_are_told(void **state)
{
	_cleanup_close_ int fd = by_hand("{\"ev\":\"samples\",\"t\":[1],\"thread\":[9]}\n");
	_cleanup_close_ int good = by_hand("{\"ev\":\"end\",\"time\":1005000000}\n");
	const struct export_options options = {};
	struct export_report report;
	const struct exporter *exporter;
	FILE *full = fopen("/dev/full", "we");

	assert_int_equal(export__run("speedscope", fd, &options, full, &report), -EBADMSG);
	assert_int_equal(export__run("gif", good, &options, full, &report), -ENOENT);
	for (exporter = exporters; exporter->name; exporter++) {
		setvbuf(full, NULL, _IONBF, 0);
		assert_ptr_equal(exporter__find(exporter->name), exporter);
		if (strcmp(exporter->name, "collapsed")) /* nothing ran: it is empty */
			assert_int_equal(export__run(exporter->name, good, &options, full, &report),
					 -ENOSPC);
	}
	fclose(full);
}

/* The interpreter's own frames between Python frames, below them, and where there is no Python around. */
static void the_interpreter_is_folded(void **state)
{
	static const char tables[] =
		"{\"ev\":\"hello\",\"major\":1,\"minor\":0}\n"
		"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000000000,\"command\":\"a\"}\n"
		"{\"ev\":\"epoch\",\"number\":1,\"time\":1000000000}\n"
		"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000000000,\"name\":\"p\"}\n"
		"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000000000,\"name\":\"main\"}\n"
		"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"start\",\"\",0,\"c\",1],[\"run\",\"\",0,\"p\",5],[\"f\",\"f.py\",1,\"\",0],"
		"[\"eval\",\"\",0,\"p\",5],[\"g\",\"f.py\",3,\"\",0]]}\n"
		"{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,0,0,0],[1,0,0,0],[2,0,1,0],[3,0,0,0],[4,0,3,0]]}\n"
		/* 1 start, 2 run, 3 f, 4 eval, 5 g, 6 eval below g, 7 g in f by another way, 8 run in run */
		"{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0],[1,1],[2,2],[3,3],[4,4],[5,3],[3,4],[2,1]]}\n"
		"{\"ev\":\"samples\",\"t\":[1001000000,1000000,1000000,1000000,1000000,1000000,1000000,1000000],"
		"\"wall\":[1000000,1000000,1000000,1000000,1000000,1000000,1000000,1000000],"
		"\"cpu\":[1000000,1000000,1000000,1000000,1000000,1000000,1000000,1000000],\"stack\":[1,2,3,4,5,6,7,8]}\n"
		"{\"ev\":\"end\",\"time\":1008000000}\n";
	static const char *const wants[] = {
		"start 1000\nstart;run 1000\nstart;run;f 1000\nstart;run;f;eval 1000\nstart;run;f;eval;g 1000\n"
		"start;run;f;eval;g;eval 1000\nstart;run;f;g 1000\nstart;run;run 1000\n",
		"start 1000\nstart;f 2000\nstart;f;g 3000\nstart;run 2000\n",
	};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	struct export_report report;
	int folded;

	assert_int_equal(write(fd, tables, strlen(tables)), (ssize_t)strlen(tables));
	for (folded = 0; folded < 2; folded++) {
		const struct export_options options = {.fold_interpreter = folded};
		char *text = NULL, command[4096], got[1024] = "";
		size_t len;
		FILE *out = open_memstream(&text, &len), *sort;

		assert_int_equal(export__run("collapsed", fd, &options, out, &report), 0);
		fclose(out);
		snprintf(command, sizeof(command), "sed 's/ ([^)]*)//g' <<'END' | LC_ALL=C sort\n%sEND\n", text);
		sort = popen(command, "r");
		got[fread(got, 1, sizeof(got) - 1, sort)] = '\0';
		pclose(sort);
		assert_string_equal(got, wants[folded]);
		free(text);
	}
}

/* A stack has the function if any of its frames has; the empty stack has none. */
static void filters_ask_the_whole_stack(void **state)
{
	const struct function_row functions[] = {{"f", "a.py", 1, "", FUNCTION_PYTHON}, {"g", "a.py", 9, "", FUNCTION_PYTHON}};
	const struct frame_row frames[] = {{.function = 0, .offset = -1}, {.function = 1, .offset = -1}};
	const struct stack_row stacks[] = {{0, 0}, {1, 1}, {2, 0}};
	const struct event events[] = {{.kind = EVENT_FUNCTIONS, .rows = {0, 2, functions}},
				       {.kind = EVENT_FRAMES, .rows = {0, 2, frames}},
				       {.kind = EVENT_STACKS, .rows = {1, 3, stacks}}};
	const struct export_options options = {.function = "g"};
	static const bool wants[] = {false, false, true, true};
	struct export_missing missing;
	struct filter *filter;
	bool pass;

	assert_int_equal(filter__new(&options, -1, &filter), 0);
	assert_int_equal(filter__missing(filter, &missing), -ENOENT);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		assert_int_equal(filter__event(filter, &events[i]), 0);
	for (uint32_t i = 0; i < sizeof(wants); i++) {
		assert_int_equal(filter__passes(filter, &(struct sample_row){.stack = i}, &pass), 0);
		assert_int_equal(pass, wants[i]);
	}
	assert_int_equal(filter__missing(filter, &missing), 0);
	filter__free(filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_interpreter_is_folded),
		cmocka_unit_test(short_idle_is_carried_over),
		cmocka_unit_test(lines_and_columns),
		cmocka_unit_test(what_was_not_recorded_is_said),
		cmocka_unit_test(cpu_beyond_wall_is_made_up_for),
		cmocka_unit_test(waiting_stacks_on_request),
		cmocka_unit_test(processes_are_named),
		cmocka_unit_test(cut_recordings_export),
		cmocka_unit_test(collapsed_lines),
		cmocka_unit_test(collapsed_is_true),
		cmocka_unit_test(collapsed_fits),
		cmocka_unit_test(events_are_copied),
		cmocka_unit_test(errors_are_told),
		cmocka_unit_test(filters_ask_the_whole_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
