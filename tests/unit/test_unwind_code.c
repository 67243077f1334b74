/* SPDX-License-Identifier: MIT */
/* Functions of this very program without call frame information: the rules derived from their code. The expected
 * rule at each location is written beside it by hand, from the meaning of the instructions (psABI x86-64, 3.2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "unwind/code.h"

/* Nothing of it is ever run. `at` names a place. */
__asm__(".text\n"
	".macro fn name\n"
	"	.p2align 6\n	.globl code_test_\\name\n	code_test_\\name:\n"
	".endm\n"
	".macro at name\n"
	"	.globl code_test_\\name\n	code_test_\\name:\n"
	".endm\n"
	".macro nf name\n"
	"	.globl code_test_\\name\\()_end\n	code_test_\\name\\()_end:\n"
	".endm\n"
	"fn frame\n"
	"	push %rbp\n"
	"at frame_1\n"
	"	mov %rsp, %rbp\n	push %rbx\n	sub $24, %rsp\n"
	"at frame_2\n"
	"	lea -8(%rbp), %rsp\n	pop %rbx\n	pop %rbp\n"
	"at frame_3\n"
	"	ret\n"
	"nf frame\n"
	"fn plain\n"
	"	test %edi, %edi\n	je 1f\n	push %rbx\n	sub $16, %rsp\n"
	"at plain_1\n"
	"	call *%rsi\n	add $16, %rsp\n	pop %rbx\n	ret\n"
	"1:\n"
	"at plain_2\n"
	"	ret\n"
	"nf plain\n"
	"fn alloca\n"
	"	push %rbp\n	mov %rsp, %rbp\n	sub %rdi, %rsp\n"
	"at alloca_1\n"
	"	call *%rsi\n	leave\n"
	"at alloca_2\n"
	"	ret\n"
	"nf alloca\n"
	"fn enters\n"
	"	enter $32, $0\n"
	"at enters_1\n"
	"	leave\n"
	"at enters_2\n"
	"	ret\n"
	"nf enters\n"
	"fn realigned\n"
	"	lea 8(%rsp), %r10\n	and $-32, %rsp\n"
	"at realigned_1\n"
	"	pushq -8(%r10)\n	push %rbp\n	mov %rsp, %rbp\n	push %r10\n"
	"	push %rbx\n	sub $64, %rsp\n"
	"at realigned_2\n"
	"	call *%rdi\n"
	"at realigned_3\n"
	"	add $64, %rsp\n	pop %rbx\n	pop %r10\n	pop %rbp\n	lea -8(%r10), "
	"%rsp\n"
	"at realigned_4\n"
	"	ret\n"
	"nf realigned\n"
	/* As perlasm does: rsp at the entry in a word of the aligned frame. */
	"fn kept\n"
	"	mov %rsp, %rax\n	push %rbp\n	push %rbx\n	sub %rdi, %rsp\n	"
	"and $-64, %rsp\n"
	"	mov %rax, 24(%rsp)\n	mov %rdi, %rbp\n"
	"at kept_1\n"
	"	call *%rsi\n	mov 24(%rsp), %rsi\n	mov -8(%rsi), %rbp\n	mov -16(%rsi), "
	"%rbx\n"
	"	lea (%rsi), %rsp\n"
	"at kept_2\n"
	"	ret\n"
	"nf kept\n"
	/* A pointer to a local is no place of the frame after a call: it may have been changed. */
	"fn pointer\n"
	"	sub $24, %rsp\n	lea 8(%rsp), %rax\n	mov %rax, (%rsp)\n	call *%rdi\n"
	"	mov (%rsp), %rsp\n"
	"at pointer_1\n"
	"	ret\n"
	"nf pointer\n"
	"fn no_return\n"
	"	test %edi, %edi\n	jne 1f\n	push %rbx\n	sub $32, %rsp\n	call "
	"*%rsi\n"
	"1:\n"
	"at no_return_1\n"
	"	ret\n"
	"nf no_return\n"
	/* Two ways that do not agree, and no call to blame. */
	"fn conflict\n"
	"	test %edi, %edi\n	jne 1f\n	push %rbx\n"
	"1:\n"
	"at conflict_1\n"
	"	xor %eax, %eax\n	ret\n"
	"nf conflict\n"
	"fn table\n"
	"	push %rbx\n	lea 0f(%rip), %rdx\n	movslq (%rdx, %rdi, 4), %rax\n"
	"	add %rdx, %rax\n	jmp *%rax\n"
	"1:\n"
	"at table_1\n"
	"	pop %rbx\n	ret\n"
	"	.p2align 4\n"
	"2:\n"
	"at table_2\n"
	"	mov %rdi, %rax\n	pop %rbx\n	ret\n"
	"nf table\n"
	"0:	.long 1b - 0b, 2b - 0b\n"
	/* Two jumps that do not agree: who knows which leads there. */
	"fn tables\n"
	"	test %edi, %edi\n	jne 1f\n	jmp *(%rdx, %rdi, 8)\n"
	"1:	push %rbx\n	jmp *(%rdx, %rdi, 8)\n"
	"at tables_1\n"
	"	ret\n"
	"nf tables\n"
	"fn tail\n"
	"	push %rbx\n	pop %rbx\n	jmp *%rax\n	nop\n"
	"at tail_1\n"
	"	mov %rdi, %rax\n	ret\n"
	"nf tail\n"
	"fn first\n"
	"	xor %ebp, %ebp\n	mov (%rsp), %rdi\n"
	"at first_1\n"
	"	call *%rsi\n	hlt\n"
	"nf first\n"
	"fn probes\n"
	"	lea -12288(%rsp), %r11\n"
	"1:	sub $4096, %rsp\n"
	"at probes_1\n"
	"	orq $0, (%rsp)\n	cmp %r11, %rsp\n	jne 1b\n"
	"at probes_2\n"
	"	sub $8, %rsp\n	call *%rdi\n	add $12296, %rsp\n"
	"at probes_3\n"
	"	ret\n"
	"nf probes\n"
	"fn clobbers\n"
	"	mov %rdi, %rbp\n"
	"at clobbers_1\n"
	"	ret\n"
	"nf clobbers\n"
	"fn bytes\n"
	"	push %rax\n"
	"at bytes_1\n"
	"	.byte 0x06, 0x06\n"
	"nf bytes\n"
	"fn reads_pc\n"
	"	call 1f\n"
	"1:\n"
	"at reads_pc_1\n"
	"	pop %rax\n"
	"at reads_pc_2\n"
	"	ret\n"
	"nf reads_pc\n"
	"fn signal\n"
	"	mov $15, %rax\n"
	"at signal_1\n"
	"	syscall\n"
	"nf signal\n"
	"fn inner\n"
	"	sub $8, %rsp\n	call 1f\n	add $8, %rsp\n	ret\n"
	"1:\n"
	"at inner_1\n"
	"	push %rbx\n"
	"at inner_2\n"
	"	pop %rbx\n	ret\n"
	"nf inner\n");

struct rows {
	struct code_rows rows;
	uint64_t place;
	bool found;
	struct code_state state;
	bool known;
	int why;
	uint64_t last, leaves;
};

static int take_row(struct code_rows *self, uint64_t pc, const struct code_state *state, int why)
{
	struct rows *r = (struct rows *)self;

	assert_true(!r->last || pc > r->last);
	r->last = pc;
	if (pc > r->place)
		return 0;
	r->found = true;
	r->known = state != NULL;
	r->why = why;
	if (state)
		r->state = *state;
	return 0;
}

static int take_leaves(struct code_rows *self, uint64_t target, const struct code_state *state)
{
	((struct rows *)self)->leaves = target;
	return 0;
}

/* What holds at `place` of the function. */
static int look(const char *start, const char *end, const char *place, struct cfi_state *cfi)
{
	struct code_entry entry = {};
	struct code_function function = {.bytes = (const uint8_t *)start,
					 .size = (uint32_t)(end - start),
					 .address = (uint64_t)start,
					 .entries = &entry,
					 .n_entries = 1};
	struct rows rows = {.rows = {.row = take_row, .leaves = take_leaves},
			    .place = (uint64_t)place};
	struct code_decoder *decoder;

	assert_int_equal(code_decoder__new(&decoder), 0);
	assert_int_equal(code__run(decoder, &function, &rows.rows), 0);
	code_decoder__free(decoder);
	assert_true(rows.found);
	return rows.known ? code_state__cfi(&rows.state, cfi) : rows.why;
}

#define LOOK(name, place, cfi)                                                                     \
	({                                                                                         \
		extern const char code_test_##name[], code_test_##name##_end[],                    \
			code_test_##place[];                                                       \
		look(code_test_##name, code_test_##name##_end, code_test_##place, cfi);            \
	})

#define SAME 0, 0
#define LOST CFI_UNDEFINED, 0
#define AT(offset) CFI_OFFSET, offset

static void is_place(const struct cfi_location *place, unsigned how, int64_t offset)
{
	assert_int_equal(place->how, how);
	if (how != CFI_UNSPECIFIED && how != CFI_UNDEFINED)
		assert_int_equal(place->offset, offset);
}

/* CFA = register + offset; where rbp and rbx are. */
static void is(const struct cfi_state *cfi, unsigned reg, int64_t offset, unsigned fp,
	       int64_t fp_at, unsigned base, int64_t base_at)
{
	assert_int_equal(cfi->cfa, CFA_REGISTER);
	assert_int_equal(cfi->reg, reg);
	assert_int_equal(cfi->offset, offset);
	is_place(&cfi->places[CFI_RA], AT(-8));
	is_place(&cfi->places[CFI_FP], fp, fp_at);
	is_place(&cfi->places[CFI_BASE], base, base_at);
}

#define KNOWN(name, place, ...)                                                                    \
	do {                                                                                       \
		struct cfi_state cfi;                                                              \
		assert_int_equal(LOOK(name, place, &cfi), -1);                                     \
		is(&cfi, __VA_ARGS__);                                                             \
	} while (0)
#define UNKNOWN(name, place, reason)                                                               \
	do {                                                                                       \
		struct cfi_state cfi;                                                              \
		assert_int_equal(LOOK(name, place, &cfi), UNWIND_UNSUPPORTED_##reason);            \
	} while (0)

#define RSP UNWIND_SP
#define RBP UNWIND_BP

static void with_frame_pointer(void **state)
{
	KNOWN(frame, frame, RSP, 8, SAME, SAME);
	KNOWN(frame, frame_1, RSP, 16, AT(-16), SAME);
	KNOWN(frame, frame_2, RBP, 16, AT(-16), AT(-24));
	KNOWN(frame, frame_3, RSP, 8, SAME, SAME);
	KNOWN(alloca, alloca_1, RBP, 16, AT(-16), SAME);
	KNOWN(alloca, alloca_2, RSP, 8, SAME, SAME);
	KNOWN(enters, enters_1, RBP, 16, AT(-16), SAME);
	KNOWN(enters, enters_2, RSP, 8, SAME, SAME);
}

static void without(void **state)
{
	KNOWN(plain, plain_1, RSP, 32, SAME, AT(-16));
	KNOWN(plain, plain_2, RSP, 8, SAME, SAME);
	KNOWN(probes, probes_2, RSP, 12296, SAME, SAME);
	KNOWN(probes, probes_3, RSP, 8, SAME, SAME);
	KNOWN(probes, probes_1, 11, 12296, SAME, SAME); /* by r11, as gcc says it, too */
	KNOWN(clobbers, clobbers_1, RSP, 8, LOST, SAME);
	KNOWN(reads_pc, reads_pc_1, RSP, 16, SAME, SAME);
	KNOWN(reads_pc, reads_pc_2, RSP, 8, SAME, SAME);
	KNOWN(inner, inner_1, RSP, 8, SAME, SAME); /* called, not run into */
	KNOWN(inner, inner_2, RSP, 16, SAME, AT(-16));
}

static void aligned(void **state)
{
	struct cfi_state cfi;

	KNOWN(realigned, realigned_1, 10, 0, SAME, SAME);
	assert_int_equal(LOOK(realigned, realigned_2, &cfi), -1);
	assert_int_equal(cfi.cfa, CFA_DEREF); /* *(rbp - 8) */
	assert_int_equal(cfi.reg, RBP);
	assert_int_equal(cfi.offset, -8);
	assert_int_equal(cfi.outer, 0);
	is_place(&cfi.places[CFI_FP], CFI_MEMORY, 0);
	assert_int_equal(cfi.places[CFI_FP].reg, RBP);
	assert_int_equal(LOOK(realigned, realigned_3, &cfi), -1);
	assert_int_equal(cfi.cfa, CFA_DEREF);
	KNOWN(realigned, realigned_4, RSP, 8, SAME, SAME);
	assert_int_equal(LOOK(kept, kept_1, &cfi), -1);
	assert_int_equal(cfi.cfa, CFA_DEREF); /* *(rsp + 24) + 8 */
	assert_int_equal(cfi.reg, RSP);
	assert_int_equal(cfi.offset, 24);
	assert_int_equal(cfi.outer, 8);
	is_place(&cfi.places[CFI_FP], AT(-16));
	KNOWN(kept, kept_2, RSP, 8, SAME, SAME);
	UNKNOWN(pointer, pointer_1, CODE_STACK);
}

static void ways_that_meet(void **state)
{
	KNOWN(no_return, no_return_1, RSP, 8, SAME, SAME);
	UNKNOWN(conflict, conflict_1, CODE_STACK);
	KNOWN(table, table_1, RSP, 16, SAME, AT(-16));
	KNOWN(table, table_2, RSP, 16, SAME, AT(-16));
	UNKNOWN(tables, tables_1, CODE_REACHED);
	UNKNOWN(tail, tail_1, CODE_REACHED);
	UNKNOWN(first, first_1, CODE_FIRST);
	UNKNOWN(bytes, bytes_1, CODE_BYTES);
}

static void signal_frame(void **state)
{
	struct cfi_state cfi;
	uint64_t rule[2];

	assert_int_equal(LOOK(signal, signal_1, &cfi), -1);
	machine__rule(&cfi, true, rule);
	assert_int_equal(unwind_rule_kind(rule[0]), UNWIND_KIND_CONTEXT);
	assert_int_equal(unwind_rule_offset(rule[0]), UNWIND_CONTEXT_OFFSET);
}

/* A jump out of the function tells where it goes, and an entry can have a state. */
static void halves(void **state)
{
	/* push rbx; jmp +0x20; the other half: pop rbx; ret */
	static const uint8_t bytes[] = {0x53, 0xe9, 0x1a, 0, 0, 0}, half[] = {0x5b, 0xc3};
	struct code_entry entry = {};
	struct code_function function = {.bytes = bytes,
					 .size = sizeof(bytes),
					 .address = 0x1000,
					 .entries = &entry,
					 .n_entries = 1};
	struct rows rows = {.rows = {.row = take_row, .leaves = take_leaves}, .place = UINT64_MAX};
	struct code_decoder *decoder;
	struct cfi_state cfi;

	assert_int_equal(code_decoder__new(&decoder), 0);
	assert_int_equal(code__run(decoder, &function, &rows.rows), 0);
	assert_int_equal(rows.leaves, 0x1020);
	entry.state = &rows.state; /* before the jump, which is after it, too */
	function = (struct code_function){.bytes = half,
					  .size = sizeof(half),
					  .address = 0x1020,
					  .entries = &entry,
					  .n_entries = 1};
	struct rows other = {.rows = {.row = take_row}, .place = 0x1020};
	assert_int_equal(code__run(decoder, &function, &other.rows), 0);
	assert_int_equal(code_state__cfi(&other.state, &cfi), -1);
	is(&cfi, RSP, 16, SAME, AT(-16));
	code_decoder__free(decoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_frame_pointer),
		cmocka_unit_test(without),
		cmocka_unit_test(aligned),
		cmocka_unit_test(ways_that_meet),
		cmocka_unit_test(signal_frame),
		cmocka_unit_test(halves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
