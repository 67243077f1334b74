/* Exporters against the truth of a synthetic recording: sums come from the
 * generator, never from the code under test; the files are read by jansson. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tools/synthetic.h"
#include "base/cleanup.h"
#include "events_util.h"
#include "export/export.h"

static void memory_open(struct memory *memory)
{
	*memory = (struct memory){.sink = {memory_event},
				  .fd = memfd_create("recording", MFD_CLOEXEC)};
	assert_int_equal(recording_writer__new(memory->fd, true, &memory->writer), 0);
}

static int memory_close(struct memory *memory)
{
	assert_int_equal(recording_writer__flush(memory->writer), 0);
	recording_writer__free(memory->writer);
	buf__free(&memory->line);
	return memory->fd;
}

static int made_up(struct synthetic *s)
{
	struct memory memory;

	memory_open(&memory);
	s->sink = &memory.sink;
	synthetic_run(s);
	return memory_close(&memory);
}

static char *run(const char *format, int fd, const struct export_options *options,
		 struct export_report *ret, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	assert_int_equal(export__run(format, fd, options, out, ret), 0);
	fclose(out);
	return text;
}

/* --- speedscope: what it must be --- */

static json_t *export_json(int fd, const struct export_options *options, struct export_report *ret)
{
	size_t len;
	char *text = run("speedscope", fd, options, ret, &len);
	json_error_t error;
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

	if (!json)
		fail_msg("%s at %d", error.text, error.position);
	assert_true(len <= (options->max_bytes ? options->max_bytes : EXPORT_BYTES_MAX));
	free(text);
	return json;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static json_t *frames_of(const json_t *file)
{
	return json_object_get(json_object_get(file, "shared"), "frames");
}

static void frames_are_unique_and_used(const json_t *file)
{
	json_t *seen = json_object(), *frame;
	size_t i;

	json_array_foreach(frames_of(file), i, frame)
	{
		char key[512];

		snprintf(key, sizeof(key), "%s\n%s\n%llu", text_of(frame, "name"),
			 text_of(frame, "file"), (unsigned long long)number_of(frame, "line"));
		if (json_object_get(seen, key))
			fail_msg("twice in the table: %s", key);
		json_object_set_new(seen, key, json_true());
	}
	json_decref(seen);
}

static json_t *profile_of(const json_t *file, const char *name)
{
	json_t *profiles = json_object_get(file, "profiles"), *profile;
	size_t i;

	json_array_foreach(profiles, i,
			   profile) if (!strcmp(text_of(profile, "name"), name)) return profile;
	fail_msg("no profile %s", name);
	return NULL;
}

/* Self time by frame name; the key "" is time of an empty stack. */
static json_t *self_times(const json_t *file, const json_t *profile)
{
	json_t *samples = json_object_get(profile, "samples"),
	       *weights = json_object_get(profile, "weights");
	json_t *self = json_object(), *sample;
	size_t i;

	assert_int_equal(json_array_size(samples), json_array_size(weights));
	json_array_foreach(samples, i, sample)
	{
		int64_t ns = json_integer_value(json_array_get(weights, i));
		size_t n = json_array_size(sample);
		json_t *leaf = json_array_get(
			frames_of(file), (size_t)json_integer_value(json_array_get(sample, n - 1)));
		const char *name = n ? text_of(leaf, "name") : "";

		assert_true(ns > 0);
		assert_true(!n || leaf);
		json_object_set_new(
			self, name,
			json_integer(ns + json_integer_value(json_object_get(self, name))));
	}
	return self;
}

static uint64_t sum(const json_t *self)
{
	uint64_t total = 0;
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)self, name, value) total +=
		(uint64_t)json_integer_value(value);
	return total;
}

static void thread_name(uint32_t i, char name[64])
{
	if (i)
		snprintf(name, 64, "worker-%u (%u)", i, 4242 + i);
	else
		snprintf(name, 64, "python3 (4242)");
}

static void thread_is_true(const json_t *file, const struct synthetic *s, uint32_t i)
{
	const struct synthetic_thread *truth = &s->truth[i];
	uint64_t length = s->seconds * 1000000000ull;
	char name[64];
	json_t *profile, *self;
	uint32_t f;

	thread_name(i, name);
	profile = profile_of(file, name);
	self = self_times(file, profile);
	assert_string_equal(text_of(profile, "type"), "sampled");
	assert_string_equal(text_of(profile, "unit"), "nanoseconds");
	assert_int_equal(number_of(profile, "startValue"), 0);
	assert_int_equal(number_of(profile, "endValue"), length);
	assert_int_equal(sum(self), length);
	assert_int_equal(number_of(self, ""), length - truth->wall);
	assert_int_equal(number_of(self, "(idle)"), truth->wall - truth->cpu);
	for (f = 0; f < SYNTHETIC_FUNCTIONS; f++) {
		synthetic_name(f, name);
		assert_int_equal(number_of(self, name), truth->self[f]);
	}
	if (truth->begin) { /* padding is first, and as long as the thread was not there */
		assert_int_equal(
			json_array_size(json_array_get(json_object_get(profile, "samples"), 0)), 0);
		assert_int_equal(
			json_integer_value(json_array_get(json_object_get(profile, "weights"), 0)),
			truth->begin);
	}
	json_decref(self);
}

static void all_threads_is_the_sum(const json_t *file, const struct synthetic *s)
{
	json_t *profile = json_array_get(json_object_get(file, "profiles"), 0);
	json_t *self = self_times(file, profile);
	uint64_t wall = 0, cpu = 0;
	uint32_t i;

	for (i = 0; i < s->threads; i++) {
		wall += s->truth[i].wall;
		cpu += s->truth[i].cpu;
	}
	assert_string_equal(text_of(profile, "name"), "all threads");
	assert_int_equal(sum(self), wall);
	assert_int_equal(number_of(self, "(idle)"), wall - cpu);
	assert_int_equal(number_of(self, ""), 0);
	assert_int_equal(number_of(profile, "endValue"), wall);
	json_decref(self);
}

static void check_speedscope(uint32_t threads, uint32_t depth, uint32_t epoch_seconds, bool lines,
			     uint64_t max_bytes)
{
	struct synthetic s = {.threads = threads,
			      .rate = 999,
			      .seconds = 8,
			      .depth = depth,
			      .seed = threads,
			      .epoch_seconds = epoch_seconds};
	const struct export_options options = {.lines = lines, .max_bytes = max_bytes};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	json_t *file = export_json(fd, &options, &report);
	uint32_t i;

	frames_are_unique_and_used(file);
	assert_int_equal(json_array_size(json_object_get(file, "profiles")),
			 threads + (threads > 1));
	assert_int_equal(number_of(file, "activeProfileIndex"), threads > 1);
	for (i = 0; i < threads; i++)
		thread_is_true(file, &s, i);
	if (threads > 1)
		all_threads_is_the_sum(file, &s);
	assert_int_equal(report.threads, threads);
	assert_false(report.cut);
	assert_int_equal(report.bin != 0, max_bytes != 0);
	assert_int_equal(report.folded_below, 0);
	assert_string_equal(text_of(file, "exporter"), "cprofd@" CPROFD_VERSION);
	json_decref(file);
	synthetic_free(&s);
}

static void one_thread(void **state)
{
	check_speedscope(1, 30, 0, false, 0);
}
static void five_threads(void **state)
{
	check_speedscope(5, 30, 0, false, 0);
}
static void lines(void **state)
{
	check_speedscope(3, 30, 0, true, 0);
}
static void epochs_join(void **state)
{
	check_speedscope(4, 30, 2, false, 0);
}
static void bins_keep_sums(void **state)
{
	check_speedscope(4, 6, 3, false, 500000);
}

/* Far too small a bound: stacks are folded into callers; totals of threads and
 * of idle time stay, and the file says what was done. */
static void folding_keeps_totals(void **state)
{
	struct synthetic s = {.threads = 3, .rate = 999, .seconds = 8, .depth = 30, .seed = 9};
	const struct export_options options = {.max_bytes = 100000};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	json_t *file = export_json(fd, &options, &report);
	json_t *self = self_times(file, profile_of(file, "python3 (4242)"));
	json_t *merged = json_object_get(json_object_get(file, "cprofd"), "merged");

	assert_true(report.folded_below > 0);
	assert_int_equal(number_of(merged, "folded_below_ns"), report.folded_below);
	assert_int_equal(number_of(merged, "bin_ns"), report.bin);
	assert_int_equal(sum(self), 8000000000);
	assert_int_equal(number_of(self, "(idle)"), s.truth[0].wall - s.truth[0].cpu);
	json_decref(self);
	json_decref(file);
	synthetic_free(&s);
}

static void a_window_is_exact(void **state)
{
	struct synthetic s = {.threads = 4, .rate = 999, .seconds = 8, .depth = 10, .seed = 3};
	const struct export_options whole = {}, early = {.to = 3000000123},
				    late = {.from = 3000000123};
	const struct export_options past = {.from = 1ull << 60};
	struct export_report report[3];
	_cleanup_close_ int fd = made_up(&s);
	json_t *file[3] = {export_json(fd, &whole, &report[0]), export_json(fd, &early, &report[1]),
			   export_json(fd, &late, &report[2])};
	uint32_t i, f;

	for (i = 0; i < s.threads; i++) {
		json_t *self[3];
		char name[64];

		thread_name(i, name);
		for (f = 0; f < 3; f++)
			self[f] = self_times(file[f], profile_of(file[f], name));
		assert_int_equal(sum(self[1]), 3000000123);
		assert_int_equal(sum(self[2]), 8000000000 - 3000000123);
		for (f = 0; f < SYNTHETIC_FUNCTIONS; f++) {
			synthetic_name(f, name);
			assert_int_equal(number_of(self[1], name) + number_of(self[2], name),
					 number_of(self[0], name));
		}
		for (f = 0; f < 3; f++)
			json_decref(self[f]);
	}
	for (f = 0; f < 3; f++)
		json_decref(file[f]);
	json_decref(export_json(fd, &past, &report[0]));
	synthetic_free(&s);
}

static void threads_are_chosen(void **state)
{
	struct synthetic s = {.threads = 4, .rate = 99, .seconds = 2, .depth = 10, .seed = 3};
	static const char *const chosen[] = {"4243", "worker-1"};
	struct export_options options = {};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	size_t i;

	for (i = 0; i < 2; i++) {
		options.thread = chosen[i];
		json_t *file = export_json(fd, &options, &report);

		assert_int_equal(json_array_size(json_object_get(file, "profiles")), 1);
		assert_int_equal(number_of(file, "activeProfileIndex"), 0);
		thread_is_true(file, &s, 1);
		assert_int_equal(report.samples, s.truth[1].samples);
		json_decref(file);
	}
	options.thread = "nobody";
	assert_int_equal(export__run("speedscope", fd, &options, stderr, &report), -ENOENT);
	synthetic_free(&s);
}

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
	struct synthetic s = {.threads = 2, .rate = 99, .seconds = 2, .depth = 10, .seed = 5};
	_cleanup_close_ int fd = made_up(&s);
	const struct export_options options = {};
	off_t size = lseek(fd, 0, SEEK_END), at;

	for (at = 0; at < size; at += 997) {
		_cleanup_close_ int part = memfd_create("part", MFD_CLOEXEC);
		struct export_report report;
		off_t from = 0;

		assert_int_equal(copy_file_range(fd, &from, part, NULL, (size_t)at, 0), at);
		json_decref(export_json(part, &options, &report));
		assert_true(report.cut);
	}
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

	assert_string_equal(text, "f:  (f.py:1);g (/lib/x.so) 2001\nf:  (f.py:1) 1\n");
	free(text);
	options = (struct export_options){.thread_names = true, .idle = true, .lines = true};
	text = run("raw", fd, &options, &report, &len);
	assert_string_equal(text, "main (7);f:  (f.py:5);g (/lib/x.so) 2001\nmain (7);(idle) "
				  "2998\nmain (7);f:  (f.py:5) 1\n");
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

/* The official schema, where npm's speedscope and python3-jsonschema are installed. */
static void the_schema_holds(void **state)
{
	struct synthetic s = {.threads = 3, .rate = 99, .seconds = 2, .depth = 10, .seed = 5};
	const struct export_options options = {.lines = true};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	char path[] = "/tmp/cprofd-test-XXXXXX", command[128];
	int out = mkstemp(path), status;
	size_t len;
	char *text = run("speedscope", fd, &options, &report, &len);

	assert_int_equal(write(out, text, len), (ssize_t)len);
	close(out);
	free(text);
	synthetic_free(&s);
	snprintf(command, sizeof(command), "python3 tests/browser/check_speedscope.py --schema %s",
		 path);
	status = system(command);
	unlink(path);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread),
		cmocka_unit_test(five_threads),
		cmocka_unit_test(lines),
		cmocka_unit_test(epochs_join),
		cmocka_unit_test(bins_keep_sums),
		cmocka_unit_test(folding_keeps_totals),
		cmocka_unit_test(a_window_is_exact),
		cmocka_unit_test(threads_are_chosen),
		cmocka_unit_test(short_idle_is_carried_over),
		cmocka_unit_test(lines_and_columns),
		cmocka_unit_test(what_was_not_recorded_is_said),
		cmocka_unit_test(cpu_beyond_wall_is_made_up_for),
		cmocka_unit_test(waiting_stacks_on_request),
		cmocka_unit_test(processes_are_named),
		cmocka_unit_test(cut_recordings_export),
		cmocka_unit_test(collapsed_lines),
		cmocka_unit_test(collapsed_is_true),
		cmocka_unit_test(events_are_copied),
		cmocka_unit_test(errors_are_told),
		cmocka_unit_test(the_schema_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
