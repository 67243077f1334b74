/* SPDX-License-Identifier: MIT */
/* Samples whose native walk is repeated later: they wait for it, in order, and finally the losses are counted. The
 * walker is a stub; test_unwind_modules tests real walks. */
#include <errno.h>

#include <stdlib.h>

#include "book.h"
#include "collect/collect.h"
#include "fake_codemap.h"
#include "profile/profile.h"
#include "records.h"

#define MS 1000000ull
#define T0 (1000 * 1000 * MS)
#define BOOT (500 * 1000 * MS)

/* --- a process with functions of 0x100 bytes --- */

static int find(struct codemap *self, const struct record_task *task, uint64_t address,
		uint64_t time, struct code_location *ret)
{
	static char name[32];

	snprintf(name, sizeof(name), "f%llx", (unsigned long long)address >> 8);
	*ret = (struct code_location){.function = address >> 8,
			      .module_name = "lib.so",
			      .name = name,
			      .vaddr = address,
			      .start = address & ~0xffull,
			      .kind = LOCATION_LIBRARY};
	return 0;
}

static uint64_t changes(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return 0;
}

static int eval = 1;

static int eval_known(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return eval;
}


/* --- who walks --- */

static struct made_up {
	bool ready;
	enum loss loss; /* of what it walks */
	unsigned asked, last;
} made_up;

static int walk(struct codemap *self, const struct sample *sample, bool last, struct part_native_frames *ret)
{
	struct made_up *m = &made_up;

	m->asked++;
	m->last += last;
	assert_int_equal(sample->stack->size, 16);
	assert_int_equal(sample->stack->bytes[15], 0x5a);
	assert_int_equal(sample->stack->regs[16], 0x1010);
	if (!m->ready)
		return last ? -ENOENT : -EAGAIN;
	ret->pc[0] = NATIVE_EXACT | 0x1010;
	ret->pc[1] = 0x2010;
	ret->pc[2] = 0x3010;
	ret->n = 3;
	ret->flags = m->loss ? 0 : NATIVE_WHOLE;
	ret->part.loss = m->loss;
	return 0;
}

static struct codemap codemap = {.find = find, .changes = changes, .eval_known = eval_known, .walk = walk};

/* --- the way --- */

static struct profile *profile;
static struct book *book;
static struct wire wire;
static struct rec rec;
static struct record_task task;

static int give(const struct record_sample *record)
{
	struct sample sample;

	record__parse(record, &sample);
	return profile__sample(profile, &sample);
}

static int set_up_mode(const char *mode)
{
	const struct event_session session = {.id = 1,
					      .pid = 10,
					      .rate = 1000,
					      .mode = mode,
					      .monotonic = T0,
					      .boottime = T0 + BOOT,
					      .boot_id = "id",
					      .command = "x",
					      .native = true};
	struct profile_options options = {
		.rate = 1000, .codemap = &codemap};

	made_up = (struct made_up){};
	task = rec_task(10, 10, 0, T0 + BOOT - 100 * MS, "x");
	book = book_new();
	memset(&wire, 0, sizeof(wire));
	wire_add(&wire, 0, &book->sink);
	assert_int_equal(profile__new(&options, &wire.sink, &profile), 0);
	assert_int_equal(profile__begin(profile, &session), 0);
	return 0;
}

static int set_up(void **state)
{
	return set_up_mode("cpu");
}

static int set_up_wall(void **state)
{
	return set_up_mode("wall");
}

static int tear_down(void **state)
{
	profile = profile__free(profile);
	wire_free(&wire);
	free(book);
	return 0;
}

static void sample(unsigned at, enum loss loss, bool copied)
{
	static const uint64_t cut[] = {NATIVE_EXACT | 0x1010},
			      whole[] = {NATIVE_EXACT | 0x4010, 0x3010};
	struct record_sample *record = rec_sample(&rec, T0 + at * MS, &task, at * MS);
	struct part_stack *stack;

	record->flags = SAMPLE_NO_PYTHON;
	rec_frames(&rec, 0, NULL, 0);
	rec_native(&rec, (uint16_t)loss, loss ? cut : whole, loss ? 1 : 2);
	if (copied) {
		stack = rec_part(&rec, PART_STACK, 0, sizeof(*stack), 16);
		stack->regs[16] = 0x1010;
		stack->size = 16;
		memset(stack->bytes, 0x5a, 16);
	}
	assert_int_equal(record__check(rec.data, rec.size), 0);
	assert_int_equal(give(record), 0);
}

/* Leaves its CPU; the engine excuses what the sampler counted. */
static void leaves(unsigned at, enum loss loss)
{
	struct record_sample *record;
	struct part_stack *stack;
	struct part_wait *wait;
	static const uint64_t cut[] = {NATIVE_EXACT | 0x1010};

	record = rec_sample(&rec, T0 + at * MS, &task, at * MS);
	record->flags = SAMPLE_NO_PYTHON | SAMPLE_OFF_CPU;
	rec_frames(&rec, 0, NULL, 0);
	rec_native(&rec, (uint16_t)loss, cut, 1);
	stack = rec_part(&rec, PART_STACK, 0, sizeof(*stack), 16);
	stack->regs[16] = 0x1010;
	stack->size = 16;
	memset(stack->bytes, 0x5a, 16);
	wait = rec_part(&rec, PART_WAIT, 0, sizeof(*wait), 0);
	wait->key = 0x4711;
	wait->state = 1;
	wait->syscall = 9999;
	assert_int_equal(record__check(rec.data, rec.size), 0);
	profile__excuse(profile, loss, 1);
	assert_int_equal(give(record), 0);
}

static void waited(unsigned at, unsigned ms)
{
	struct record_wait wait = {.key = 0x4711, .waited = ms * MS, .begin = T0 + (at - ms) * MS, .count = 1, .syscall = 9999, .state = 1};

	wait.header = (struct record_header){.size = sizeof(wait), .kind = RECORD_WAIT, .time = T0 + at * MS, .task = task};
	assert_int_equal(profile__record(profile, &wait.header), 0);
}

static void counted(enum loss loss, uint64_t n)
{
	struct sampler_counts counts = {.ticks = n, .samples = n};

	counts.losses[loss] = n;
	profile__counts(profile, &counts);
}

static void tick(unsigned at)
{
	assert_int_equal(profile__tick(profile, T0 + at * MS), 0);
}

static void end(unsigned at)
{
	assert_int_equal(profile__end(profile, T0 + at * MS, "duration", ""), 0);
}

static const char *stack_of(unsigned i)
{
	return book_stack(book, book->samples[i].stack);
}

static void waits_in_order(void **state)
{
	sample(1, LOSS_NATIVE_PENDING, true);
	sample(2, LOSS_NONE, false);
	sample(3, LOSS_NATIVE_PENDING, true);
	counted(LOSS_NATIVE_PENDING, 2);
	tick(100);
	tick(300);
	assert_int_equal(book->n_samples, 0); /* the second waits for the first */
	made_up.ready = true;
	tick(500);
	assert_int_equal(book->n_samples, 3);
	end(600);
	assert_int_equal(book->samples[0].time, T0 + 1 * MS);
	assert_int_equal(book->samples[1].time, T0 + 2 * MS);
	assert_int_equal(book->samples[2].time, T0 + 3 * MS);
	assert_string_equal(stack_of(0), "f30:0;f20:0;f10:0");
	assert_string_equal(stack_of(1), "f30:0;f40:0");
	assert_string_equal(stack_of(2), "f30:0;f20:0;f10:0");
	assert_int_equal(book->ledger.samples, 3);
	assert_int_equal(book->ledger.whole, 3);
	assert_string_equal(book->losses, "");
	assert_int_equal(made_up.last, 0);
}

static void not_for_ever(void **state)
{
	sample(1, LOSS_NATIVE_MAPPING, true);
	counted(LOSS_NATIVE_MAPPING, 1);
	tick(900);
	assert_int_equal(book->n_samples, 0);
	tick(1 + PROFILE_FINISH_NS / MS);
	assert_int_equal(book->n_samples, 1);
	assert_int_equal(made_up.last, 1);
	end(2 + PROFILE_FINISH_NS / MS);
	assert_string_equal(stack_of(0),
			    "(cut: a return address lies in no code that is known);f10:0");
	assert_int_equal(book->ledger.whole, 0);
	assert_string_equal(book->losses, "native_mapping=1 ");
}

/* A stack at a switch is a sample when its time comes, and is none when another one replaces it. */
static void at_a_switch(void **state)
{
	made_up.ready = true;
	leaves(1, LOSS_NATIVE_PENDING);
	leaves(2, LOSS_NATIVE_PENDING);
	waited(5, 3);
	counted(LOSS_NATIVE_PENDING, 3); /* and a tick, which did not come */
	tick(100);
	end(200);
	assert_string_equal(stack_of(0), "f30:0;f20:0;f10:0;(waiting: system call)");
	assert_int_equal(book->ledger.samples, 1);
	assert_int_equal(book->ledger.whole, 1);
	assert_string_equal(book->losses, "native_pending=1 ");
}

/* A thread waits for others on its way out, after its end was told. */
static void waits_after_its_end(void **state)
{
	struct record_event gone = {.header = {.size = sizeof(gone), .kind = RECORD_EXIT, .time = T0 + 5 * MS, .task = task}};

	made_up.ready = true;
	leaves(1, LOSS_NONE);
	assert_int_equal(profile__record(profile, &gone.header), 0);
	waited(8, 4);
	end(200);
	assert_int_equal(book->n_times, 1);
	assert_int_equal(book->times[0].wall + book->times[0].tail_wall, book->times[0].end - book->times[0].begin);
	assert_true(book->times[0].wall + book->times[0].tail_wall < 100 * MS);
}

/* One that stays cut counts once. */
static void cut_at_a_switch(void **state)
{
	made_up.ready = true;
	made_up.loss = LOSS_NATIVE_NO_RULE;
	leaves(1, LOSS_NATIVE_PENDING);
	waited(5, 3);
	counted(LOSS_NATIVE_PENDING, 1);
	end(200);
	assert_int_equal(book->ledger.whole, 0);
	assert_string_equal(book->losses, "native_no_rule=1 ");
}

/* What the sampler counted is not what was lost in the end. */
static void another_loss(void **state)
{
	made_up.ready = true;
	made_up.loss = LOSS_NATIVE_NO_RULE;
	sample(1, LOSS_NATIVE_PENDING, true);
	sample(2, LOSS_NATIVE_NO_RULE, false); /* the sampler's own */
	counted(LOSS_NATIVE_PENDING, 1);
	tick(100);
	end(200);
	assert_string_equal(stack_of(0),
			    "(cut: native code without call frame information);f30:0;f20:0;f10:0");
	assert_string_equal(book->losses, "native_no_rule=2 ");
}

static void the_end_does_not_wait(void **state)
{
	sample(1, LOSS_NATIVE_PENDING, true);
	end(2);
	assert_int_equal(book->n_samples, 1);
	assert_int_equal(made_up.last, 1);
	assert_string_equal(book->losses, "native_pending=1 ");
}

/* More than there is room for: those are read with what is there. */
static void bounded_room(void **state)
{
	unsigned i, n = PROFILE_FINISH_BYTES / 200;

	for (i = 1; i <= n; i++)
		sample(i, LOSS_NATIVE_PENDING, true);
	assert_true(made_up.last > 0 && made_up.last < n);
	end(n + 1);
	assert_int_equal(book->n_samples, n);
	assert_int_equal(made_up.last, n);
}

static void an_epoch_ends(void **state)
{
	sample(1, LOSS_NATIVE_PENDING, true);
	made_up.ready = true;
	assert_int_equal(profile__rotate(profile, T0 + 2 * MS), 0);
	assert_int_equal(book->n_samples, 1);
	sample(3, LOSS_NATIVE_PENDING, true);
	end(4);
	assert_int_equal(book->ledger.whole, 2);
}

/* Whole or not is counted once: as it goes out. */
static void counted_as_it_goes_out(void **state)
{
	struct profile_totals totals;

	sample(1, LOSS_NATIVE_PENDING, true);
	sample(2, LOSS_NATIVE_NO_RULE, false);
	tick(100);
	profile__totals(profile, &totals);
	assert_int_equal(totals.native, 1);
	assert_int_equal(totals.native_whole, 0);
	made_up.ready = true;
	tick(200);
	end(300);
	profile__totals(profile, &totals);
	assert_int_equal(totals.native, 2);
	assert_int_equal(totals.native_whole, 1);
	assert_string_equal(book->stops, "native_no_rule lib.so+0x1010 f10=1 ");
}

/* Also those that the sampler walked to their end. */
static void waits_for_the_eval_loop(void **state)
{
	const struct py_frame frame = {.code = 5};
	struct record_sample *record = rec_sample(&rec, T0 + 1 * MS, &task, 1 * MS);
	const uint64_t whole[] = {NATIVE_EXACT | 0x4010, 0x3010};
	unsigned at;

	rec_frames(&rec, 0, &frame, 1);
	rec_native(&rec, 0, whole, 2);
	eval = -EAGAIN;
	assert_int_equal(give(record), 0);
	tick(500);
	tick(900);
	assert_int_equal(book->n_samples, 0);
	eval = 0;
	for (at = 1000; at <= 1800; at += 100) /* its code object is awaited, too */
		tick(at);
	assert_int_equal(book->n_samples, 1);
	eval = -EAGAIN;
	record->header.time += 1900 * MS;
	assert_int_equal(give(record), 0);
	end(2000);
	eval = 1;
	assert_int_equal(book->n_samples, 2);
	assert_string_equal(book->losses, "code_uncaptured=2 native_pending=1 weave_no_eval=1 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(waits_in_order),	     TEST(not_for_ever), TEST(another_loss),
		TEST(the_end_does_not_wait), TEST(bounded_room), TEST(an_epoch_ends),
		TEST(counted_as_it_goes_out), TEST(waits_for_the_eval_loop),
		cmocka_unit_test_setup_teardown(at_a_switch, set_up_wall, tear_down),
		cmocka_unit_test_setup_teardown(waits_after_its_end, set_up_wall, tear_down),
		cmocka_unit_test_setup_teardown(cut_at_a_switch, set_up_wall, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
