/* SPDX-License-Identifier: MIT */
/* Code without call frame information that is analysed only once a walk stopped in it: functions of this program,
 * whose frames are known because they are written in assembler here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cprofd/host.h"
#include "unwind/unwind.h"

struct sink {
	struct unwind_sink sink;
	void *memory;
	size_t blocks;
};

static void *sink_allot(struct unwind_sink *self, size_t size)
{
	struct sink *sink = (struct sink *)self;

	sink->blocks = (size + UNWIND_BLOCK - 1) / UNWIND_BLOCK;
	if (posix_memalign(&sink->memory, UNWIND_BLOCK, sink->blocks * UNWIND_BLOCK))
		return NULL;
	return memset(sink->memory, 0, sink->blocks * UNWIND_BLOCK);
}

/* Nothing of it is ever run. No label but `big` has a type: none of the others is a function's name. */
__asm__(".text\n"
	"	.p2align 6\n	.cfi_startproc\n	ret\n	.cfi_endproc\n	.p2align 6\n"
	"	.globl follow_a, follow_a_1, follow_a_2, follow_b, follow_junk, follow_end, follow_big, follow_big_1\n"
	"follow_a:\n	push %rbx\n	sub $32, %rsp\n"
	"follow_a_1:\n	test %edi, %edi\n	je 1f\n	call follow_b\n"
	"1:	add $32, %rsp\n	pop %rbx\n"
	"follow_a_2:\n	ret\n"
	"	.p2align 4\n"
	"follow_b:\n	xor %eax, %eax\n	ret\n"
	"	.p2align 4\n"
	"follow_junk:\n	.skip 64, 0x06\n"
	"follow_end:\n	.cfi_startproc\n	push %rbp\n	.cfi_def_cfa_offset 16\n	.cfi_offset 6, -16\n"
	"	pop %rbp\n	.cfi_def_cfa_offset 8\n	ret\n	.cfi_endproc\n"
	"	.p2align 6\n"
	"	.type follow_big, @function\n"
	"follow_big:\n	sub $24, %rsp\n	.skip 70000, 0x90\n"
	"follow_big_1:\n	add $24, %rsp\n	ret\n"
	"	.size follow_big, . - follow_big\n");

extern const char follow_a[], follow_a_1[], follow_a_2[], follow_b[], follow_junk[], follow_end[], follow_big[],
	follow_big_1[], __ehdr_start[];

static struct sink sinks[3] = {{.sink.allot = sink_allot}, {.sink.allot = sink_allot}, {.sink.allot = sink_allot}};
static struct unwind_table *table;

#define LATER UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_CODE_LATER)

static uint64_t place_of(const char *address)
{
	return (uint64_t)(address - __ehdr_start);
}

/* By the walker's own search. */
static uint64_t rule_in(const struct unwind_table *t, const struct sink *sink, uint64_t pc)
{
	static struct unwind_state state;
	struct host_pool pool = {.blocks = sink->memory, .n = (uint32_t)sink->blocks};

	state.recent[0].range = (struct unwind_range){.origin = t->base,
						      .shift = (uint8_t)t->shift,
						      .index = t->index,
						      .rows = t->rows,
						      .rules = t->rules};
	host_pools_current = &pool;
	host_pools_n = 1;
	assert_int_equal(unwind_table_find(&state, 0, pc), 0);
	return state.rule;
}

static int compile_self(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_bytes file;

	return elf_bytes__init_fd(&file, fd) || table__compile(&file, &sinks[0].sink, &table);
}

static int free_all(void **state)
{
	free(sinks[0].memory);
	free(sinks[1].memory);
	free(sinks[2].memory);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct unwind_table *follow(const struct unwind_table *from, struct sink *sink, uint64_t *places, uint32_t n,
				   bool last)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct unwind_table *more = NULL;
	struct elf_bytes file;

	qsort(places, n, sizeof(*places), by_value);
	assert_int_equal(elf_bytes__init_fd(&file, fd), 0);
	assert_int_equal(table__follow(&file, from, places, n, last, &sink->sink, &more), 0);
	assert_int_equal(table__check(more, table__size(more)), 0);
	assert_memory_equal(&more->identity, &from->identity, sizeof(more->identity));
	return more;
}

static void is_plain(uint64_t rule, int offset)
{
	assert_int_equal(unwind_rule_kind(rule), UNWIND_KIND_PLAIN);
	assert_int_equal(unwind_rule_register(rule), UNWIND_SP);
	assert_int_equal(unwind_rule_offset(rule), offset);
}

static void where_walks_stopped(void **state)
{
	uint64_t places[] = {place_of(follow_a_1), place_of(follow_junk) + 20, place_of(follow_big_1)};
	uint64_t rest[] = {place_of(follow_junk) + 40, place_of(follow_b)}, pc, rule;
	struct unwind_table *more;
	unsigned same = 0;

	assert_true(rule_in(table, &sinks[0], place_of(follow_a_1)) == LATER);
	assert_true(rule_in(table, &sinks[0], place_of(follow_b)) == LATER);
	assert_true(rule_in(table, &sinks[0], place_of(follow_big_1)) == LATER);
	more = follow(table, &sinks[1], places, 3, false);
	is_plain(rule_in(more, &sinks[1], place_of(follow_a)), 8);
	is_plain(rule_in(more, &sinks[1], place_of(follow_a_1)), 48);
	assert_int_equal(unwind_rule_base(rule_in(more, &sinks[1], place_of(follow_a_1))), 2); /* CFA - 16 */
	is_plain(rule_in(more, &sinks[1], place_of(follow_a_2)), 8);
	is_plain(rule_in(more, &sinks[1], place_of(follow_big_1)), 32);
	/* Nothing is known of it, and it is not asked for again. */
	rule = rule_in(more, &sinks[1], place_of(follow_junk) + 20);
	assert_int_equal(unwind_rule_kind(rule), UNWIND_KIND_UNSUPPORTED);
	assert_true(rule != LATER);
	/* What is described is as it was, byte by byte. */
	for (pc = table->text; pc < table->text + table->text_size; pc++) {
		rule = rule_in(table, &sinks[0], pc);
		if (rule == LATER)
			continue;
		assert_true(rule_in(more, &sinks[1], pc) == rule);
		same++;
	}
	assert_true(same > 10000);
	/* Once more, from what came of it; and what is left then is never asked for. */
	more = follow(more, &sinks[2], rest, 2, true);
	is_plain(rule_in(more, &sinks[2], place_of(follow_b)), 8);
	is_plain(rule_in(more, &sinks[2], place_of(follow_a_1)), 48);
	for (pc = more->text; pc < more->text + more->text_size; pc++)
		assert_true(rule_in(more, &sinks[2], pc) != LATER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(where_walks_stopped)};

	return cmocka_run_group_tests(tests, compile_self, free_all);
}
