/* SPDX-License-Identifier: MIT */
/* Compile units in reports and in speedscope, against the ground truth of a synthetic recording: calls and their
 * times come from the generator, over several epochs and with names that arrive late. */
#include <unistd.h>

#include "export_util.h"
#include "report/report.h"

/* Times and calls of the truth, by name and signature: what a row of the report must say. */
struct row_truth {
	uint64_t exclusive, inclusive, elapsed, calls;
};

static void key_of(const struct synthetic_unit *unit, char key[80])
{
	char name[32], signature[32];

	synthetic_unit_name(unit, name, signature);
	snprintf(key, 80, "%s(%s)", name, signature);
}

/* Does a call in between (further in than `outer`) have its name, or, with `compile`, is it a
 * compile? */
static bool inside_of(const struct synthetic *s, uint32_t call, uint32_t outer, const char *name,
		      bool compile)
{
	char key[80];

	for (; call != outer; call = s->calls[call].parent) {
		key_of(&s->calls[call], key);
		if (compile ? s->calls[call].kind == 0 : !strcmp(key, name))
			return true;
	}
	return false;
}

static struct row_truth truth_of(const struct synthetic *s, uint8_t kind, const char *name)
{
	struct row_truth truth = {};
	uint32_t i, at;
	char key[80];

	for (i = 0; i < s->calls_n; i++) {
		const struct synthetic_unit *call = &s->calls[i];

		key_of(call, key);
		truth.calls += call->kind == kind && !strcmp(key, name);
		for (at = i; at != UINT32_MAX; at = s->calls[at].parent) {
			key_of(&s->calls[at], key);
			if (s->calls[at].kind != kind || strcmp(key, name))
				continue;
			if (!inside_of(s, i, at, name, false)) {
				truth.inclusive += call->cpu;
				truth.elapsed += call->wall;
			}
			if (kind ? at == i : !inside_of(s, i, at, name, true))
				truth.exclusive += call->cpu;
		}
	}
	return truth;
}

static void rows_are_true(const struct synthetic *s, const json_t *table, uint8_t kind)
{
	json_t *rows = json_object_get(table, "rows"), *row;
	uint64_t exclusive = 0;
	size_t i, n = 0;

	json_array_foreach(rows, i, row)
	{
		struct row_truth truth;
		char key[80];

		exclusive += number_of(row, "exclusive_ns");
		if (!strcmp(text_of(row, "name"), "(outside of compiles)"))
			continue;
		assert_string_equal(text_of(row, "compiler"), "Made-up");
		snprintf(key, sizeof(key), "%s(%s)", text_of(row, "name"),
			 text_of(row, "signature"));
		truth = truth_of(s, kind, key);
		assert_int_equal(number_of(row, "exclusive_ns"), truth.exclusive);
		assert_int_equal(number_of(row, "inclusive_ns"), truth.inclusive);
		assert_int_equal(number_of(row, "elapsed_ns"), truth.elapsed);
		assert_int_equal(number_of(row, "calls"), truth.calls);
		n++;
	}
	assert_true(
		n == 20 ||
		(kind == 1 && n == 21)); /* of each kind the generator has so many names, or none */
	if (!kind)
		assert_int_equal(exclusive, number_of(table, "total_ns"));
}

static void check_tables(uint32_t threads, uint32_t epoch_seconds)
{
	struct synthetic s = {.threads = threads,
			      .rate = 999,
			      .seconds = 6,
			      .depth = 20,
			      .seed = 5 + threads,
			      .epoch_seconds = epoch_seconds,
			      .units = true};
	const struct report_options options = {.tables = 1u << REPORT_UNIT | 1u << REPORT_PHASE |
							 1u << REPORT_PASS | 1u << REPORT_TRIGGER};
	_cleanup_close_ int fd = made_up(&s);
	json_t *json = report_of(fd, &options), *tables = json_object_get(json, "tables"),
	       *triggers;
	uint64_t outermost = 0;
	uint8_t kind;
	uint32_t i;

	for (kind = 0; kind < 3; kind++)
		rows_are_true(&s, json_array_get(tables, kind), kind);
	for (i = 0; i < s.calls_n; i++)
		outermost += s.calls[i].parent == UINT32_MAX;
	triggers = json_object_get(json_array_get(tables, 3), "rows");
	assert_int_equal(json_array_size(triggers), 1);
	assert_int_equal(number_of(json_array_get(triggers, 0), "calls"), outermost);
	json_decref(json);
	synthetic_free(&s);
}

static void tables_are_true(void **state)
{
	check_tables(1, 0);
}
static void of_several_threads(void **state)
{
	check_tables(4, 0);
}
static void epochs_go_on(void **state)
{
	check_tables(4, 1);
}

/* --- speedscope --- */

static int compare_text(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* "thread name begin end", sorted. */
static void put_call(char **list, uint32_t *n, const char *thread, const char *name, uint64_t begin,
		     uint64_t end)
{
	char text[256];

	snprintf(text, sizeof(text), "%s %s %llu %llu", thread, name, (unsigned long long)begin,
		 (unsigned long long)end);
	list[(*n)++] = strdup(text);
}

static uint32_t calls_of_profile(const json_t *file, const json_t *profile, char **list, uint32_t n)
{
	static const char before[] = "compile units: ";
	struct {
		size_t frame;
		uint64_t at;
	} open[64];
	uint32_t depth = 0;
	uint64_t last = 0;
	json_t *event;
	size_t i;

	assert_string_equal(text_of(profile, "type"), "evented");
	assert_memory_equal(text_of(profile, "name"), before, strlen(before));
	json_array_foreach(json_object_get(profile, "events"), i, event)
	{
		size_t frame = (size_t)number_of(event, "frame");
		uint64_t at = number_of(event, "at");

		assert_true(at >= last && at <= number_of(profile, "endValue"));
		last = at;
		if (*text_of(event, "type") == 'O') {
			assert_true(depth < 64);
			open[depth].frame = frame;
			open[depth++].at = at;
			continue;
		}
		assert_true(depth-- > 0);
		assert_int_equal(open[depth].frame, frame);
		put_call(list, &n, text_of(profile, "name") + strlen(before),
			 text_of(json_array_get(frames_of(file), frame), "name"), open[depth].at,
			 at);
	}
	assert_int_equal(depth, 0);
	return n;
}

static void check_spans(uint32_t epoch_seconds)
{
	struct synthetic s = {.threads = 4,
			      .rate = 999,
			      .seconds = 5,
			      .depth = 10,
			      .seed = 3,
			      .epoch_seconds = epoch_seconds,
			      .units = true};
	const struct export_options options = {};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	json_t *file = export_json(fd, &options, &report), *profile;
	char **told = calloc(s.calls_n + 1, sizeof(*told)),
	     **want = calloc(s.calls_n + 1, sizeof(*want));
	uint32_t i, n_told = 0, n_want = 0;
	size_t at;

	json_array_foreach(json_object_get(file, "profiles"), at,
			   profile) if (strcmp(text_of(profile, "type"), "sampled")) n_told =
		calls_of_profile(file, profile, told, n_told);
	for (i = 0; i < s.calls_n; i++) {
		const struct synthetic_unit *call = &s.calls[i];
		char name[80], thread[64];

		key_of(call, name);
		if (call->kind)
			name[strcspn(name, "(")] = '\0';
		if (call->thread)
			snprintf(thread, sizeof(thread), "worker-%u (%u)", call->thread,
				 4242 + call->thread);
		else
			snprintf(thread, sizeof(thread), "python3 (4242)");
		put_call(want, &n_want, thread, name, call->begin, call->end);
	}
	assert_int_equal(n_told, n_want);
	qsort(told, n_told, sizeof(*told), compare_text);
	qsort(want, n_want, sizeof(*want), compare_text);
	for (i = 0; i < n_want; i++) {
		assert_string_equal(told[i], want[i]);
		free(told[i]);
		free(want[i]);
	}
	free(told);
	free(want);
	json_decref(file);
	synthetic_free(&s);
}

static void spans_are_true(void **state)
{
	check_spans(0);
}
static void spans_go_on(void **state)
{
	check_spans(1);
}

/* When they are too many, the shortest are left out, and the file says so. */
static void short_spans_go(void **state)
{
	struct synthetic s = {
		.threads = 2, .rate = 999, .seconds = 8, .depth = 6, .seed = 3, .units = true};
	const struct export_options options = {.max_bytes = 200000};
	struct export_report report;
	_cleanup_close_ int fd = made_up(&s);
	json_t *file = export_json(fd, &options, &report), *profile;
	uint64_t below = number_of(json_object_get(json_object_get(file, "cprofd"), "merged"),
				   "units_below_ns");
	char **told = calloc(s.calls_n + 1, sizeof(*told));
	uint32_t i, n = 0, kept = 0;
	size_t at;

	assert_true(below > 0);
	json_array_foreach(json_object_get(file, "profiles"), at,
			   profile) if (strcmp(text_of(profile, "type"), "sampled")) n =
		calls_of_profile(file, profile, told, n);
	for (i = 0; i < s.calls_n; i++)
		kept += s.calls[i].end - s.calls[i].begin >= below;
	assert_int_equal(n, kept);
	while (n--)
		free(told[n]);
	free(told);
	json_decref(file);
	synthetic_free(&s);
}

/* --- what no cprofd writes, but a file may hold --- */

#define HEAD                                                                                       \
	"{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n"                                             \
	"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,\"command\":"     \
	"\"c\"}\n"                                                                                 \
	"{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n"                                          \
	"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n"                   \
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"   \
	"{\"ev\":\"thread\",\"id\":1,\"process\":0,\"tid\":8,\"time\":1000,\"name\":\"other\"}\n"

/* Parents of other threads, children that are longer than their parents or come after them, ends
 * before begins: the events are in order and balanced all the same. */
static void wild_units_nest(void **state)
{
	static const char rest[] = HEAD
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"C\",\"a\",\"\",2000],[1,0,1,"
		"\"C\",\"b\",\"\",1500],"
		"[1,1,1,\"C\",\"c\",\"\",2500],[0,0,0,\"C\",\"d\",\"\",2200],[1,0,2,\"C\",\"late\","
		"\"\",2300],"
		"[4,0,200,\"C\",\"kind\",\"\",2300],[6,0,1,\"C\",\"\",\"\",99999]]}\n"
		"{\"ev\":\"unit_end\",\"id\":1,\"time\":2600}\n{\"ev\":\"unit_end\",\"id\":2,"
		"\"time\":9000}\n"
		"{\"ev\":\"unit_end\",\"id\":4,\"time\":100}\n{\"ev\":\"end\",\"time\":9000}\n";
	const struct export_options options = {};
	struct export_report report;
	const struct report_options tables = {.tables = (1u << REPORT_CALLERS) - 1};
	int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *file, *profile;
	char *told[16] = {};
	uint32_t n = 0;
	size_t at;

	assert_int_equal(write(fd, rest, strlen(rest)), (ssize_t)strlen(rest));
	file = export_json(fd, &options, &report);
	json_array_foreach(json_object_get(file, "profiles"), at,
			   profile) if (strcmp(text_of(profile, "type"), "sampled")) n =
		calls_of_profile(file, profile, told, n);
	assert_true(n >= 2);
	while (n--)
		free(told[n]);
	json_decref(file);
	json_decref(report_of(fd, &tables));
	close(fd);
}

/* --- frames --- */

static void add_to(json_t *sums, const char *key, uint64_t ns)
{
	json_object_set_new(sums, key, json_integer(json_integer_value(json_object_get(sums, key)) + (json_int_t)ns));
}

/* "compile_3(int0);phase_1": a call inside of its callers. */
static void path_of(const struct synthetic *s, uint32_t call, char *path, size_t size)
{
	const struct synthetic_unit *unit = &s->calls[call];
	char name[32], signature[32];
	size_t len;

	*path = '\0';
	if (unit->parent != UINT32_MAX)
		path_of(s, unit->parent, path, size);
	len = strlen(path);
	synthetic_unit_name(unit, name, signature);
	snprintf(path + len, size - len, unit->kind ? "%s%s" : "%s%s(%s)", len ? ";" : "", name, signature);
}

/* How much of a stack is compiles, phases and passes: up to the first frame that is code. */
static size_t units_of(const char *line)
{
	size_t len = 0, n;

	for (; !strncmp(line + len, "compile_", 8) || !strncmp(line + len, "phase_", 6) || !strncmp(line + len, "pass_", 5) ||
	       !strncmp(line + len, "(name unknown)", 14);
	     len += n + 1) {
		n = strcspn(line + len, ";");
		if (!line[len + n])
			return len ? len - 1 : 0;
	}
	return len ? len - 1 : 0;
}

/* "compile_3(int0) (file:line)": without the place. */
static void cut_places(char *path)
{
	char *to = path, *end;

	for (; *path; path = end + !!*end) {
		end = path + strcspn(path, ";");
		for (; path < end && strncmp(path, ") (", 3); path++)
			*to++ = *path;
		if (path < end)
			*to++ = ')';
		if (*end)
			*to++ = ';';
	}
	*to = '\0';
}

/* With --units a line of collapsed stacks begins with what was at work. */
static void stacks_have_units(void **state)
{
	struct synthetic s = {.threads = 2, .rate = 999, .seconds = 6, .depth = 20, .seed = 9, .epoch_seconds = 2, .units = true};
	const struct export_options with = {.units = true}, without = {};
	_cleanup_close_ int fd = made_up(&s);
	json_t *truth = json_object(), *told = json_object(), *value;
	struct export_report report;
	uint64_t sum[2] = {}, lines = 0;
	const char *key;
	char path[4096];
	uint32_t i;

	for (i = 0; i < s.calls_n; i++) {
		path_of(&s, i, path, sizeof(path));
		add_to(truth, path, s.calls[i].cpu);
	}
	for (i = 0; i < 2; i++) {
		FILE *out = tmpfile();
		char *line = NULL;
		size_t size = 0;

		assert_int_equal(export__run("collapsed", fd, i ? &without : &with, out, &report), 0);
		rewind(out);
		for (; getline(&line, &size, out) > 0; lines++) {
			uint64_t us = strtoull(strrchr(line, ' '), NULL, 10);

			sum[i] += us;
			if (!i && units_of(line)) {
				line[units_of(line)] = '\0';
				cut_places(line);
				add_to(told, line, us * 1000);
			}
		}
		free(line);
		fclose(out);
	}
	assert_int_equal(sum[0], sum[1]);
	assert_true(json_object_size(truth) > 20);
	json_object_foreach(truth, key, value)
	{
		uint64_t is = (uint64_t)json_integer_value(value), as = (uint64_t)json_integer_value(json_object_get(told, key));

		assert_true((is > as ? is - as : as - is) <= 1000 * (lines + 1)); /* a line is rounded to a microsecond */
	}
	assert_true(json_object_size(told) <= json_object_size(truth));
	json_decref(truth);
	json_decref(told);
	synthetic_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_have_units),
		cmocka_unit_test(tables_are_true), cmocka_unit_test(of_several_threads),
		cmocka_unit_test(epochs_go_on),	   cmocka_unit_test(spans_are_true),
		cmocka_unit_test(spans_go_on),	   cmocka_unit_test(short_spans_go),
		cmocka_unit_test(wild_units_nest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
