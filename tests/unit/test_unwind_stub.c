/* SPDX-License-Identifier: MIT */
/* libffi's closures and CPython's trampolines: each of their instructions is recognised. The assembler makes their bytes
 * from the instructions in their source; how many words are below the return address is counted by hand beside each.
 * (tests/live/mixed.py and jit_files.py call the real ones.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "unwind/unwind.h"

/* Nothing of it is ever run. A place, and the words that lie below the return address there, are two words of `stub_places`. */
__asm__(".pushsection .data.rel.ro, \"aw\"\n	.p2align 3\n	.globl stub_places\nstub_places:\n	.popsection\n"
	".text\n	.p2align 6\n	.quad 0\n"
	".macro at words:req, instruction:vararg\n"
	"	.pushsection .data.rel.ro, \"aw\"\n	.quad 1f, \\words\n	.popsection\n"
	"1:	\\instruction\n"
	".endm\n"
	/* src/x86/ffi64.c, trampoline[] */
	"at 0, endbr64\n"
	"at 0, lea -11(%rip), %r10\n"
	"at 0, jmp *7(%rip)\n"
	"	.byte 0x0f, 0x1f, 0x80, 0, 0, 0, 0\n	.quad 0, 0\n"
	/* src/x86/unix64.S, trampoline_code_table, with and without endbr64 */
	".macro trampoline\n"
	"at 0, sub $16, %rsp\n"
	"at 2, mov %r10, (%rsp)\n"
	"at 2, mov 0xfed(%rip), %r10\n"
	"at 2, mov %r10, 8(%rsp)\n"
	"at 2, mov 0xfe9(%rip), %r10\n"
	"at 2, jmp *%r10\n"
	"	.p2align 3\n"
	".endm\n"
	"at 0, endbr64\n"
	"	trampoline\n"
	"	trampoline\n"
	/* src/x86/unix64.S, ffi_closure_unix64_alt */
	".macro alternative\n"
	"at 2, mov 8(%rsp), %r10\n"
	"at 2, add $16, %rsp\n"
	"at 0, jmp stub_away\n"
	"	.p2align 3\n"
	".endm\n"
	"at 2, endbr64\n"
	"	alternative\n"
	"	alternative\n"
	/* Python/asm_trampoline.S, 3.12 and 3.13 */
	"at 0, sub $8, %rsp\n"
	"at 1, call *%rcx\n"
	"called: at 1, add $8, %rsp\n"
	"at 0, ret\n"
	"	.p2align 4\n"
	"at 0, push %rbp\n"
	"at 1, mov %rsp, %rbp\n"
	"at 1, call *%rcx\n"
	"called_with_bp: at 1, pop %rbp\n"
	"at 0, ret\n"
	"	.p2align 4\n"
	/* what looks like it and is not: unknown */
	"at 3, mov 8(%rsp), %r10\n"
	"	add $24, %rsp\n	jmp stub_away\n"
	"at 3, jmp *%r10\n"
	"at 3, jmp *7(%rip)\n"
	"at 3, sub $16, %rsp\n"
	"at 3, mov 16(%rip), %r10\n"
	"at 3, call *%rcx\n"
	"other: at 3, add $16, %rsp\n"
	"at 3, endbr64\n"
	"	nop\n	nop\n	nop\n	nop\n	nop\n	nop\n	nop\n	nop\n"
	".pushsection .data.rel.ro, \"aw\"\n	.quad 0\n	.popsection\n"
	/* far enough for a jump of five bytes */
	"	.fill 256, 1, 0x90\n"
	".globl called, called_with_bp, other\n"
	".globl stub_away\nstub_away:	ret\n");

#define UNKNOWN 3u
extern const struct {
	uint64_t pc, words;
} stub_places[];
extern const char stub_away[], called[], called_with_bp[], other[];

static int read_self(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	(void)self;
	if (address < stub_places[0].pc - 8 || address + size > (uintptr_t)stub_away)
		return -1;
	memcpy(dst, (const void *)address, size); /* NOLINT(performance-no-int-to-ptr) */
	return 0;
}

static int read_nothing(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	(void)self, (void)dst, (void)size, (void)address;
	return -1;
}

/* Of a page's first instructions nothing can be read in front. */
static uint64_t first_byte;
static int read_from(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	return address < first_byte ? -1 : read_self(self, dst, size, address);
}

static uint64_t pcs[4];
static uint32_t n_pcs;
static uint64_t bp; /* of the last frame */

static bool take(void *ctx, const struct unwind_state *state)
{
	(void)ctx;
	assert_true(n_pcs < 4);
	pcs[n_pcs++] = state->regs[UNWIND_PC];
	bp = state->regs[UNWIND_BP];
	return true;
}

static enum loss walk(uint64_t pc, bool exact, int (*read)(struct host_reader *, void *, size_t, uint64_t))
{
	static const uint64_t stack[] = {100, 101, 102, 103};
	struct host_reader reader = {.read = read};
	static struct unwind_walk walk;

	memset(&walk, 0, sizeof(walk));
	walk.reader = &reader;
	walk.stack = stack;
	walk.stack_at = 0x7000;
	walk.stack_size = sizeof(stack);
	walk.state.known = (1u << UNWIND_REGISTERS) - 1;
	walk.state.exact = exact;
	walk.state.regs[UNWIND_PC] = pc;
	walk.state.regs[UNWIND_SP] = walk.stack_at;
	n_pcs = 0;
	return walk__run(&walk, 0, 0, 4, take, NULL);
}

static void each_instruction_is_known(void **unused)
{
	uint32_t i;

	(void)unused;
	for (i = 0; stub_places[i].pc; i++) {
		assert_int_equal(walk(stub_places[i].pc, true, read_self), LOSS_NATIVE_MAPPING);
		if (stub_places[i].words == UNKNOWN) {
			assert_int_equal(n_pcs, 1);
			continue;
		}
		assert_int_equal(n_pcs, 2);
		assert_int_equal(pcs[1], 100 + stub_places[i].words);
	}
	assert_int_equal(i, 3 + 13 + 7 + 9 + 8);
}

/* CPython's trampolines call: what they called returns there. */
static void callers(void **unused)
{
	(void)unused;
	assert_int_equal(walk((uintptr_t)called, false, read_self), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 2);
	assert_int_equal(pcs[1], 101);
	assert_int_equal(bp, 0);
	assert_int_equal(walk((uintptr_t)called_with_bp, false, read_self), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 2);
	assert_int_equal(pcs[1], 101);
	assert_int_equal(bp, 100);
	assert_int_equal(walk((uintptr_t)other, false, read_self), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 1);
	/* The first of a page: two bytes of what is in front of the return address are on the page before. */
	first_byte = (uintptr_t)called_with_bp - 6;
	assert_int_equal(walk((uintptr_t)called_with_bp, false, read_from), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 2);
}

static void only_where_the_thread_is(void **unused)
{
	(void)unused;
	assert_int_equal(walk(stub_places[0].pc, false, read_self), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 1); /* a return address into it is none */
	assert_int_equal(walk(stub_places[0].pc, true, read_nothing), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 1);
	first_byte = stub_places[0].pc;
	assert_int_equal(walk(first_byte, true, read_from), LOSS_NATIVE_MAPPING);
	assert_int_equal(n_pcs, 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_instruction_is_known),
		cmocka_unit_test(callers),
		cmocka_unit_test(only_where_the_thread_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
