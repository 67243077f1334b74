/* SPDX-License-Identifier: MIT */
/* The HTML report: names that try to inject markup, limits of its size, its timeline against the ground truth of a
 * synthetic recording. What a browser shows: tests/browser. */
#include <ctype.h>
#include <fcntl.h>
#include <unistd.h>

#include "export_util.h"

#define BEGIN 1000000000ull

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

/* The page's data. */
static json_t *data_of(const char *page)
{
	static const char mark[] = "<script type=\"application/json\" id=\"data\">";
	const char *begin = strstr(page, mark), *end;
	json_error_t error;
	json_t *data;

	assert_non_null(begin);
	begin += strlen(mark);
	end = strchr(begin, '<');
	assert_int_equal(strncmp(end, "</script>", 9), 0);
	data = json_loadb(begin, (size_t)(end - begin), JSON_REJECT_DUPLICATES, &error);
	if (!data)
		fail_msg("%s at %d", error.text, error.position);
	return data;
}

static char *page_of(int fd, const struct export_options *options, size_t *ret_len)
{
	struct export_report report;

	return run("html", fd, options, &report, ret_len);
}

/* --- a recording by hand --- */

static void tell(struct memory *memory, const struct event *event)
{
	assert_int_equal(memory->sink.event(&memory->sink, event), 0);
}

/* All that is a name is `name`, and some bytes that differ. */
static void begin(struct memory *memory, const char *name, const struct function_row *functions, uint32_t n)
{
	const char *const features[] = {NULL};
	struct frame_row *frames = calloc(n, sizeof(*frames));
	struct stack_row *stacks = calloc(n, sizeof(*stacks));
	struct class_row class_row = {name, name};
	uint32_t i;

	for (i = 0; i < n; i++) {
		frames[i] = (struct frame_row){i, 0, i + 1, 1};
		stacks[i] = (struct stack_row){0, i};
	}
	memory_open(memory);
	tell(memory, &(struct event){.kind = EVENT_HELLO, .hello = {EVENTS_MAJOR, EVENTS_MINOR, "test@0", features}});
	tell(memory, &(struct event){.kind = EVENT_SESSION,
				     .session = {1, 42, 999, "cpu", BEGIN, BEGIN, 1760000000000000000, "boot", name, false, true, false}});
	tell(memory, &(struct event){.kind = EVENT_EPOCH, .epoch = {1, BEGIN}});
	tell(memory, &(struct event){.kind = EVENT_PROCESS, .process = {0, 42, 1, 7, 0, BEGIN, name, name}});
	tell(memory, &(struct event){.kind = EVENT_THREAD, .thread = {0, 0, 42, 9, BEGIN, name}});
	tell(memory, &(struct event){.kind = EVENT_FUNCTIONS, .rows = {0, n, functions}});
	tell(memory, &(struct event){.kind = EVENT_FRAMES, .rows = {0, n, frames}});
	tell(memory, &(struct event){.kind = EVENT_STACKS, .rows = {1, n, stacks}});
	tell(memory, &(struct event){.kind = EVENT_CLASSES, .rows = {1, 1, &class_row}});
	free(frames);
	free(stacks);
}

/* A sample of each stack, 1 ms after another, in turn of each of the units. */
static void sample(struct memory *memory, uint32_t stacks, uint32_t units)
{
	uint32_t i;

	for (i = 0; i < stacks; i++) {
		const struct sample_row row = {.time = BEGIN + (i + 1) * 1000000, .wall = 1000000, .cpu = 1000000, .stack = i + 1,
					       .class_id = 1, .unit = units ? i % units + 1 : 0};

		tell(memory, &(struct event){.kind = EVENT_SAMPLES, .samples = {1, &row}});
	}
}

static int end(struct memory *memory, const char *name)
{
	const struct ledger_line loss = {name, 3};

	tell(memory, &(struct event){.kind = EVENT_LEDGER, .ledger = {.time = BEGIN + 1000000000, .samples = 3, .whole = 2, .n = 1, .lines = &loss}});
	tell(memory, &(struct event){.kind = EVENT_END, .end = {BEGIN + 1000000000, "duration", name}});
	return memory_close(memory);
}

static int recording_of(const char *name)
{
	const struct function_row functions[] = {{name, name, 3, "", FUNCTION_PYTHON}, {name, "", 0, name, FUNCTION_NATIVE},
						 {name, name, 1, name, FUNCTION_JIT}};
	const struct unit_row units[] = {{0, 0, 0, name, name, name, BEGIN, 1, name, 5, 0},
					 {1, 0, 1, name, name, "", BEGIN, 0, "", 0, 0},
					 {2, 0, 2, name, name, "", BEGIN, 0, "", 0, 0}};
	struct memory memory;

	begin(&memory, name, functions, 3);
	tell(&memory, &(struct event){.kind = EVENT_UNITS, .rows = {1, 3, units}});
	sample(&memory, 3, 3);
	return end(&memory, name);
}

/* --- tests --- */

static void test_names_stay_names(void **state)
{
	static const char *const names[] = {
		"</script><script>alert(1)</script>", "<!--<script>", "--><img src=x onerror=alert(1)>", "\"><b onclick='x'>",
		"' onmouseover='x", "</title></style></textarea></noscript>", "&lt;b&gt;&#60;", "\x01\x02\x1b[0m\x7f", "]]>",
		"\xff\xfe</p>\xc3(\xe2\x80", "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae", "\\u003c\\\"", "${x}`"};
	const struct export_options options = {};
	size_t i, k, len;
	_cleanup_close_ int plain_fd = recording_of("plain");
	_cleanup_free_ char *plain = page_of(plain_fd, &options, &len);

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		_cleanup_close_ int fd = recording_of(names[i]);
		_cleanup_free_ char *page = page_of(fd, &options, &len);
		static const char *const marks[] = {"<script", "</script", "<!", "<img", "<b ", "<b>", "<style", "</style", "</title", "<meta", "-->"};
		json_t *text = json_stringn(page, len), *data = data_of(page);

		assert_int_equal(strlen(page), len);
		assert_non_null(text); /* it is UTF-8 */
		for (k = 0; k < sizeof(marks) / sizeof(marks[0]); k++)
			if (count(page, marks[k]) != count(plain, marks[k]))
				fail_msg("%s: %s %zu times, %zu in a plain page", names[i], marks[k], count(page, marks[k]), count(plain, marks[k]));
		for (k = 0; k < len; k++)
			assert_true((unsigned char)page[k] >= ' ' || page[k] == '\n');
		/* Each tag that the plain page has, and no other. */
		assert_int_equal(count(page, "<tr"), count(plain, "<tr"));
		assert_int_equal(count(page, "<"), count(plain, "<"));
		json_decref(text);
		json_decref(data);
	}
}

static void test_data_are_as_recorded(void **state)
{
	static const char name[] = "a</script><!--\\\"'&amp;\x01", shown[] = "a</script><!--\\\"'&amp;\\x01";
	_cleanup_close_ int fd = recording_of(name);
	const struct export_options options = {};
	size_t len;
	_cleanup_free_ char *page = page_of(fd, &options, &len);
	json_t *data = data_of(page), *line = json_object_get(data, "timeline"),
	       *names = json_object_get(line, "names"), *thread = json_array_get(json_object_get(line, "threads"), 0);

	assert_string_equal(text_of(json_array_get(json_object_get(data, "recordings"), 0), "command"), shown);
	assert_int_equal(json_array_size(names), 3);
	assert_string_equal(text_of(json_array_get(names, 0), "what"), "unit");
	assert_string_equal(text_of(json_array_get(names, 0), "signature"), shown);
	assert_string_equal(text_of(json_object_get(json_array_get(names, 0), "trigger"), "name"), shown);
	assert_string_equal(text_of(thread, "name"), shown);
	assert_int_equal(json_array_size(json_object_get(thread, "spans")), 12);
	json_decref(data);
}

/* Calls and their lengths: what is in the page's time line is what was made up. */
static void test_time_line_is_the_truth(void **state)
{
	static struct synthetic s = {.threads = 4, .rate = 500, .seconds = 4, .depth = 20, .epoch_seconds = 3, .seed = 5, .units = true};
	_cleanup_close_ int fd = made_up(&s);
	const struct export_options options = {};
	size_t len, i, k;
	_cleanup_free_ char *page = page_of(fd, &options, &len);
	json_t *data = data_of(page), *line = json_object_get(data, "timeline"), *thread;
	uint64_t spans = 0, length = 0, truth = 0;

	json_array_foreach(json_object_get(line, "threads"), i, thread)
	{
		const json_t *list = json_object_get(thread, "spans");

		assert_int_equal(number_of(thread, "cpu_ns"), s.truth[i].cpu);
		assert_int_equal(number_of(thread, "wall_ns"), s.truth[i].wall);
		spans += json_array_size(list) / 4;
		for (k = 3; k < json_array_size(list); k += 4)
			length += (uint64_t)json_integer_value(json_array_get(list, k));
	}
	for (i = 0; i < s.calls_n; i++)
		truth += s.calls[i].end - s.calls[i].begin;
	assert_int_equal(spans, s.calls_n);
	assert_int_equal(number_of(line, "spans"), s.calls_n);
	assert_int_equal(length, truth);
	json_decref(data);
	synthetic_free(&s);
}

/* Long names, and many: fewer rows are shown, and the page says so. */
static void test_rows_are_bounded(void **state)
{
	const uint32_t n = 600;
	struct function_row *functions = calloc(n, sizeof(*functions));
	static char names[600][10000];
	struct memory memory;
	const struct export_options options = {};
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *page = NULL;
	json_t *data;
	size_t len;
	uint32_t i;

	for (i = 0; i < n; i++) {
		memset(names[i], 'x', sizeof(names[i]) - 1);
		snprintf(names[i], 16, "f%u", i);
		names[i][strlen(names[i])] = 'x';
		functions[i] = (struct function_row){names[i], "", 0, "", FUNCTION_PYTHON};
	}
	begin(&memory, "many", functions, n);
	sample(&memory, n, 0);
	fd = end(&memory, "tick_missed");
	page = page_of(fd, &options, &len);
	assert_true(len < 30000000);
	assert_non_null(strstr(page, "heaviest rows of 600;"));
	data = data_of(page);
	json_decref(data);
	free(functions);
}

/* More calls than the time line has room for: the shortest are left out. */
static void test_spans_are_bounded(void **state)
{
	const struct function_row function = {"f", "", 0, "", FUNCTION_PYTHON};
	const uint32_t n = 101000, batch = 1000;
	struct unit_row rows[1000];
	struct memory memory;
	const struct export_options options = {};
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *page = NULL;
	json_t *data, *line;
	size_t len, shown;
	uint32_t i, k;

	begin(&memory, "many", &function, 1);
	for (i = 0; i < n; i += batch) {
		for (k = 0; k < batch; k++)
			rows[k] = (struct unit_row){0, 0, 0, "C", "f", "", BEGIN + 2000ull * (i + k), 0, "", 0, 0};
		tell(&memory, &(struct event){.kind = EVENT_UNITS, .rows = {i + 1, batch, rows}});
		for (k = 0; k < batch; k++)
			tell(&memory, &(struct event){.kind = EVENT_UNIT_END,
						      .unit_end = {i + k + 1, BEGIN + 2000ull * (i + k) + 100 + (i + k) % 1500, "", "", "", 0}});
	}
	sample(&memory, 1, 0);
	fd = end(&memory, "tick_missed");
	page = page_of(fd, &options, &len);
	data = data_of(page);
	line = json_object_get(data, "timeline");
	shown = json_array_size(json_object_get(json_array_get(json_object_get(line, "threads"), 0), "spans")) / 4;
	assert_int_equal(number_of(line, "spans"), n);
	assert_true(shown <= 100000 && shown > 99000);
	assert_true(number_of(line, "below_ns") > 100);
	assert_non_null(strstr(page, "there were 101,000 compiles, phases and passes"));
	json_decref(data);
}

static void test_a_filter_leaves_the_time_line_out(void **state)
{
	_cleanup_close_ int fd = recording_of("name");
	const struct export_options options = {.function = "name"};
	size_t len;
	_cleanup_free_ char *page = page_of(fd, &options, &len);

	assert_null(strstr(page, "<section id=\"time-line\">"));
	assert_non_null(strstr(page, "Filtered: function name"));
}

/* It is read several times. */
static void test_a_pipe_is_read(void **state)
{
	_cleanup_close_ int fd = recording_of("name");
	const struct export_options options = {};
	size_t len, pipe_len;
	_cleanup_free_ char *page = page_of(fd, &options, &len), *from_pipe = NULL;
	int ends[2];
	char bytes[4096];
	ssize_t n;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(ends[1], bytes, (size_t)n), n);
	close(ends[1]);
	from_pipe = page_of(ends[0], &options, &pipe_len);
	close(ends[0]);
	assert_int_equal(len, pipe_len);
	assert_memory_equal(page, from_pipe, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_stay_names),	 cmocka_unit_test(test_data_are_as_recorded),
		cmocka_unit_test(test_time_line_is_the_truth),	 cmocka_unit_test(test_rows_are_bounded),
		cmocka_unit_test(test_spans_are_bounded),	 cmocka_unit_test(test_a_filter_leaves_the_time_line_out),
		cmocka_unit_test(test_a_pipe_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
