/* SPDX-License-Identifier: MIT */
/* The list of JIT objects in a memory that changes between reads: the test changes it after each read in turn, and
 * every object taken must be one consistent object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf_image.h"
#include "jit/internal.h"
#include "../jit_symbols.h"

#define MEMORY 0x10000000ull
#define HEAD (MEMORY + 64)
#define ENTRY(n) (MEMORY + 1024 + 64 * (uint64_t)(n))
#define IMAGE(n) (MEMORY + 65536 + 32768 * (uint64_t)(n))
#define TEXT(n) (0x7e0000000000ull + 0x10000 * (uint64_t)(n))
#define N 24u

struct memory {
	struct host_reader reader;
	char bytes[65536 + 32768 * N];
	unsigned reads, at;       /* `event` is called before read number `at` */
	void (*event)(struct memory *memory);
	bool happened;
};

static uint64_t clock_now;
static uint64_t test_clock(void) { return ++clock_now; }

static void *at(struct memory *m, uint64_t address) { return m->bytes + (address - MEMORY); }

static int read_memory(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct memory *m = (struct memory *)self;

	if (m->event && m->reads == m->at) {
		m->event(m);
		m->happened = true;
	}
	m->reads++;
	if (address < MEMORY || address - MEMORY > sizeof(m->bytes) ||
	    size > sizeof(m->bytes) - (address - MEMORY))
		return -EFAULT;
	memcpy(dst, at(m, address), size);
	return 0;
}

struct head {
	uint32_t version, action;
	uint64_t relevant, first;
};
struct entry_words {
	uint64_t next, prev, image, size;
};

static struct head *head(struct memory *m) { return at(m, HEAD); }
static struct entry_words *entry(struct memory *m, uint64_t address) { return at(m, address); }

static void put(struct memory *m, unsigned n, unsigned image, uint32_t serial, unsigned text)
{
	struct entry_words *e = entry(m, ENTRY(n));

	elf_image__make(at(m, IMAGE(image)), serial, 1 + serial % 8, TEXT(text));
	*e = (struct entry_words){head(m)->first, 0, IMAGE(image), sizeof(struct elf_image)};
	if (e->next)
		entry(m, e->next)->prev = ENTRY(n);
	*head(m) = (struct head){1, 1, ENTRY(n), ENTRY(n)};
}

static void drop(struct memory *m, unsigned n)
{
	struct entry_words *e = entry(m, ENTRY(n));

	if (e->next)
		entry(m, e->next)->prev = e->prev;
	if (e->prev)
		entry(m, e->prev)->next = e->next;
	else
		head(m)->first = e->next;
	head(m)->relevant = ENTRY(n);
	head(m)->action = 2;
	memset(at(m, e->image), 0xdd, 64); /* freed */
	e->next = 0x1234567890;
	e->prev = 0x9876543210;
}

static struct memory *memory_new(struct jit **jit)
{
	struct memory *m = calloc(1, sizeof(*m));

	clock_now = 1000;
	m->reader.read = read_memory;
	head(m)->version = 1;
	assert_int_equal(jit__new(test_clock, jit), 0);
	assert_int_equal(jit__add_descriptor(*jit, HEAD), 0);
	assert_int_equal(jit__add_descriptor(*jit, HEAD), 0); /* known already */
	return m;
}

/* --- what is seen --- */

struct checked {
	uint32_t serial;
	unsigned n, count;
};

static void check_symbol(void *ctx, const char *name, uint64_t start, uint64_t size)
{
	struct checked *c = ctx;
	unsigned serial, index, count;

	assert_int_equal(sscanf(name, "s%8x_%2u_of_%2u", &serial, &index, &count), 3);
	if (c->n++) {
		assert_int_equal(serial, c->serial);
		assert_int_equal(count, c->count);
	}
	c->serial = serial;
	c->count = count;
	assert_int_equal(start & 0xffff, 16 * index);
	assert_int_equal(size, 12);
}

/* All objects are whole and of one piece; the serial of the one that lives at TEXT(n). */
static uint32_t check(struct jit *jit, unsigned text)
{
	const struct jit_object *o;
	uint32_t found = 0;
	unsigned living = 0;

	for (o = jit__object(jit, 0); o; o = jit__object(jit, o->id + 1)) {
		struct checked c = {};

		jit__each_symbol(jit, o->id, check_symbol, &c);
		assert_int_equal(c.n, c.count);
		assert_int_equal(o->n_ranges, 1);
		assert_int_equal(o->ranges[0].end - o->ranges[0].start, 16 * c.count);
		if (!o->life.died_by && o->ranges[0].start == TEXT(text)) {
			found = c.serial;
			living++;
		}
	}
	assert_true(living <= 1);
	return found;
}

static void poll_all(struct jit *jit, struct memory *m)
{
	int i, got = 1;

	for (i = 0; i < 8 && got; i++)
		got = jit__poll(jit, &m->reader, true);
	assert_int_equal(got, 0);
}

static void finds_and_ends(void **state)
{
	struct jit_unwind unwind;
	struct jit_found found;
	struct jit *jit;
	struct memory *m = memory_new(&jit);
	uint64_t words[2];
	unsigned i, before;
	void *image;
	size_t size;

	assert_int_equal(jit__poll(jit, &m->reader, false), 0); /* an empty list */
	for (i = 0; i < 5; i++)
		put(m, i, i, 100 + i, i);
	assert_int_equal(jit__poll(jit, &m->reader, false), 1);
	jit__poll(jit, &m->reader, false); /* the whole list, as it changed */
	for (i = 0; i < 5; i++)
		assert_int_equal(check(jit, i), 100 + i);
	before = m->reads;
	assert_int_equal(jit__poll(jit, &m->reader, false), 0);
	assert_true(m->reads - before <= 4);
	/* .eh_frame is relocated: a pointer to each function, relative to itself. */
	assert_int_equal(jit__take_unwind(jit, 3, &unwind), 0);
	assert_int_equal(unwind.address, TEXT(2) + 0x1000);
	assert_int_equal(unwind.len, 16 * (1 + 102 % 8));
	assert_true(unwind.whole);
	memcpy(words, unwind.eh_frame + 16, 16);
	assert_int_equal(words[0], 102);
	assert_int_equal(unwind.address + 24 + words[1], TEXT(2) + 16);
	free(unwind.eh_frame);
	assert_int_equal(jit__take_unwind(jit, 3, &unwind), -ENOENT);
	/* The last one's image, once. */
	assert_int_equal(jit__take_image(jit, 4, &image, &size), -ENOENT);
	assert_int_equal(jit__take_image(jit, 5, &image, &size), 0);
	assert_int_equal(size, sizeof(struct elf_image));
	assert_memory_equal(image, at(m, IMAGE(4)), size);
	free(image);
	assert_int_equal(jit__take_image(jit, 5, &image, &size), -ENOENT);
	/* The last byte of a function, the gap after it, and what is outside. */
	assert_int_equal(jit__find(jit, TEXT(3) + 11, clock_now, &found), 0);
	assert_string_equal(found.name, "s00000067_00_of_08");
	assert_false(found.doubtful);
	assert_int_equal(jit__find(jit, TEXT(3) + 12, clock_now, &found), 0);
	assert_null(found.name);
	assert_int_equal(found.size, 16 * 8);
	assert_int_equal(jit__find(jit, TEXT(3) + 16 * 8, clock_now, &found), -ENOENT);
	assert_int_equal(jit__find(jit, UINT64_MAX, clock_now, &found), -ENOENT);

	before = (unsigned)clock_now;
	drop(m, 2);
	poll_all(jit, m);
	assert_int_equal(check(jit, 2), 0);
	assert_int_equal(jit__find(jit, TEXT(2), before, &found), 0); /* it is still known */
	assert_int_equal(jit__find(jit, TEXT(2), clock_now, &found), -ENOENT);
	/* The same addresses, the same size, another object: at the head, where it is cheapest to
	 * miss. */
	drop(m, 4);
	put(m, 4, 4, 108, 4);
	assert_int_equal(jit__poll(jit, &m->reader, false), 1);
	assert_int_equal(check(jit, 4), 108);
	assert_int_equal(jit__find(jit, TEXT(4), before, &found), 0);
	assert_string_equal(found.name, "s00000068_00_of_01");
	assert_int_equal(jit__find(jit, TEXT(4), clock_now, &found), 0);
	assert_string_equal(found.name, "s0000006c_00_of_05");
	/* Code that is replaced without being unregistered. */
	put(m, 7, 7, 200, 1);
	assert_int_equal(jit__poll(jit, &m->reader, false), 1);
	assert_int_equal(check(jit, 1), 200);
	assert_int_equal(jit->counts.overlaps, 1);
	/* ... and what replaced it goes: the former is on the list, and is right again. */
	drop(m, 7);
	poll_all(jit, m);
	poll_all(jit, m);
	assert_int_equal(check(jit, 1), 101);
	jit__done(jit, clock_now);
	assert_int_equal(check(jit, 0), 100);
	jit__free(jit);
	free(m);
}

/* --- at each read in turn --- */

static void replace(struct memory *m)
{
	drop(m, 3);
	put(m, 3, 3, 300, 3); /* the same addresses */
}
static void replace_head(struct memory *m)
{
	drop(m, 5);
	put(m, 5, 5, 300, 3);
}
static void only_drop(struct memory *m) { drop(m, 3); }
static void push(struct memory *m) { put(m, 6, 6, 301, 6); }
static void half_made(struct memory *m)
{
	/* Freed, and the next object's image is half written when the target is preempted. */
	struct elf_image next;

	drop(m, 3);
	elf_image__make(&next, 300, 1 + 300 % 8, TEXT(3));
	elf_image__make(at(m, IMAGE(3)), 103, 1 + 103 % 8, TEXT(3));
	memcpy(at(m, IMAGE(3)), &next, sizeof(next) / 2);
}
static void drop_two(struct memory *m)
{
	drop(m, 3);
	drop(m, 2);
}

static void replace_3(struct memory *m) { put(m, 3, 3, 300, 3); }

static void at_each_read(void **state)
{
	void (*const events[])(struct memory *) = {replace,	  replace_head, only_drop,
						   push,	  half_made,	drop_two};
	unsigned e, i, k, reads;

	for (e = 0; e < sizeof(events) / sizeof(*events); e++) {
		for (reads = 1, k = 0; k < reads; k++) {
			struct jit *jit;
			struct memory *m = memory_new(&jit);

			for (i = 0; i < 6; i++)
				put(m, i, i, 100 + i, i);
			m->event = events[e];
			m->at = k;
			jit__poll(jit, &m->reader, false);
			if (m->reads > reads)
				reads = m->reads;
			check(jit, 3);
			m->event = NULL;
			poll_all(jit, m);
			poll_all(jit, m);
			check(jit, 0);
			if (m->happened) {
				uint32_t three = check(jit, 3);

				if (events[e] == replace || events[e] == replace_head)
					assert_int_equal(three, 300);
				else if (events[e] == push)
					assert_int_equal(check(jit, 6), 301);
				else
					assert_int_equal(three, 0);
			}
			assert_int_equal(check(jit, 1), 101);
			assert_false(events[e] == push && jit->lists[0].drops);
			jit__free(jit);
			free(m);
			if (k > 4000)
				fail_msg("event %u: it does not end", e);
		}
		assert_true(reads > 40);
	}
}

/* The first of two at one place came and went between two looks, when no list had dropped anything yet. */
static void a_first_drop(void **state)
{
	struct jit *jit;
	struct memory *m = memory_new(&jit);
	struct jit_found found;
	uint64_t missed;

	put(m, 0, 0, 100, 0);
	poll_all(jit, m);
	put(m, 1, 1, 101, 1);
	missed = ++clock_now;
	drop(m, 1);
	put(m, 1, 1, 102, 1);
	poll_all(jit, m);
	assert_int_equal(check(jit, 1), 102);
	drop(m, 0);
	poll_all(jit, m);
	assert_true(jit->lists[0].drops);
	assert_int_equal(jit__find(jit, TEXT(1), missed, &found), 0);
	assert_true(found.doubtful);
	assert_int_equal(jit__find(jit, TEXT(1), clock_now, &found), 0);
	assert_string_equal(found.name, "s00000066_00_of_07");
	jit__free(jit);
	free(m);
}

/* One went before a look at the whole list began, and another came to its entry, image and code while it ran. */
static void comes_back_as_another(void **state)
{
	unsigned k, reads, doubtful = 0;

	for (reads = 1, k = 0; k < reads; k++) {
		struct jit *jit;
		struct memory *m = memory_new(&jit);
		struct jit_found found;
		uint64_t gone;
		unsigned i;

		for (i = 0; i < 6; i++)
			put(m, i, i, 100 + i, i);
		poll_all(jit, m);
		drop(m, 3);
		gone = ++clock_now;
		put(m, 3, 3, 200, 3);
		drop(m, 3);
		m->reads = 0;
		m->at = k;
		m->event = replace_3;
		jit__poll(jit, &m->reader, true);
		if (m->reads > reads)
			reads = m->reads;
		m->event = NULL;
		/* It is another's, the one that nobody saw. */
		if (!jit__find(jit, TEXT(3), gone, &found)) {
			assert_true(found.doubtful);
			doubtful++;
		}
		poll_all(jit, m);
		assert_int_equal(check(jit, 3), m->happened ? 300 : 0);
		jit__free(jit);
		free(m);
	}
	assert_true(reads > 10 && doubtful);
}

/* --- lies --- */

static void cycle(struct memory *m) { entry(m, ENTRY(0))->next = ENTRY(5); }
static void cycle_to_self(struct memory *m) { entry(m, ENTRY(2))->next = ENTRY(2); }
static void to_nowhere(struct memory *m) { entry(m, ENTRY(2))->next = 0x10; }
static void odd(struct memory *m) { head(m)->first++; }
static void huge(struct memory *m) { entry(m, ENTRY(5))->size = UINT64_MAX; }
static void empty(struct memory *m) { entry(m, ENTRY(5))->size = 0; }
static void unreadable(struct memory *m) { entry(m, ENTRY(5))->image = UINT64_MAX - 100; }
static void no_elf(struct memory *m) { memset(at(m, IMAGE(5)), 0, 64); }
static void other_version(struct memory *m) { head(m)->version = 2; }

static void lies(void **state)
{
	static const struct {
		void (*lie)(struct memory *);
		int got;
		unsigned taken;
	} all[] = {
		{cycle, -EAGAIN, 0},  {cycle_to_self, -EAGAIN, 0}, {to_nowhere, -EAGAIN, 0},
		{odd, -EAGAIN, 0},    {huge, 1, 5},		   {empty, 1, 5},
		{unreadable, 1, 5},   {no_elf, 1, 5},		   {other_version, 0, 0},
	};
	unsigned l, i;

	for (l = 0; l < sizeof(all) / sizeof(*all); l++) {
		struct jit *jit;
		struct memory *m = memory_new(&jit);

		for (i = 0; i < 6; i++)
			put(m, i, i, 100 + i, i);
		all[l].lie(m);
		assert_int_equal(jit__poll(jit, &m->reader, false), all[l].got);
		assert_int_equal(jit->counts.taken, all[l].taken);
		for (i = 0; i < 200; i++)
			jit__poll(jit, &m->reader, false);
		/* What stays wrong is not read over and over. */
		assert_true(m->reads < 3000);
		check(jit, 0);
		jit__free(jit);
		free(m);
	}
}

/* Both go on from what there was at the fork, each with its own memory: objects that the parent took,
 * and lost, after the fork are not the child's. */
static void a_fork(void **state)
{
	struct jit *jit, *child;
	struct memory *m = memory_new(&jit), *copy = malloc(sizeof(*copy));
	struct jit_found found, other;
	const struct jit_object *o;
	uint64_t forked;
	unsigned i, n = 0, before;

	jit__set_origin(jit, 7);
	for (i = 0; i < 5; i++)
		put(m, i, i, 100 + i, i);
	poll_all(jit, m);
	*copy = *m;
	forked = ++clock_now;
	drop(m, 1);
	put(m, 6, 6, 106, 6);
	put(m, 7, 7, 107, 7);
	poll_all(jit, m);
	assert_int_equal(check(jit, 6), 106);
	assert_int_equal(jit__fork(jit, forked, &child), 0);
	jit__set_origin(child, 8);
	/* The child's other object comes to where its parent's lies: both have the same id and address. */
	put(copy, 8, 8, 208, 6);
	put(copy, 9, 9, 209, 9);
	before = copy->reads;
	poll_all(child, copy);
	assert_true(copy->reads - before < 400);
	for (i = 0; i < 5; i++)
		assert_int_equal(check(child, i), 100 + i);
	assert_int_equal(check(child, 6), 208);
	assert_int_equal(check(child, 7), 0);
	assert_int_equal(check(child, 9), 209);
	assert_int_equal(check(jit, 1), 0);
	assert_int_equal(check(jit, 6), 106);
	assert_int_equal(jit__find(jit, TEXT(0), clock_now, &found), 0);
	assert_int_equal(jit__find(child, TEXT(0), clock_now, &other), 0);
	assert_string_equal(found.name, other.name);
	assert_int_equal(found.object, other.object);
	assert_int_equal(found.origin, 7);
	assert_int_equal(other.origin, 7);
	assert_int_equal(jit__find(jit, TEXT(6), clock_now, &found), 0);
	assert_int_equal(jit__find(child, TEXT(6), clock_now, &other), 0);
	assert_string_not_equal(found.name, other.name);
	assert_int_equal(found.origin, 7);
	assert_int_equal(other.origin, 8);
	for (o = jit__object(child, 0); o; o = jit__object(child, o->id + 1))
		n += !o->life.died_by;
	assert_int_equal(n, 7);
	/* The parent goes first. */
	jit__free(jit);
	drop(copy, 9);
	poll_all(child, copy);
	assert_int_equal(check(child, 9), 0);
	assert_int_equal(check(child, 3), 103);
	jit__free(child);
	free(copy);
	free(m);
}

static void no_memory(void **state)
{
	struct jit *jit;
	struct memory *m = memory_new(&jit);

	assert_int_equal(jit__add_descriptor(jit, 0x1000), 0);
	assert_int_equal(jit__poll(jit, &m->reader, false), -EFAULT);
	jit__free(jit);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_and_ends),
		cmocka_unit_test(at_each_read),
		cmocka_unit_test(a_first_drop),
		cmocka_unit_test(comes_back_as_another),
		cmocka_unit_test(lies),
		cmocka_unit_test(a_fork),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
