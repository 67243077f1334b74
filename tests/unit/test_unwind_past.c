/* SPDX-License-Identifier: MIT */
/* Walks with a remembered past against walks without: stacks grow and shrink like a program's, words are
 * overwritten, lists change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "cprofd/unwind_past.h"

#define RULES 64u
#define STACK_WORDS 16384u
#define STACK_AT 0x7f0000000000ull
#define STACK_END (STACK_AT + STACK_WORDS * 8ull)
#define DEPTH 400u
#define TICKS 20000u

struct frame {
	uint64_t pc, sp, bp;
};

static uint64_t stack[STACK_WORDS], hidden;
static struct frame frames[DEPTH];
static uint32_t depth;
static uint64_t rules[RULES];

static uint64_t pc_of(uint32_t rule)
{
	return 0x400108 + rule * 0x140ull; /* no call ends with its part of the code */
}

/* A page may be missing: `hidden`. */
static int read_stack(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	uint64_t end = hidden ? hidden : STACK_END;

	if (address < STACK_AT || address > end || size > end - address)
		return -EFAULT;
	memcpy(dst, (const char *)stack + (address - STACK_AT), size);
	return 0;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)random() % n;
}

/* 0 ends a walk; some save rbp or rbx, some have it as a frame pointer, some are not PLAIN. */
static void draw_rules(void)
{
	uint32_t i;

	rules[0] = UNWIND_RULE_END;
	for (i = 1; i < RULES; i++) {
		int32_t offset = 16 + 8 * (int32_t)below(i % 16 == 1 ? 700 : 40), saved = i & 1 ? -16 : 0;
		uint64_t base = i % 7 == 3 ? 3 : i % 13 == 5 ? UNWIND_BASE_LOST : 0;

		if (i % 5 == 2)
			rules[i] = UNWIND_RULE(UNWIND_KIND_PLAIN, UNWIND_BP, 16, -16);
		else
			rules[i] = i % 17 == 6 ? UNWIND_RULE(UNWIND_KIND_PLT, UNWIND_SP, offset, i & 1 ? 11 : 0) :
						 UNWIND_RULE(UNWIND_KIND_PLAIN, UNWIND_SP, offset, saved);
		rules[i] |= base << 57;
	}
}

/* A call from the innermost frame to a function with that rule. */
static void push(uint32_t rule)
{
	const struct frame *caller = &frames[depth - 1];
	struct frame *frame = &frames[depth];
	uint64_t cfa = caller->sp, r = rules[rule];

	*frame = (struct frame){.pc = pc_of(rule), .bp = caller->bp, .sp = cfa - (uint64_t)unwind_rule_offset(r)};
	if (depth == DEPTH - 1 || cfa - STACK_AT < 8192)
		return;
	if (unwind_rule_kind(r) == UNWIND_KIND_PLT)
		frame->sp -= (frame->pc & 15) >= (uint64_t)unwind_rule_saved(r) ? 8 : 0;
	else if (unwind_rule_saved(r)) {
		stack[(cfa + (uint64_t)unwind_rule_saved(r) - STACK_AT) / 8] = caller->bp;
		frame->bp = (uint64_t)random();
	}
	if (unwind_rule_register(r) == UNWIND_BP) {
		frame->bp = cfa - 16;
		frame->sp = cfa - 16 - 8 * below(60);
	}
	stack[(cfa - 8 - STACK_AT) / 8] = caller->pc;
	depth++;
}

static void cache_rules(struct unwind_state *s)
{
	uint32_t i, way;

	for (i = 0; i < RULES; i++) {
		uint64_t word = pc_of(i) + s->process;
		struct unwind_set *set = &s->cache[unwind_set_of(word)];

		for (way = 0; way < UNWIND_WAYS - 1 && set->rule[way] && set->from[way] != word - 1; way++)
			;
		set->turn = way;
		unwind_set_add(set, word - 1, 1, rules[i]);
		assert_int_equal(unwind_rule_unpack(unwind_set_find(set, word)), rules[i]);
	}
}

static void set_registers(struct unwind_state *s)
{
	s->regs[UNWIND_PC] = frames[depth - 1].pc;
	s->regs[UNWIND_SP] = frames[depth - 1].sp;
	s->regs[UNWIND_BP] = frames[depth - 1].bp;
	s->known = (1u << UNWIND_REGISTERS) - 1;
	s->exact = 1;
}

static void same_as_without(void **state)
{
	static struct host_reader reader = {.read = read_stack};
	static struct unwind_fast fast;
	static struct unwind_state plain;
	static struct unwind_past past;
	static struct unwind_pcs pcs;
	uint32_t tick, n, ours, whole = 0, met = 0, i;
	uint64_t list = 1;

	srandom(7);
	host_reader_current = &reader;
	host_pools_n = 0;
	draw_rules();
	frames[0] = (struct frame){pc_of(0), STACK_END, 0};
	depth = 1;
	for (tick = 0; tick < TICKS; tick++) {
		uint32_t less = below(8) ? below(8) : below(depth);
		int result, expected;

		depth = less < depth ? depth - less : 1;
		for (n = depth == 1 ? 60 : 1 + below(8); n; n--)
			push(1 + below(RULES - 1));
		if (!below(20))
			stack[below(STACK_WORDS)] ^= below(3) ? 8 : pc_of(below(RULES));
		hidden = below(50) ? 0 : STACK_END - 4096;
		if (!below(200)) {
			/* The same code has other rules from now on. */
			list++;
			draw_rules();
			depth = 1;
			for (n = 80; n; n--)
				push(1 + below(RULES - 1));
		}
		unwind_begin(&plain, list, 1);
		set_registers(&plain);
		cache_rules(&plain);
		for (n = 0, expected = UNWIND_UP; expected == UNWIND_UP && n < UNWIND_FRAMES;) {
			pcs.pc[n++] = plain.regs[UNWIND_PC] | (plain.exact ? 1ull << 63 : 0);
			expected = unwind_step(&plain);
		}
		static uint64_t theirs[UNWIND_FRAMES];
		memcpy(theirs, pcs.pc, sizeof(theirs));

		unwind_fast_begin(&fast, &past, list, 1);
		set_registers(&fast.state);
		if (below(8))
			unwind_fast_read(&fast);
		cache_rules(&fast.state);
		fast.n = 0;
		for (ours = 0, i = 0, result = UNWIND_UP; result == UNWIND_UP && i < UNWIND_FRAMES; i++)
			result = unwind_round(&fast, &past, &pcs, &ours);
		assert_int_equal(result, expected);
		assert_int_equal(ours, n);
		for (i = 0; i < n; i++)
			assert_int_equal(pcs.pc[i], theirs[i]);
		/* Where a walk was cut, what it knew is the same, too. */
		if (result != UNWIND_END) {
			assert_int_equal(fast.state.regs[UNWIND_SP], plain.regs[UNWIND_SP]);
			assert_int_equal(fast.state.regs[UNWIND_BP], plain.regs[UNWIND_BP]);
			assert_int_equal(fast.state.known, plain.known);
			if (plain.known & UNWIND_BIT(UNWIND_BASE))
				assert_int_equal(fast.state.base_at, plain.base_at);
		}
		whole += result == UNWIND_END;
		met += fast.n != 0;
	}
	/* And it was not for nothing. */
	assert_true(whole > TICKS / 2);
	assert_true(met > TICKS / 2);
	print_message("%u of %u whole, %u met the past\n", whole, TICKS, met);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_as_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
