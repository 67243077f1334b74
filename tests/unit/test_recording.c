/* SPDX-License-Identifier: MIT */
/* Recordings: everything that was flushed is read back from a file truncated at any byte. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "base/limits.h"
#include "events_util.h"

static int memory_file(const void *data, size_t len)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static size_t whole_file(int fd, char **ret)
{
	off_t size = lseek(fd, 0, SEEK_END);

	*ret = malloc((size_t)size + 1);
	assert_int_equal(pread(fd, *ret, (size_t)size, 0), size);
	return (size_t)size;
}

static void append_end(struct buf *buf, uint64_t time)
{
	const struct event event = {.kind = EVENT_END, .end = {time, "stopped", "a sentence"}};

	assert_int_equal(event__encode(&event, buf), 0);
}

static void append_ledger(struct buf *buf, uint64_t time)
{
	const struct event event = {.kind = EVENT_LEDGER,
				    .ledger = {.time = time, .samples = time * 7}};

	assert_int_equal(event__encode(&event, buf), 0);
}

/* Three flushes of a few lines each; *ret_ends: file size after each flush. */
static size_t make(bool compress, char **ret, struct buf *ret_lines, size_t ret_ends[3],
		   size_t ret_len[3])
{
	int fd = memory_file("", 0);
	struct recording_writer *writer;
	size_t size;
	int i;

	assert_int_equal(recording_writer__new(fd, compress, &writer), 0);
	for (i = 0; i < 3; i++) {
		size_t before = ret_lines->len;
		int j;

		for (j = 0; j < 5; j++)
			append_ledger(ret_lines, (uint64_t)(i * 10 + j));
		if (i == 2)
			append_end(ret_lines, 99);
		assert_int_equal(recording_writer__lines(writer, ret_lines->data + before,
							 ret_lines->len - before),
				 0);
		assert_int_equal(recording_writer__flush(writer), 0);
		assert_int_equal(recording_writer__flush(writer),
				 0); /* nothing new: nothing written */
		ret_ends[i] = (size_t)lseek(fd, 0, SEEK_END);
		ret_len[i] = ret_lines->len;
	}
	recording_writer__free(writer);
	size = whole_file(fd, ret);
	close(fd);
	return size;
}

/* Reads the first `len` bytes of `data` through a pipe or a file. */
static int read_back(const char *data, size_t len, struct echo *echo, bool *ret_cut)
{
	int fd = memory_file(data, len);
	int err = recording__read(fd, false, &echo->sink, ret_cut);

	close(fd);
	return err;
}

static void cut_anywhere(bool compress)
{
	size_t ends[3], lens[3], size, at;
	struct buf lines = {};
	char *file;

	size = make(compress, &file, &lines, ends, lens);
	assert_int_equal(size, ends[2]);
	assert_int_equal(memcmp(file, "\x28\xb5\x2f\xfd", 4) == 0, compress);
	for (at = 0; at <= size; at++) {
		struct echo echo = ECHO_INIT;
		size_t least = at >= ends[2]   ? lens[2]
			       : at >= ends[1] ? lens[1]
			       : at >= ends[0] ? lens[0]
					       : 0;
		bool cut;

		/* Fewer than four bytes of a zstd frame cannot be told from text without newline.
		 */
		assert_int_equal(read_back(file, at, &echo, &cut), 0);
		assert_int_equal(cut, at != size);
		assert_true(echo.lines.len >= least);
		assert_memory_equal(echo.lines.data ? echo.lines.data : "", lines.data,
				    echo.lines.len);
		buf__free(&echo.lines);
	}
	buf__free(&lines);
	free(file);
}

static void plain_cut_anywhere(void **state)
{
	cut_anywhere(false);
}
static void zstd_cut_anywhere(void **state)
{
	cut_anywhere(true);
}

/* What zstd's own one-shot decoder makes of each frame is the lines. */
static void frames_stand_alone(void **state)
{
	size_t ends[3], lens[3], i;
	struct buf lines = {};
	char *file;

	make(true, &file, &lines, ends, lens);
	for (i = 0; i < 3; i++) {
		size_t from = i ? ends[i - 1] : 0, text = i ? lens[i - 1] : 0, n;
		char out[4096];

		n = ZSTD_decompress(out, sizeof(out), file + from, ends[i] - from);
		assert_int_equal(n, lens[i] - text);
		assert_memory_equal(out, lines.data + text, n);
	}
	buf__free(&lines);
	free(file);
}

static void damage_is_told(void **state)
{
	size_t ends[3], lens[3], size, at;
	struct buf lines = {};
	char *file;

	size = make(true, &file, &lines, ends, lens);
	for (at = 4; at < size; at++) { /* one byte flipped: an error or, never, other events */
		struct echo echo = ECHO_INIT;
		bool cut;
		int err;

		file[at] ^= 0x55;
		err = read_back(file, size, &echo, &cut);
		file[at] ^= 0x55;
		if (!err && !cut)
			assert_memory_equal(echo.lines.data, lines.data, lines.len);
		else if (err)
			assert_int_equal(err, -EBADMSG);
		buf__free(&echo.lines);
	}
	buf__free(&lines);
	free(file);
}

static void a_long_recording_keeps_memory(void **state)
{
	enum { LINES = 20000 };
	struct echo echo = ECHO_INIT;
	struct recording_writer *writer;
	struct buf line = {};
	int fd = memory_file("", 0), i;
	bool cut;

	assert_int_equal(recording_writer__new(fd, true, &writer), 0);
	for (i = 0; i < LINES; i++) {
		line.len = 0;
		append_ledger(&line, (uint64_t)i);
		assert_int_equal(recording_writer__lines(writer, line.data, line.len), 0);
		if (i % 1000 == 0)
			assert_int_equal(recording_writer__flush(writer), 0);
	}
	line.len = 0;
	append_end(&line, LINES);
	assert_int_equal(recording_writer__lines(writer, line.data, line.len), 0);
	assert_int_equal(recording_writer__flush(writer), 0);
	recording_writer__free(writer);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(recording__read(fd, false, &echo.sink, &cut), 0);
	assert_false(cut);
	assert_int_equal(echo.events, LINES + 1);
	close(fd);
	buf__free(&line);
	buf__free(&echo.lines);
}

static void bad_lines_end_the_reading(void **state)
{
	struct echo echo = ECHO_INIT;
	char *huge = malloc(EVENTS_LINE_MAX + 2);
	bool cut;

	assert_int_equal(read_back("nonsense\n", 9, &echo, &cut), -EBADMSG);
	memset(huge, ' ', EVENTS_LINE_MAX + 2);
	assert_int_equal(read_back(huge, EVENTS_LINE_MAX + 2, &echo, &cut), -EBADMSG);
	assert_int_equal(read_back("\n\n", 2, &echo, &cut), 0); /* empty lines are nothing */
	assert_true(cut);
	echo.fail = -ENOSPC;
	assert_int_equal(read_back("{\"ev\":\"end\",\"time\":1}\n", 22, &echo, &cut), -ENOSPC);
	free(huge);
	buf__free(&echo.lines);
}

static void a_full_disk_is_told_and_stays_told(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct recording_writer *writer;
	bool compress = false;

	assert_true(fd >= 0);
	do {
		assert_int_equal(recording_writer__new(fd, compress, &writer), 0);
		assert_int_equal(recording_writer__lines(writer, "no newline", 10), -EINVAL);
		assert_int_equal(recording_writer__lines(writer, "{}\n", 3), 0);
		assert_int_equal(recording_writer__flush(writer), -ENOSPC);
		assert_int_equal(recording_writer__lines(writer, "{}\n", 3), -ENOSPC);
		assert_int_equal(recording_writer__flush(writer), -ENOSPC);
		assert_null(recording_writer__free(writer));
		compress = !compress;
	} while (compress);
	close(fd);
}

static int count_event(struct event_sink *self, const struct event *event) { return 0; }

static int read_lines(const struct buf *lines)
{
	struct event_sink sink = {count_event};
	int fd = memory_file(lines->data, lines->len), err;
	bool cut;

	err = recording__read(fd, false, &sink, &cut);
	close(fd);
	return err;
}

/* A chain of `depth` frames. */
static int read_chain(uint32_t depth)
{
	struct function_row function = {"f", "", 0, "", 0};
	struct frame_row frame = {0};
	struct stack_row *rows = calloc(depth, sizeof(*rows));
	struct event event = {.kind = EVENT_FUNCTIONS, .rows = {0, 1, &function}};
	struct buf lines = {};
	uint32_t i;
	int err;

	assert_int_equal(event__encode(&event, &lines), 0);
	event = (struct event){.kind = EVENT_FRAMES, .rows = {0, 1, &frame}};
	assert_int_equal(event__encode(&event, &lines), 0);
	for (i = 0; i < depth; i++)
		rows[i].parent = i;
	event = (struct event){.kind = EVENT_STACKS, .rows = {1, depth, rows}};
	assert_int_equal(event__encode(&event, &lines), 0);
	err = read_lines(&lines);
	buf__free(&lines);
	free(rows);
	return err;
}

static void a_stack_too_deep_is_refused(void **state)
{
	assert_int_equal(read_chain(EVENTS_DEPTH_MAX), 0);
	assert_int_equal(read_chain(EVENTS_DEPTH_MAX + 1), -EOVERFLOW);
}

static void what_a_reader_spends_is_limited(void **state)
{
	const uint64_t mb = 1 << 20;

	assert_int_equal(limits__text(UINT64_MAX, 1), 0); /* nobody asked for it */
	assert_null(limits__words(-E2BIG));
	limits__begin();
	assert_int_equal(limits__text(64 * mb, mb), 0);
	assert_int_equal(limits__text(64 * mb + 1, mb), -E2BIG);
	assert_non_null(strstr(limits__words(-E2BIG), "expands"));
	assert_int_equal(limits__walk(LIMIT_FRAMES_BASE), 0);
	assert_int_equal(limits__walk(1), -E2BIG);
	assert_non_null(strstr(limits__words(-E2BIG), "frames"));
	assert_int_equal(limits__output(LIMIT_OUTPUT_BASE + 1), -E2BIG);
	assert_non_null(strstr(limits__words(-ENOMEM), "memory"));
	assert_null(limits__words(-EBADMSG));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_cut_anywhere),
		cmocka_unit_test(zstd_cut_anywhere),
		cmocka_unit_test(frames_stand_alone),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(a_long_recording_keeps_memory),
		cmocka_unit_test(bad_lines_end_the_reading),
		cmocka_unit_test(a_full_disk_is_told_and_stays_told),
		cmocka_unit_test(a_stack_too_deep_is_refused),
		cmocka_unit_test(what_a_reader_spends_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
