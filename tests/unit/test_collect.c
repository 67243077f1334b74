/* SPDX-License-Identifier: MIT */
/* collect: records come out in order of time and completely checked; bad ones are counted, and an error of the sink is
 * passed on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "collect/collect.h"
#include "records.h"

/* Notes what it gets: kind and time. */
struct noted {
	struct collect_sink sink;
	struct {
		uint16_t kind;
		uint64_t time;
		uint32_t tid;
	} got[20000];
	unsigned n;
	uint64_t previewed[64];
	unsigned n_previewed;
	int fail, fail_preview;
};

static int note(struct collect_sink *self, const void *record)
{
	struct noted *noted = (struct noted *)self;
	const struct record_header *header = record;

	noted->got[noted->n].kind = header->kind;
	noted->got[noted->n].tid = header->task.tid;
	noted->got[noted->n++].time = header->time;
	return noted->fail;
}

static int note_code(struct collect_sink *s, const struct record_code *r)
{
	return note(s, r);
}
static int note_sample(struct collect_sink *s, const struct sample *r)
{
	return note(s, r->record);
}
static int note_preview(struct collect_sink *s, const struct sample *r)
{
	struct noted *noted = (struct noted *)s;

	if (noted->n_previewed < 16)
		noted->previewed[noted->n_previewed] = r->record->header.time;
	noted->n_previewed++;
	return noted->fail_preview;
}
static int note_other(struct collect_sink *s, const struct record_header *r)
{
	return note(s, r);
}

static struct noted noted;
static struct collector *collector;
static struct rec rec;
static struct record_task task;

static struct sample parsed(void)
{
	struct sample sample;

	record__parse((const void *)rec.data, &sample);
	return sample;
}

static int set_up(void **state)
{
	memset(&noted, 0, sizeof(noted));
	noted.sink = (struct collect_sink){.code = note_code,
					   .preview = note_preview,
					   .sample = note_sample,
					   .other = note_other};
	task = rec_task(10, 11, 1, 5000, "python3");
	return collector__new(&noted.sink, &collector);
}

static int tear_down(void **state)
{
	collector = collector__free(collector);
	return 0;
}

static struct collect_counts counts(void)
{
	struct collect_counts c;

	collector__counts(collector, &c);
	return c;
}

static void take(void)
{
	assert_int_equal(collector__record(collector, rec.data, rec.size), 0);
}

static void take_sample(uint64_t time)
{
	struct py_frame frames[3] = {{.code = 1}, {.code = 2}, {.code = 3}};

	rec_sample(&rec, time, &task, 0);
	rec_frames(&rec, 0, frames, 3);
	take();
}

static void samples_come_in_order_of_time(void **state)
{
	const uint64_t times[] = {50, 10, 40, 40, 20, 60, 30};
	unsigned i;

	for (i = 0; i < 7; i++) {
		task.tid = 100 + i;
		take_sample(times[i]);
	}
	assert_int_equal(noted.n, 0);
	assert_int_equal(collector__flush(collector, 40), 0);
	assert_int_equal(noted.n, 5);
	assert_int_equal(noted.got[0].time, 10);
	assert_int_equal(noted.got[1].time, 20);
	assert_int_equal(noted.got[2].time, 30);
	/* Of equal times, the one that came first. */
	assert_int_equal(noted.got[3].tid, 102);
	assert_int_equal(noted.got[4].tid, 103);
	/* What stayed is still there, and what comes now goes between. */
	take_sample(55);
	assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
	assert_int_equal(noted.n, 8);
	assert_int_equal(noted.got[5].time, 50);
	assert_int_equal(noted.got[6].time, 55);
	assert_int_equal(noted.got[7].time, 60);
	assert_int_equal(counts().records, 8);
	assert_int_equal(counts().late, 0);
	assert_int_equal(counts().bad, 0);
}

/* Rings of several CPUs, each in order, emptied one after another, while some records are held from before. */
static void runs_are_merged(void **state)
{
	uint64_t begin = 100;
	unsigned rings, i, k;

	for (rings = 1; rings <= 12; rings++, begin += 1000) {
		noted.n = noted.n_previewed = 0;
		take_sample(begin + 25);
		assert_int_equal(collector__preview(collector, begin), 0);
		for (i = 0; i < rings; i++)
			for (k = 0; k < 3; k++)
				take_sample(begin + 20 * k + 2 * (i * 5 % rings));
		assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
		assert_int_equal(noted.n, 3 * rings + 1);
		for (k = 1; k < noted.n; k++)
			assert_true(noted.got[k - 1].time <= noted.got[k].time);
	}
	assert_int_equal(counts().late, 0);
}

/* In order, once, and before it is handed on, whether somebody asked for it or not. */
static void samples_are_previewed(void **state)
{
	const uint64_t times[] = {50, 10, 40};
	unsigned i;

	for (i = 0; i < 3; i++)
		take_sample(times[i]);
	assert_int_equal(collector__preview(collector, 40), 0);
	assert_int_equal(collector__preview(collector, 40), 0);
	assert_true(noted.n_previewed == 2 && noted.n == 0 && noted.previewed[0] == 10 && noted.previewed[1] == 40);
	assert_true(collector__held(collector) >= 3 * rec.size);
	take_sample(45);
	assert_int_equal(collector__flush(collector, 45), 0);
	assert_true(noted.n_previewed == 3 && noted.n == 3 && noted.previewed[2] == 45);
	assert_int_equal(collector__preview(collector, UINT64_MAX), 0);
	assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
	assert_true(noted.n_previewed == 4 && noted.n == 4 && noted.previewed[3] == 50);
	assert_int_equal(collector__held(collector), 0);
	take_sample(60);
	noted.fail_preview = -ENOMEM;
	assert_int_equal(collector__preview(collector, UINT64_MAX), -ENOMEM);
}

static void a_late_record_is_handed_on_and_counted(void **state)
{
	take_sample(100);
	assert_int_equal(collector__flush(collector, 100), 0);
	take_sample(90);
	assert_int_equal(collector__flush(collector, 100), 0);
	assert_int_equal(noted.n, 2);
	assert_int_equal(counts().late, 1);
}

static void codes_come_before_samples(void **state)
{
	take_sample(10);
	rec_code_whole(&rec, 99, &task, 7, "f", "f.py", 1);
	take();
	assert_int_equal(collector__flush(collector, 10), 0);
	assert_int_equal(noted.n, 2);
	assert_int_equal(noted.got[0].kind, RECORD_CODE);
	assert_int_equal(noted.got[1].kind, RECORD_SAMPLE);
}

static void every_kind_reaches_its_function(void **state)
{
	rec_event(&rec, RECORD_CLONE, 1, &task);
	take();
	rec_fork(&rec, 2, &task, 9, 1);
	take();
	rec_event(&rec, RECORD_EXEC, 3, &task);
	take();
	rec_event(&rec, RECORD_EXIT, 4, &task);
	take();
	assert_int_equal(collector__flush(collector, 9), 0);
	assert_int_equal(noted.n, 4);
	assert_int_equal(noted.got[0].kind, RECORD_CLONE);
	assert_int_equal(noted.got[1].kind, RECORD_FORK);
	assert_int_equal(noted.got[2].kind, RECORD_EXEC);
	assert_int_equal(noted.got[3].kind, RECORD_EXIT);
}

static void a_full_arena_flushes_early_and_loses_nothing(void **state)
{
	static struct py_frame frames[100];
	unsigned i, n = 3 * COLLECT_ARENA_MAX / (80 + 16 + sizeof(frames));

	for (i = 0; i < n; i++) {
		rec_sample(&rec, i ^ 1, &task, 0);
		rec_frames(&rec, 0, frames, 100);
		take();
	}
	assert_true(counts().early_flushes >= 2);
	assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
	assert_int_equal(noted.n, n);
	assert_true(counts().late <= counts().early_flushes);
}

static void an_error_of_the_sink_is_handed_up(void **state)
{
	take_sample(1);
	take_sample(2);
	noted.fail = -ENOSPC;
	assert_int_equal(collector__flush(collector, 9), -ENOSPC);
	assert_int_equal(noted.n, 1);
	noted.fail = 0;
	assert_int_equal(collector__flush(collector, 9), 0);
	assert_int_equal(noted.n, 2);
}

static void refuse(void)
{
	uint64_t bad = counts().bad;

	take();
	assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
	assert_int_equal(counts().bad, bad + 1);
	assert_int_equal(noted.n, 0);
}

static struct record_part *good_sample(void)
{
	struct py_frame frames[3] = {{.code = 1}};

	rec_sample(&rec, 1, &task, 0);
	rec_frames(&rec, 0, frames, 3);
	return (void *)(rec.data + sizeof(struct record_sample));
}

static void bad_samples_are_counted(void **state)
{
	struct record_sample *sample = (void *)rec.data;
	struct part_py_frames *part;

	good_sample();
	sample->header.size += 8; /* beyond the bytes */
	refuse();
	good_sample();
	sample->header.size -= 4;
	refuse();
	good_sample();
	sample->header.size = 0;
	refuse();
	good_sample();
	sample->header.size = 64; /* only a header */
	refuse();
	good_sample();
	sample->header.size -= 8; /* the part is cut */
	refuse();
	good_sample();
	sample->parts = 2;
	refuse();
	good_sample();
	sample->parts = UINT16_MAX;
	refuse();
	good_sample();
	sample->loss = LOSS_COUNT;
	refuse();
	good_sample()->size = 0;
	refuse();
	good_sample()->size = 4;
	refuse();
	good_sample()->size = UINT32_MAX & ~7u;
	refuse();
	good_sample()->size -= 8; /* fewer bytes than its frames need */
	refuse();
	good_sample()->loss = LOSS_COUNT;
	refuse();
	part = (void *)good_sample();
	part->n = 4;
	refuse();
	part = (void *)good_sample();
	part->n = UINT32_MAX;
	refuse();
	part = (void *)good_sample();
	part->n = 0x10000000; /* n * 16 wraps */
	refuse();
}

static struct part_native_frames *good_native(void)
{
	const uint64_t pc[3] = {NATIVE_EXACT | 0x1000, 0x2000, 0x3000};

	good_sample();
	rec_native(&rec, 0, pc, 3);
	return (void *)(rec.data + rec.size - sizeof(struct part_native_frames) - sizeof(pc));
}

static struct part_stack *good_stack(void)
{
	struct part_stack *stack;

	rec_sample(&rec, 7, &task, 1);
	stack = rec_part(&rec, PART_STACK, 0, sizeof(*stack), 24);
	stack->size = 20;
	return stack;
}

static void stacks_are_checked(void **state)
{
	const struct part_stack *stack = good_stack();

	assert_int_equal(record__check(rec.data, rec.size), 0);
	assert_ptr_equal(parsed().stack, stack);
	good_stack()->size = 25; /* more than its bytes are */
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
	good_stack()->size = UINT32_MAX;
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
	rec_sample(&rec, 7, &task, 1);
	rec_part(&rec, PART_STACK, 0, sizeof(*stack) - 8, 0); /* shorter than its head */
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
	rec_sample(&rec, 7, &task, 1);
	stack = rec_part(&rec, PART_STACK, 0, sizeof(*stack), RECORD_STACK_MAX + 8);
	((struct part_stack *)stack)->size = RECORD_STACK_MAX + 8;
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
}

static void native_frames_are_checked(void **state)
{
	const struct part_native_frames *native = good_native();

	assert_int_equal(record__check(rec.data, rec.size), 0);
	assert_ptr_equal(parsed().native, native);
	assert_int_equal(native->pc[2], 0x3000);
	good_native()->n = 4; /* more than its bytes hold */
	refuse();
	good_native()->n = UINT32_MAX;
	refuse();
	good_native()->n = 0x20000000; /* n * 8 wraps */
	refuse();
	good_native()->part.loss = LOSS_COUNT;
	refuse();
	good_native()->part.size = 8; /* not even a count */
	refuse();
	rec_sample(&rec, 1, &task, 0);
	rec_part(&rec, PART_NATIVE_FRAMES, 0, sizeof(*native), 8 * (RECORD_NATIVE_FRAMES_MAX + 1));
	((struct part_native_frames *)(rec.data + sizeof(struct record_sample)))->n =
		RECORD_NATIVE_FRAMES_MAX;
	assert_int_equal(record__check(rec.data, rec.size), 0);
	((struct part_native_frames *)(rec.data + sizeof(struct record_sample)))->n++;
	refuse();
}

static void bad_codes_are_counted(void **state)
{
	struct part_variables *variables;
	struct part_string *string;
	struct part_bytes *bytes;
	unsigned i;

	for (i = 0; i < 7; i++) {
		rec_code(&rec, 1, &task, 7, 1, 64);
		rec_string(&rec, PART_NAME, "name");
		string = (void *)(rec.data + sizeof(struct record_code));
		bytes = (void *)(rec.data + rec.size);
		rec_lines(&rec, rec_table, 0, 64);
		if (i == 0)
			string->kind = 3;
		if (i == 1)
			string->kind = 0;
		if (i == 2)
			string->part.size = 8;
		if (i == 3)
			bytes->length = 65;
		if (i == 4)
			bytes->offset = 1; /* 1 + 64 > lines_total */
		if (i == 5)
			bytes->offset = UINT32_MAX;
		if (i == 6) {
			variables = (void *)bytes;
			variables->part.kind = PART_VARIABLES;
			variables->n = 2;
		}
		refuse();
	}
	rec_code(&rec, 1, &task, 7, 1, 0);
	((struct record_code *)rec.data)->parts = 1;
	refuse();
}

static void every_cut_of_a_record_is_bad(void **state)
{
	char *copy;
	uint32_t len;

	rec_code_whole(&rec, 1, &task, 7, "name", "file.py", 1);
	for (len = 0; len < rec.size; len++) {
		copy = malloc(len ? len : 1); /* its own bounds, for the sanitizer */
		memcpy(copy, rec.data, len);
		assert_int_equal(record__check(copy, len), -EBADMSG);
		free(copy);
	}
	assert_int_equal(record__check(rec.data, rec.size), 0);
	assert_int_equal(record__check(rec.data + 1, rec.size), -EBADMSG);
}

static void unknown_kinds_and_parts_are_skipped(void **state)
{
	struct record_header *header = (void *)rec.data;
	struct py_frame frame = {.code = 9};

	good_sample();
	header->kind = 99;
	take();
	assert_int_equal(counts().bad, 0);
	rec_sample(&rec, 1, &task, 0);
	rec_part(&rec, 77, 0, sizeof(struct record_part), 40);
	rec_frames(&rec, 0, &frame, 1);
	take();
	assert_int_equal(counts().bad, 0);
	assert_int_equal(counts().records, 1);
	assert_ptr_equal(parsed().python, rec.data + sizeof(struct record_sample) + 48);
}

/* Of two of a kind the first; a copy's parts lie in the copy. */
static void a_sample_is_parsed_and_copied(void **state)
{
	static const struct py_frame frame = {.code = 1};
	const struct part_py_frames *python;
	uint64_t bytes[sizeof(rec.data) / 8];
	struct sample sample, copy;

	rec_sample(&rec, 1, &task, 0);
	python = (const void *)(rec.data + rec.size);
	rec_frames(&rec, 0, &frame, 1);
	rec_frames(&rec, 0, &frame, 1);
	rec_part(&rec, PART_WAIT, 0, sizeof(struct part_wait), 0);
	assert_int_equal(record__check(rec.data, rec.size), 0);
	sample = parsed();
	assert_ptr_equal(sample.record, rec.data);
	assert_ptr_equal(sample.python, python);
	assert_ptr_equal(sample.wait, rec.data + rec.size - sizeof(struct part_wait));
	assert_true(!sample.native && !sample.kernel && !sample.stack && !sample.values && !sample.objects && !sample.n_objects);
	sample__copy(&sample, bytes, &copy);
	assert_memory_equal(bytes, rec.data, rec.size);
	assert_ptr_equal(copy.record, bytes);
	assert_int_equal((const char *)copy.python - (const char *)bytes, (const char *)python - (const char *)rec.data);
	assert_int_equal((const char *)copy.wait - (const char *)bytes, rec.size - sizeof(struct part_wait));
	assert_true(!copy.native && !copy.values);
}

static void values_are_checked(void **state)
{
	struct part_object *object;

	rec_sample(&rec, 1, &task, 0);
	rec_part(&rec, PART_VALUES, 0, sizeof(struct part_values), 0);
	object = rec_part(&rec, PART_OBJECT, 0, OBJECT_FIXED, 8);
	assert_int_equal(record__check(rec.data, rec.size), 0);
	object->end = 9; /* of 8 bytes */
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
	object->end = 7;
	object->begin = 8;
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
	rec_sample(&rec, 1, &task, 0);
	rec_part(&rec, PART_VALUES, 0, sizeof(struct part_values) - 8, 0); /* shorter than its head */
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
	rec_sample(&rec, 1, &task, 0);
	rec_part(&rec, PART_OBJECT, 0, sizeof(struct part_object), 8);
	assert_int_equal(record__check(rec.data, rec.size), -EBADMSG);
}

static void objects_are_found_by_their_address(void **state)
{
	struct sample sample, copy;
	struct part_object *objects[3];
	uint64_t bytes[128];

	rec_sample(&rec, 1, &task, 0);
	rec_part(&rec, PART_VALUES, 0, sizeof(struct part_values), 0);
	for (uint32_t i = 0; i < 3; i++) {
		if (i == 2)
			rec_part(&rec, PART_WAIT, 0, sizeof(struct part_wait), 0);
		objects[i] = rec_part(&rec, PART_OBJECT, 0, OBJECT_FIXED, 8 * i);
		objects[i]->address = 100 + i;
	}
	assert_int_equal(record__check(rec.data, rec.size), 0);
	sample = parsed();
	for (uint32_t i = 0; i < 2; i++)
		assert_ptr_equal(sample__object(&sample, 100 + i), objects[i]);
	assert_null(sample__object(&sample, 0));
	sample__copy(&sample, bytes, &copy);
	assert_int_equal((const char *)sample__object(&copy, 101) - (const char *)bytes, (const char *)objects[1] - (const char *)rec.data);
	sample.objects = NULL;
	sample.n_objects = 0;
	assert_null(sample__object(&sample, 101));
}

static void parts_of_one_kind_follow_each_other(void **state)
{
	const struct record_part *part;
	const struct part_bytes *bytes;

	rec_code(&rec, 1, &task, 7, 1, 64);
	rec_lines(&rec, rec_table, 0, 16);
	rec_string(&rec, PART_NAME, "x");
	rec_lines(&rec, rec_table, 16, 48);
	assert_int_equal(record__check(rec.data, rec.size), 0);
	part = record__part((const void *)rec.data, PART_LINES);
	bytes = (const void *)part;
	assert_int_equal(bytes->length, 16);
	part = record__part_after((const void *)rec.data, part, PART_LINES);
	bytes = (const void *)part;
	assert_int_equal(bytes->length, 48);
	assert_null(record__part_after((const void *)rec.data, part, PART_LINES));
	assert_null(record__part((const void *)rec.data, PART_FILE));
}

static void a_string_tells_what_is_there(void **state)
{
	const struct part_string *string;

	rec_code(&rec, 1, &task, 7, 1, 0);
	rec_string_raw(&rec, PART_NAME, "abcdefgh", 3, 2, 0, 6);
	string = (const void *)record__part((const void *)rec.data, PART_NAME);
	assert_int_equal(part_string__bytes(string), 6);
	rec_code(&rec, 1, &task, 7, 1, 0);
	rec_string_raw(&rec, PART_NAME, "abcdefgh", UINT32_MAX, 4, 0, 8);
	string = (const void *)record__part((const void *)rec.data, PART_NAME);
	assert_int_equal(part_string__bytes(string), 8);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(samples_come_in_order_of_time),
		TEST(runs_are_merged),
		TEST(samples_are_previewed),
		TEST(a_late_record_is_handed_on_and_counted),
		TEST(codes_come_before_samples),
		TEST(every_kind_reaches_its_function),
		TEST(a_full_arena_flushes_early_and_loses_nothing),
		TEST(an_error_of_the_sink_is_handed_up),
		TEST(bad_samples_are_counted),
		TEST(native_frames_are_checked),
		TEST(stacks_are_checked),
		TEST(bad_codes_are_counted),
		TEST(every_cut_of_a_record_is_bad),
		TEST(unknown_kinds_and_parts_are_skipped),
		TEST(parts_of_one_kind_follow_each_other),
		TEST(a_sample_is_parsed_and_copied),
		TEST(values_are_checked), TEST(objects_are_found_by_their_address),
		TEST(a_string_tells_what_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
