/* SPDX-License-Identifier: MIT */
/* Call frame information that the assembler made in this very program, against libdw. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../tools/unwind_oracle.h"

/* Nothing of it is ever run. */
__asm__(".text\n"
	".macro fn name\n"
	"	.p2align 6\n"
	"	.globl unwind_test_\\name\n"
	"unwind_test_\\name:\n"
	"	.cfi_startproc\n"
	".endm\n"
	".macro nf\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".endm\n"
	"fn remember\n"
	"	push %rbp\n	.cfi_def_cfa_offset 16\n	.cfi_offset 6, -16\n"
	"	mov %rsp, %rbp\n	.cfi_def_cfa_register 6\n"
	"	.cfi_remember_state\n	.cfi_remember_state\n"
	"	leave\n	.cfi_def_cfa 7, 8\n	.cfi_restore 6\n	ret\n"
	"	.cfi_restore_state\n	nop\n	.cfi_restore_state\n	nop\n"
	"	push %rbx\n	.cfi_offset 3, -24\n	nop\n"
	"	.cfi_escape 0x2e, 0x20\n	nop\n" /* GNU_args_size */
	"nf\n"
	"fn realigned\n"
	"	lea 8(%rsp), %r10\n	.cfi_def_cfa 10, 0\n	nop\n"
	"	nop\n	.cfi_escape 0x10, 6, 2, 0x76, 0\n	nop\n" /* rbp: *(rbp + 0) */
	"	nop\n	.cfi_escape 0x0f, 3, 0x76, 0x78, 6\n	nop\n" /* CFA: *(rbp - 8) */
	"nf\n"
	"fn kept_sp\n"
	"	nop\n	.cfi_escape 0x0f, 6, 0x77, 0xd8, 0, 6, 0x23, 8\n	nop\n" /* *(rsp +
											  88) + 8 */
	"nf\n"
	"fn plt\n"
	"	nop\n	.cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, "
	"0x24, 0x22\n"
	"	.skip 32, 0x90\n"
	"nf\n"
	"fn odd_cfa\n"
	"	nop\n	.cfi_escape 0x0f, 4, 0x77, 8, 0x13, 0x13\n	nop\n" /* drop, drop */
	"nf\n"
	"fn return_in_register\n"
	"	pop %rdi\n	.cfi_def_cfa_offset 0\n	.cfi_register 16, 5\n	nop\n"
	"nf\n"
	"fn return_elsewhere\n"
	"	nop\n	.cfi_offset 16, -64\n	nop\n"
	"	nop\n	.cfi_escape 0x10, 16, 3, 0x77, 0x80, 1\n	nop\n" /* *(rsp + 128) */
	"nf\n"
	"fn begins_here\n"
	"	.cfi_undefined 16\n	nop\n"
	"nf\n"
	"fn signed_offsets\n"
	"	nop\n	.cfi_escape 0x12, 6, 0x7d\n	nop\n" /* def_cfa_sf rbp, -3 * -8 */
	"	nop\n	.cfi_escape 0x13, 0x7c\n	nop\n" /* def_cfa_offset_sf */
	"	nop\n	.cfi_escape 0x11, 6, 3\n	nop\n" /* offset_extended_sf rbp */
	"	nop\n	.cfi_escape 0x05, 3, 5\n	nop\n" /* offset_extended rbx */
	"	nop\n	.cfi_escape 0x06, 6\n	nop\n"	       /* restore_extended */
	"	nop\n	.cfi_escape 0x14, 7, 0\n	nop\n" /* val_offset rsp, 0: the CFA */
	"	nop\n	.cfi_escape 0x08, 6\n	nop\n"	       /* same_value */
	"	nop\n	.cfi_escape 0x09, 6, 3\n	nop\n" /* register: rbp in rbx */
	"nf\n"
	"fn huge_frame\n"
	"	nop\n	.cfi_def_cfa_offset 0x12345678\n	nop\n"
	"	nop\n	.cfi_offset 6, -0x12340000\n	nop\n" /* too far for a rule: rbp is lost */
	"nf\n"
	"fn long_way\n"
	"	.skip 200000, 0x90\n	.cfi_def_cfa_offset 64\n	.skip 70000, 0x90\n"
	"	.cfi_def_cfa_offset 72\n	nop\n"
	"nf\n"
	"	.p2align 6\n"
	"	.globl unwind_test_bare\n"
	"unwind_test_bare:\n"
	"	.skip 64, 0x90\n"
	"fn last\n"
	"nf\n"
	".purgem fn\n.purgem nf\n");

#define FUNCTIONS(X)                                                                               \
	X(remember)                                                                                \
	X(realigned) X(kept_sp) X(plt) X(odd_cfa) X(return_in_register) X(return_elsewhere)        \
		X(begins_here) X(signed_offsets) X(huge_frame) X(long_way) X(bare) X(last)
#define DECLARE(name) extern const char unwind_test_##name[];
FUNCTIONS(DECLARE)

extern const char __ehdr_start[];

static struct sink sink = {.sink.allot = sink_allot};
static struct unwind_table *table;
static struct host_pool pool;

static uint64_t rule_at(const char *address)
{
	static struct unwind_state state;
	uint64_t pc = (uint64_t)(address - __ehdr_start);

	state.recent[0].range = (struct unwind_range){.origin = table->base,
						      .shift = (uint8_t)table->shift,
						      .index = table->index,
						      .rows = table->rows,
						      .rules = table->rules};
	host_pools_current = &pool;
	host_pools_n = 1;
	assert_int_equal(unwind_table_find(&state, 0, pc), 0);
	return state.rule;
}

static int compile_self(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_bytes file;

	if (elf_bytes__init_fd(&file, fd) || table__compile(&file, &sink.sink, &table))
		return -1;
	pool = (struct host_pool){.blocks = sink.memory, .n = (uint32_t)sink.blocks};
	return table__check(table, table__size(table));
}

static int free_self(void **state)
{
	free(sink.memory);
	return 0;
}

static void like_libdw(void **state)
{
	struct host_reader reader = {.read = read_made_up};
	unsigned long functions = 0;
	struct sums sums = {};

	host_reader_current = &reader;
	elf_version(EV_CURRENT);
	assert_int_equal(compare_file("/proc/self/exe", &sums, &functions), 0);
	assert_true(functions > 50 && sums.rows > 300);
	assert_int_equal(sums.wrong, 0);
	assert_int_equal(sums.missing, 0);
	assert_int_equal(sums.too_much, 0);
	assert_true(sums.lost_bp >= 1);
	assert_true(sums.unsupported[UNWIND_UNSUPPORTED_EXPRESSION] >= 1);
}

static void kinds(void **state)
{
	static const struct {
		const char *at;
		unsigned offset, kind;
	} expected[] = {
		{unwind_test_remember, 0, UNWIND_KIND_PLAIN},
		{unwind_test_realigned, 6, UNWIND_KIND_PLAIN},
		{unwind_test_realigned, 9, UNWIND_KIND_LONG},
		{unwind_test_kept_sp, 1, UNWIND_KIND_LONG},
		{unwind_test_plt, 1, UNWIND_KIND_PLT},
		{unwind_test_odd_cfa, 1, UNWIND_KIND_UNSUPPORTED},
		{unwind_test_return_in_register, 1, UNWIND_KIND_LONG},
		{unwind_test_return_elsewhere, 1, UNWIND_KIND_LONG},
		{unwind_test_begins_here, 0, UNWIND_KIND_END},
		{unwind_test_long_way, 200000, UNWIND_KIND_PLAIN},
		{unwind_test_bare, 0, UNWIND_KIND_UNSUPPORTED}, /* later */
		{unwind_test_bare, 63, UNWIND_KIND_UNSUPPORTED},
		{unwind_test_last, 0, UNWIND_KIND_PLAIN},
	};
	size_t i;

	for (i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_int_equal(unwind_rule_kind(rule_at(expected[i].at + expected[i].offset)),
				 expected[i].kind);
	assert_int_equal(unwind_rule_offset(rule_at(unwind_test_long_way + 199999)), 8);
	assert_int_equal(unwind_rule_offset(rule_at(unwind_test_long_way + 200000)), 64);
	assert_int_equal(unwind_rule_offset(rule_at(unwind_test_long_way + 270000)), 72);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like_libdw),
		cmocka_unit_test(kinds),
	};

	return cmocka_run_group_tests(tests, compile_self, free_self);
}
