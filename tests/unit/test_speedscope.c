/* SPDX-License-Identifier: MIT */
/* The speedscope exporter against the ground truth of a synthetic recording: sums come from the generator, never
 * from the code under test; jansson reads the files. */
#include <sys/wait.h>
#include <unistd.h>

#include "export_util.h"

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
		cmocka_unit_test(the_schema_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
