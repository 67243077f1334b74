/* SPDX-License-Identifier: MIT */
/* The tree of compiles and the table of repeats: of synthetic recordings against their generator, of a recording
 * written by hand against its contents. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export_util.h"
#include "report/report.h"
#include "rules/rules.h"

#define PATH_MAX_BYTES 2048

static json_t *table_of(int fd, const struct report_options *options)
{
	json_t *json = report_of(fd, options),
	       *table = json_incref(json_array_get(json_object_get(json, "tables"), 0));

	json_decref(json);
	return table;
}

/* --- the tree --- */

struct row_truth {
	uint64_t exclusive, inclusive, elapsed, calls;
};

/* "compile_3(int0)/phase_1/": outermost first. */
static void path_of(const struct synthetic *s, uint32_t call, char *ret)
{
	char name[32], signature[32];

	*ret = '\0';
	if (call == UINT32_MAX)
		return;
	path_of(s, s->calls[call].parent, ret);
	synthetic_unit_name(&s->calls[call], name, signature);
	sprintf(ret + strlen(ret), "%s(%s)/", name, signature);
}

static uint32_t compile_of(const struct synthetic *s, uint32_t call)
{
	while (call != UINT32_MAX && s->calls[call].kind)
		call = s->calls[call].parent;
	return call;
}

static struct row_truth truth_of(const struct synthetic *s, char (*paths)[PATH_MAX_BYTES],
				 const char *path, bool compile)
{
	struct row_truth truth = {};
	size_t len = strlen(path);
	uint32_t i, own;

	for (i = 0; i < s->calls_n; i++) {
		if (strncmp(paths[i], path, len))
			continue;
		truth.inclusive += s->calls[i].cpu;
		truth.elapsed += s->calls[i].wall;
		truth.calls += !paths[i][len];
		own = compile ? compile_of(s, i) : i;
		truth.exclusive +=
			own != UINT32_MAX && !strcmp(paths[own], path) ? s->calls[i].cpu : 0;
	}
	return truth;
}

static uint32_t check_rows(const struct synthetic *s, char (*paths)[PATH_MAX_BYTES],
			   const json_t *rows, const char *above)
{
	char path[PATH_MAX_BYTES];
	struct row_truth truth;
	uint32_t n = 0;
	json_t *row;
	size_t i;

	json_array_foreach((json_t *)rows, i, row)
	{
		const char *signature = json_string_value(json_object_get(row, "signature"));

		snprintf(path, sizeof(path), "%s%s(%s)/", above, text_of(row, "name"),
			 signature ? signature : "");
		truth = truth_of(s, paths, path, !strcmp(text_of(row, "what"), "unit"));
		assert_int_equal(number_of(row, "inclusive_ns"), truth.inclusive);
		assert_int_equal(number_of(row, "exclusive_ns"), truth.exclusive);
		assert_int_equal(number_of(row, "elapsed_ns"), truth.elapsed);
		assert_int_equal(number_of(row, "calls"), truth.calls);
		n += 1 + check_rows(s, paths, json_object_get(row, "rows"), path);
	}
	return n;
}

static uint32_t different(const struct synthetic *s, char (*paths)[PATH_MAX_BYTES])
{
	uint32_t i, j, n = 0;

	for (i = 0; i < s->calls_n; i++) {
		for (j = 0; j < i && strcmp(paths[i], paths[j]); j++)
			;
		n += j == i;
	}
	return n;
}

static void check_tree(uint32_t threads, uint32_t epoch_seconds)
{
	struct synthetic s = {.threads = threads,
			      .rate = 999,
			      .seconds = 4,
			      .depth = 20,
			      .seed = 11 + threads,
			      .epoch_seconds = epoch_seconds,
			      .units = true};
	const struct report_options options = {.tables = 1u << REPORT_TREE, .phases = true};
	_cleanup_close_ int fd = made_up(&s);
	json_t *table = table_of(fd, &options), *rows = json_object_get(table, "rows"), *row;
	char(*paths)[PATH_MAX_BYTES] = calloc(s.calls_n, sizeof(*paths));
	uint32_t i, n = 0;
	uint64_t sum = 0;
	size_t at;

	assert_non_null(paths);
	for (i = 0; i < s.calls_n; i++)
		path_of(&s, i, paths[i]);
	json_array_foreach(rows, at, row)
	{
		sum += number_of(row, "inclusive_ns");
		if (!strcmp(text_of(row, "what"), "trigger"))
			n += check_rows(&s, paths, json_object_get(row, "rows"), "");
	}
	assert_int_equal(n, different(&s, paths));
	assert_int_equal(sum, number_of(table, "total_ns"));
	free(paths);
	json_decref(table);
	synthetic_free(&s);
}

static void one_thread(void **state)
{
	check_tree(1, 0);
}
static void several_threads(void **state)
{
	check_tree(3, 0);
}
static void epochs(void **state)
{
	check_tree(2, 1);
}

/* --- repeats --- */

static const char staged[] = "compiler Made-up\n"
			     "stage \"one\" phase_0 phase_1 phase_5 pass_7\n"
			     "stage \"two\" phase_10 pass_3 phase_2\n"
			     "unit\n\tfile f\n\tfunction f\n\tname @function\n";

static struct rules *rules_made(void)
{
	struct rules_error error;
	struct rules *rules;

	assert_int_equal(rules__new(&rules), 0);
	assert_int_equal(rules__parse(rules, "it", staged, strlen(staged), &error), 0);
	return rules;
}

/* 0, 1; 2: of none. */
static int stage_of(const struct synthetic *s, uint32_t call)
{
	static const char *const stages[] = {"/phase_0/phase_1/phase_5/pass_7/",
					     "/phase_10/pass_3/phase_2/"};
	char name[32], signature[32], word[40];
	int i;

	for (; s->calls[call].kind; call = s->calls[call].parent) {
		synthetic_unit_name(&s->calls[call], name, signature);
		snprintf(word, sizeof(word), "/%s/", name);
		for (i = 0; i < 2; i++)
			if (strstr(stages[i], word))
				return i;
	}
	return 2;
}

/* Own time of all compiles of a name but the first; of all of it, of a stage. */
static uint64_t repeated(const struct synthetic *s, const char *want, int stage,
			 uint32_t *ret_calls)
{
	char name[32], signature[32];
	uint32_t i, own, first = UINT32_MAX;
	uint64_t sum = 0;

	*ret_calls = 0;
	for (i = 0; i < s->calls_n; i++) {
		own = compile_of(s, i);
		synthetic_unit_name(&s->calls[own], name, signature);
		if (strcmp(name, want))
			continue;
		if (first == UINT32_MAX)
			first = own;
		if (own == first)
			continue;
		*ret_calls += own == i;
		sum += stage < 0 || stage_of(s, i) == stage ? s->calls[i].cpu : 0;
	}
	return sum;
}

static void check_repeats(uint32_t epoch_seconds)
{
	struct synthetic s = {.threads = 1,
			      .rate = 999,
			      .seconds = 6,
			      .depth = 20,
			      .seed = 3,
			      .epoch_seconds = epoch_seconds,
			      .units = true};
	struct rules *rules = rules_made();
	const struct report_options options = {.tables = 1u << REPORT_REPEAT, .rules = rules};
	_cleanup_close_ int fd = made_up(&s);
	json_t *table = table_of(fd, &options), *rows = json_object_get(table, "rows"), *row,
	       *saved;
	uint64_t stages = 0;
	uint32_t calls;
	size_t i, at;
	int stage;

	/* Of a function the compiles that met another one of it are rows of their own. */
	for (i = 0; i < 20; i++) {
		uint64_t have[4] = {};
		char name[32];

		snprintf(name, sizeof(name), "compile_%zu", i);
		json_array_foreach(rows, at, row)
		{
			if (strcmp(text_of(row, "name"), name))
				continue;
			saved = json_object_get(row, "saved");
			assert_int_equal(json_array_size(saved), 3);
			for (stage = 0; stage < 3; stage++)
				have[stage] +=
					number_of(json_array_get(saved, stage), "exclusive_ns");
			have[3] += number_of(row, "calls");
			assert_int_equal(number_of(json_array_get(saved, 2), "exclusive_ns"),
					 number_of(row, "exclusive_ns"));
			assert_true(!strcmp(text_of(row, "reason"), "same types") || !strcmp(text_of(row, "reason"), "meanwhile") ||
				    !strcmp(text_of(row, "reason"), "failed before"));
		}
		for (stage = 0; stage < 3; stage++)
			assert_int_equal(have[stage],
					 repeated(&s, name, stage < 2 ? stage : -1, &calls));
		assert_int_equal(have[3], calls);
		stages += have[0];
	}
	assert_true(stages > 0);
	json_decref(table);
	rules__free(rules);
	synthetic_free(&s);
}

/* f at line 4, in it g at none, then at 9; f at 4 inside of itself; at none; another f, at none. Each row counts once for a stack. */
static void lines_of_sources(void **state)
{
	static const char text[] =
		"{\"ev\":\"hello\",\"major\":1,\"minor\":11}\n"
		"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,\"command\":\"c\"}\n"
		"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n"
		"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"C\",\"f\",\"i\",1000,0,\"a.py\",2],[1,0,1,\"C\",\"lowering\",\"\",1000],"
		"[2,0,0,\"C\",\"g\",\"\",1000,0,\"b.py\",7],[2,0,0,\"C\",\"f\",\"d\",1000,0,\"a.py\",2],[4,0,1,\"C\",\"typing\",\"\",1000],"
		"[0,0,0,\"C\",\"f\",\"i\",1000,0,\"a.py\",20]]}\n"
		"{\"ev\":\"lines\",\"first\":1,\"rows\":[[0,1,\"a.py\",4],[1,2,\"b.py\",9],[1,2,\"a.py\",4]]}\n"
		"{\"ev\":\"samples\",\"t\":[1100,100,100,100,100,100,100],\"wall\":[100,100,100,100,100,100,100],\"cpu\":[100,100,100,100,100,100,100],"
		"\"thread\":[0,0,0,0,0,0,0],\"unit\":[2,3,3,5,1,0,6],\"line\":[1,1,2,3,0,0,0]}\n"
		"{\"ev\":\"end\",\"time\":9000}\n";
	static const char *const want[] = {"f 2 a.py:4 200 400 lowering=300 typing=100 ", "(outside of compiles) 0 :0 100 100 ", "f 2 a.py:0 100 100 ",
					   "f 20 a.py:0 100 100 ", "g 7 b.py:9 100 100 ", "g 7 b.py:0 100 100 "};
	const struct report_options options = {.tables = 1u << REPORT_SOURCE_LINE};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *table, *row, *phase;
	char line[200];
	size_t i, j;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	table = table_of(fd, &options);
	assert_int_equal(json_array_size(json_object_get(table, "rows")), sizeof(want) / sizeof(want[0]));
	json_array_foreach(json_object_get(table, "rows"), i, row)
	{
		snprintf(line, sizeof(line), "%s %d %s:%d %d %d ", text_of(row, "name"), (int)number_of(row, "defined"), text_of(row, "file"), (int)number_of(row, "line"),
			 (int)number_of(row, "exclusive_ns"), (int)number_of(row, "inclusive_ns"));
		json_array_foreach(json_object_get(row, "phases"), j, phase)
			sprintf(line + strlen(line), "%s=%d ", text_of(phase, "name"), (int)number_of(phase, "inclusive_ns"));
		assert_string_equal(line, want[i]);
	}
	json_decref(table);
}

/* The calls are counted: each function's source is opened once. */
static int opened;
static int open_it(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	opened++;
	return fd < 0 ? -errno : fd;
}

/* The text of a report of f at line 3 of this file, whose recording ended at `realtime` + 8000 ns. */
static char *listing_of(const char *path, uint64_t realtime)
{
	const struct report_options options = {.tables = 1u << REPORT_SOURCE_LINE, .open_source = open_it};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	struct report *report;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	dprintf(fd,
		"{\"ev\":\"hello\",\"major\":1,\"minor\":11}\n"
		"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,\"realtime\":%llu,\"command\":\"c\"}\n"
		"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n"
		"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"C\",\"f\",\"i\",1000,0,\"%s\",2]]}\n"
		"{\"ev\":\"lines\",\"first\":1,\"rows\":[[0,1,\"%s\",3],[0,1,\"%s\",2]]}\n"
		"{\"ev\":\"samples\",\"t\":[1100,100],\"wall\":[100,100],\"cpu\":[100,100],\"thread\":[0,0],\"unit\":[1,1],\"line\":[1,2]}\n"
		"{\"ev\":\"end\",\"time\":9000}\n",
		(unsigned long long)realtime, path, path, path);
	lseek(fd, 0, SEEK_SET);
	opened = 0;
	assert_int_equal(report__new(&options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), 0);
	assert_int_equal(report__text(report, out), 0);
	report__free(report);
	fclose(out);
	assert_int_equal(opened, 1);
	assert_non_null(strstr(text, "50.00         2  "));
	assert_non_null(strstr(text, "50.00         3  "));
	return text;
}

static void has(const char *path, uint64_t realtime, const char *words, const char *without)
{
	char *text = listing_of(path, realtime);

	if (!strstr(text, words))
		fail_msg("no '%s' in:\n%s", words, text);
	if (without)
		assert_null(strstr(text, without));
	free(text);
}

static void sources_are_listed(void **state)
{
	char path[] = "/tmp/cprofd-source-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);
	const uint64_t late = 4000000000000000000ull;

	assert_true(fd >= 0);
	dprintf(fd, "# one\rdef f(x):\r\n\treturn x + '\x1b[1m'\n# four\n# five\n# six\n");
	has(path, late, "50.00         3          return x + '\\x1b[1m'\n", "the source ");
	has(path, late, "         1  # one\n", "# six"); /* two lines around */
	has(path, 1, "changed after the recording", "cannot be read");
	dprintf(fd, "# \xff\n");
	has(path, late, "is not UTF-8", "changed");
	assert_int_equal(ftruncate(fd, 6), 0);
	has(path, late, "(the file ends before this line)", NULL);
	assert_int_equal(ftruncate(fd, 17 << 20), 0);
	has(path, late, "larger than 16 MiB", "(the file ends");
	unlink(path);
	has(path, late, "cannot be read: No such file", NULL);
	assert_int_equal(mkfifo(path, 0600), 0);
	has(path, late, "no file with a source", NULL);
	unlink(path);
}

static void what_caches_had_saved(void **state)
{
	check_repeats(0);
}
static void over_epochs(void **state)
{
	check_repeats(1);
}

#define UNIT(parent, thread, name, signature, time, file)                                          \
	"[" #parent "," #thread ",0,\"Made-up\",\"" name "\",\"" signature "\"," #time             \
	",0,\"" file "\",4]"
#define SAMPLE(time, thread, unit)                                                                 \
	"{\"ev\":\"samples\",\"t\":[" #time "],\"wall\":[100],\"cpu\":[100],\"thread\":[" #thread  \
	"],\"unit\":[" #unit "]}\n"
#define END(unit, time) "{\"ev\":\"unit_end\",\"id\":" #unit ",\"time\":" #time "}\n"

/* f for i; for i while that goes on, in another thread; for i again; for d; code of <string> twice;
 * g in another process. */
static void reasons(void **state)
{
	static const char text[] =
		"{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n"
		"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,"
		"\"command\":\"c\"}\n"
		"{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n"
		"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n"
		"{\"ev\":\"process\",\"id\":1,\"pid\":9,\"time\":1000,\"name\":\"q\"}\n"
		"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":"
		"\"main\"}\n"
		"{\"ev\":\"thread\",\"id\":1,\"process\":0,\"tid\":8,\"time\":1000,\"name\":"
		"\"other\"}\n"
		"{\"ev\":\"thread\",\"id\":2,\"process\":1,\"tid\":9,\"time\":1000,\"name\":"
		"\"child\"}\n"
		"{\"ev\":\"units\",\"first\":1,\"rows\":[" UNIT(0, 0, "f", "i", 2000, "/a.py") "," UNIT(
			0, 1,
			"f", "i", 2100, "/a.py") "]}\n" SAMPLE(2100, 0,
							       1) SAMPLE(2200, 1,
									 2) SAMPLE(2300, 0,
										   1) END(1,
											  2300) SAMPLE(2400,
												       1,
												       2)
			END(2, 2400) "{\"ev\":\"units\",\"first\":3,\"rows\":[" UNIT(0, 0, "f", "i", 3000, "/a.py") "," UNIT(
				0, 0, "f", "d", 4000,
				"/a.py") "," UNIT(0, 0, "h", "", 5000,
						  "<string>") "," UNIT(0, 0, "h", "", 6000,
								       "<string>") "," UNIT(0, 2,
											    "f",
											    "i",
											    7000,
											    "/a.py") "]}\n" SAMPLE(3100,
														   0,
														   3)
				END(3, 3100) SAMPLE(4100, 0, 4) END(4, 4100) SAMPLE(5100, 0, 5) END(
					5, 5100) SAMPLE(6100, 0, 6) END(6, 6100) SAMPLE(7100, 2, 7)
					END(7, 7100) "{\"ev\":\"end\",\"time\":9000}\n";
	static const char *const want[] = {"f i meanwhile 1 200", "f i same types 1 100",
					   "f d new types 1 100", "h  not known 1 100"};
	const struct report_options options = {.tables = 1u << REPORT_REPEAT},
				    chains = {.tables = 1u << REPORT_CHAIN};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *table, *row;
	char line[100];
	size_t i, j;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	table = table_of(fd, &options);
	assert_int_equal(json_array_size(json_object_get(table, "rows")), 4);
	for (j = 0; j < 4; j++) {
		bool found = false;

		json_array_foreach(json_object_get(table, "rows"), i, row)
		{
			snprintf(line, sizeof(line), "%s %s %s %d %d", text_of(row, "name"),
				 text_of(row, "signature"), text_of(row, "reason"),
				 (int)number_of(row, "calls"), (int)number_of(row, "exclusive_ns"));
			found |= !strcmp(line, want[j]);
		}
		if (!found)
			fail_msg("%s: not told", want[j]);
	}
	json_decref(table);
	table = table_of(fd, &chains);
	assert_int_equal(json_array_size(json_object_get(table, "rows")), 7);
	row = json_array_get(json_object_get(table, "rows"), 2);
	assert_int_equal(number_of(row, "start_ns"), 2000);
	assert_int_equal(number_of(row, "after_ns"), 700); /* from 2300 to 3000 */
	assert_null(json_object_get(json_array_get(json_object_get(table, "rows"), 1), "after_ns"));
	json_decref(table);
}

#define ONE_THREAD \
	"{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n" \
	"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,\"command\":\"c\"}\n" \
	"{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n" \
	"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n" \
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"

/* f(i) needs g, which needs f(d): by hand, what each function has over all its signatures. Another f, of another file, is
 * another function. */
static void functions_of_all_signatures(void **state)
{
	static const char text[] =
		ONE_THREAD
		"{\"ev\":\"units\",\"first\":1,\"rows\":[" UNIT(0, 0, "f", "i", 2000, "/a.py") "," UNIT(
			1, 0, "g", "i", 2100, "/a.py") "," UNIT(2, 0, "f", "d", 2200, "/a.py") "]}\n"
		SAMPLE(2100, 0, 1) SAMPLE(2200, 0, 2) SAMPLE(2300, 0, 3) SAMPLE(2400, 0, 3)
		END(3, 2400) END(2, 2400) END(1, 2400)
		"{\"ev\":\"units\",\"first\":4,\"rows\":[" UNIT(0, 0, "f", "i", 3000, "/a.py") "," UNIT(
			0, 0, "f", "i", 4000, "/b.py") "]}\n"
		SAMPLE(3100, 0, 4) END(4, 3100) SAMPLE(4100, 0, 5) END(5, 4100) SAMPLE(5000, 0, 0)
		"{\"ev\":\"end\",\"time\":9000}\n";
	/* exclusive, inclusive, compiles, signatures: each with its own */
	static const char want[] = "f /a.py:4 400 500 3 2: i 200 500 2 d 200 200 1\n"
				   "f /b.py:4 100 100 1 1: i 100 100 1\n"
				   "g /a.py:4 100 300 1 1: i 100 300 1\n"
				   "(outside of compiles) :0 100 100 0 0:\n";
	const struct report_options options = {.tables = 1u << REPORT_SOURCE};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *table, *row, *part;
	char told[1000], *at = told, *end;
	size_t i, j;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	table = table_of(fd, &options);
	assert_int_equal(number_of(table, "total_ns"), 700);
	json_array_foreach(json_object_get(table, "rows"), i, row)
	{
		const json_t *parts = json_object_get(row, "signatures");

		at = told;
		end = told + sizeof(told);
		at += snprintf(at, (size_t)(end - at), "%s %s:%d %d %d %d %d:", text_of(row, "name"), text_of(row, "file"),
			       (int)number_of(row, "line"), (int)number_of(row, "exclusive_ns"),
			       (int)number_of(row, "inclusive_ns"), (int)number_of(row, "calls"), (int)json_array_size(parts));
		json_array_foreach(parts, j, part)
			at += snprintf(at, (size_t)(end - at), " %s %d %d %d", text_of(part, "name"), (int)number_of(part, "exclusive_ns"),
				       (int)number_of(part, "inclusive_ns"), (int)number_of(part, "calls"));
		snprintf(at, (size_t)(end - at), "\n");
		if (!strstr(want, told))
			fail_msg("%s: is not so", told);
	}
	assert_int_equal(i, 4);
	json_decref(table);
}

#define ROW(parent, kind, name, signature, time)                                                                                  \
	"[" #parent ",0," #kind ",\"Made-up\",\"" name "\",\"" signature "\"," #time ",0,\"/a.py\",4]"
#define TOOK(time, unit, cpu)                                                                                                     \
	"{\"ev\":\"samples\",\"t\":[" #time "],\"wall\":[" #cpu "],\"cpu\":[" #cpu "],\"thread\":[0],\"unit\":[" #unit "]}\n"

/* f(i) is left in phase_0, where g(i) of 5 ms is compiled, too short to be judged; f(i) again comes to the last stage; h goes on at the
 * end. */
static void left_by_an_exception(void **state)
{
	static const char text[] =
		ONE_THREAD
		"{\"ev\":\"units\",\"first\":1,\"rows\":[" ROW(0, 0, "f", "i", 1000) "," ROW(1, 1, "phase_0", "", 1000) "," ROW(
			2, 0, "g", "i", 20001000) "," ROW(3, 1, "phase_0", "", 20001000) "]}\n"
		TOOK(20001000, 2, 20000000) TOOK(25001000, 4, 5000000)
		END(4, 25001000) END(3, 25001000) END(2, 25001000) END(1, 25001000)
		"{\"ev\":\"units\",\"first\":5,\"rows\":[" ROW(0, 0, "f", "i", 30001000) "," ROW(5, 1, "phase_0", "", 30001000) "," ROW(
			5, 1, "phase_10", "", 50001000) "]}\n"
		TOOK(50001000, 6, 20000000) END(6, 50001000) TOOK(70001000, 7, 20000000) END(7, 70001000) END(5, 70001000)
		"{\"ev\":\"units\",\"first\":8,\"rows\":[" ROW(0, 0, "h", "i", 70001000) "," ROW(8, 1, "phase_0", "", 70001000) "]}\n"
		TOOK(90001000, 9, 20000000) END(9, 90001000) END(8, 90001000) "{\"ev\":\"end\",\"time\":90002000}\n";
	struct rules *rules = rules_made();
	const struct report_options options = {.tables = 1u << REPORT_FAILED, .rules = rules},
				    repeats = {.tables = 1u << REPORT_REPEAT, .rules = rules};
	_cleanup_close_ int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *table, *rows, *row;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	table = table_of(fd, &options);
	rows = json_object_get(table, "rows");
	assert_int_equal(json_array_size(rows), 1);
	row = json_array_get(rows, 0);
	assert_string_equal(text_of(row, "name"), "f");
	assert_string_equal(text_of(row, "signature"), "i");
	assert_int_equal(number_of(row, "calls"), 1);
	assert_int_equal(number_of(row, "exclusive_ns"), 20000000);
	assert_int_equal(number_of(row, "inclusive_ns"), 25000000);
	rows = json_object_get(row, "left_in");
	assert_int_equal(json_array_size(rows), 1);
	assert_string_equal(text_of(json_array_get(rows, 0), "name"), "phase_0");
	json_decref(table);
	table = table_of(fd, &repeats);
	rows = json_object_get(table, "rows");
	assert_int_equal(json_array_size(rows), 1);
	assert_string_equal(text_of(json_array_get(rows, 0), "reason"), "failed before");
	json_decref(table);
	rules__free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread),  cmocka_unit_test(several_threads),
		cmocka_unit_test(epochs),      cmocka_unit_test(what_caches_had_saved), cmocka_unit_test(lines_of_sources), cmocka_unit_test(sources_are_listed),
		cmocka_unit_test(over_epochs), cmocka_unit_test(reasons),
		cmocka_unit_test(functions_of_all_signatures), cmocka_unit_test(left_by_an_exception),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
