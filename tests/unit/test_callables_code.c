/* SPDX-License-Identifier: MIT */
/* What machine code says of callables: functions that objects have a pointer to (instances.c), and dispatchers. The code is
 * made by the assembler that builds this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "classes/search.h"

#define OFFSET 0x48u /* of the function in an object */
#define TYPE 0x5000u /* vaddr of the type in programs that are not moved */

/* Code is a file of its own: what is at vaddr v is code[v]. */
extern const uint8_t code[], code_end[];
#define FUNCTIONS(X) X(makes) X(vectorcall) X(makes_another) X(unused) X(dispatch) X(dispatch_far) X(method) X(body) X(switches) X(tail) X(exit_code)
#define DECLARE(name) extern const uint8_t name[], name##_end[];
FUNCTIONS(DECLARE)
#undef DECLARE
#define AT(label) ((uint64_t)((label) - code))

/* clang-format off */
#define F(name, body) ".balign 16, 0xcc\n" #name ":\n" body #name "_end:\n"
__asm__(".pushsection .rodata\n.globl code, code_end\n.balign 16\ncode:\n.fill 16, 1, 0xcc\n"
	/* as partial_new() of Debian's CPython 3.14: pto->vectorcall = PyVectorcall_Function(fn) ? partial_vectorcall : NULL */
	F(makes, "mov $0x5000, %edi\n lea vectorcall(%rip), %rdx\n test %rax, %rax\n cmovne %rdx, %rax\n mov %rax, 0x48(%r14)\n ret\n")
	F(vectorcall, "push %rbp\n call *%rax\n pop %rbp\n ret\n")
	/* the address is overwritten before another one is stored */
	F(makes_another, "mov $0x5000, %edi\n lea unused(%rip), %rdx\n lea code(%rip), %rdx\n mov %rdx, 0x48(%r14)\n ret\n")
	F(unused, "ret\n")
	F(dispatch, "mov 0x38(%rdi), %rax\n test %rax, %rax\n je tail\n jmp *%rax\n")
	F(dispatch_far, "mov 8(%rdi), %rax\n jmp *0x10(%rax)\n")
	F(method, "xor %edx, %edx\n jmp body\n")
	F(body, "mov $1, %eax\n ret\n")
	/* through a table of the file: a switch */
	F(switches, "jmp *code(%rip)\n")
	F(tail, "mov $2, %eax\n ret\n")
	F(exit_code, "mov 8(%rdi), %rax\n call *%rax\n ret\n")
	"code_end:\n.fill 64, 1, 0xcc\n.popsection\n");
/* clang-format on */

struct module {
	struct elf_bytes file;
	struct data data;
	struct code_piece pieces[16];
	struct code_frames frames;
	struct callables out;
	struct search search;
};

static void open_module(struct module *module)
{
	*module = (struct module){};
	elf_bytes__init_memory(&module->file, code, (size_t)(code_end - code));
	module->data.source = &module->file;
	module->data.segments[module->data.n_segments++] = (struct data_segment){.end = AT(code_end), .code = true};
	module->frames.pieces = module->pieces;
#define PIECE(name) module->pieces[module->frames.n++] = (struct code_piece){.start = AT(name), .size = AT(name##_end) - AT(name)};
	FUNCTIONS(PIECE)
#undef PIECE
	module->search = (struct search){.data = &module->data, .out = &module->out};
}

static void close_module(struct module *module)
{
	free(module->search.found);
	callables__free(&module->out);
}

static void add_row(struct module *module, const uint8_t *start, const uint8_t *end, const char *name, enum callable_kind kind)
{
	struct callables *out = &module->out;

	out->rows = realloc(out->rows, (out->n + 1) * sizeof(*out->rows));
	out->rows[out->n++] = (struct callable){.of = out, .start = AT(start), .end = AT(end), .name = name, .kind = kind};
	out->capacity = out->n;
}

static const struct callable *row_of(const struct module *module, const uint8_t *start)
{
	const struct callable *row = callables__at(&module->out, AT(start), NULL);

	return row && row->start == AT(start) ? row : NULL;
}

static void objects_have_functions(void **state)
{
	struct module module;

	open_module(&module);
	search__instance(&module.search, OFFSET, TYPE, 0, "mine.partial");
	assert_int_equal(search__instances(&module.search, &module.frames), 0);
	assert_int_equal(module.search.n, 1);
	assert_int_equal(module.search.found[0].address, AT(vectorcall));
	assert_string_equal(module.search.found[0].name, "mine.partial.__call__");
	assert_int_equal(module.search.found[0].kind, CALLABLE_INSTANCE);
	close_module(&module);
}

static void objects_of_other_types(void **state)
{
	struct module module;

	open_module(&module);
	search__instance(&module.search, OFFSET, TYPE + 8, 0, "mine.other"); /* no code refers to it */
	search__instance(&module.search, OFFSET + 8, TYPE, 0, "mine.partial");
	assert_int_equal(search__instances(&module.search, &module.frames), 0);
	assert_int_equal(module.search.n, 0);
	close_module(&module);
}

/* Sequences of compilers between the load of an address, and its store: `expected` is the offset, 0: it is not stored. */
/* clang-format off */
#define SEQUENCES(X) \
	X(by_lea, 0x30, "lea vectorcall(%rip), %rax\n mov %rax, 0x30(%rbx)\n") \
	X(by_high_lea, 0x30, "lea vectorcall(%rip), %r13\n mov %r13, 0x30(%r12)\n") \
	X(by_far, 0x130, "lea vectorcall(%rip), %rax\n mov %rax, 0x130(%rbx)\n") \
	X(by_move, 0x30, "lea vectorcall(%rip), %rax\n mov %rax, %r9\n mov %r9, 0x30(%rbx)\n") \
	X(by_condition, 0x30, "lea vectorcall(%rip), %r8\n cmove %r8, %rcx\n mov %rcx, 0x30(%rbx)\n") \
	X(by_number, 0x30, "mov $0x6e3020, %edx\n mov %rdx, 0x30(%rbx)\n") \
	X(by_high_number, 0x30, "mov $0x6e3020, %r10d\n mov %r10, 0x30(%rbx)\n") \
	X(by_number_and_condition, 0x48, "mov $0x6e3020, %edx\n mov -8(%rbp), %r12\n test %rax, %rax\n cmovne %rdx, %rax\n mov %rax, 0x48(%rbx)\n") \
	X(at_once, 0x30, "movq $0x6e3020, 0x30(%rbx)\n") \
	X(at_once_far, 0x130, "movq $0x6e3020, 0x130(%r12)\n") \
	X(overwritten, 0, "lea vectorcall(%rip), %rax\n lea code(%rip), %rax\n mov %rax, 0x30(%rbx)\n") \
	X(of_another, 0, "lea vectorcall(%rip), %rax\n mov %rcx, 0x30(%rbx)\n") \
	X(the_other_way, 0, "lea vectorcall(%rip), %rax\n mov %rcx, %rax\n cmove %rdx, %rcx\n mov %rcx, 0x30(%rbx)\n")
#define SEQUENCE(name, offset, body) __asm__(".pushsection .rodata\n" #name ":\n" body ".fill 64, 1, 0xcc\n.popsection\n"); extern const uint8_t name[];
SEQUENCES(SEQUENCE)
#undef SEQUENCE
/* clang-format on */

static void stores_of_an_address(void **state)
{
	static const struct {
		const char *name;
		const uint8_t *code;
		uint64_t offset;
	} cases[] = {
#define CASE(name, offset, body) {#name, name, offset},
		SEQUENCES(CASE)
#undef CASE
	};
	uint64_t offsets[MACHINE_STORES], function;
	uint32_t i, n;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_true(machine__address_loads(cases[i].code) & 1);
		assert_int_not_equal(machine__address(cases[i].code, AT(cases[i].code), &function), 0);
		if (function != 0x6e3020 && function != AT(vectorcall))
			fail_msg("%s: %llx", cases[i].name, (unsigned long long)function);
		n = machine__stores(cases[i].code, offsets);
		if (cases[i].offset ? n != 1 || offsets[0] != cases[i].offset : n)
			fail_msg("%s: %u stores, at %llx", cases[i].name, n, (unsigned long long)offsets[0]);
	}
}

static void jumps_through_pointers(void **state)
{
	struct module module;
	const struct callable *row;

	open_module(&module);
	add_row(&module, method, method_end, "mine.method", CALLABLE_METHOD);
	add_row(&module, body, body_end, NULL, CALLABLE_METHOD);
	add_row(&module, tail, tail_end, NULL, CALLABLE_METHOD);
	add_row(&module, exit_code, exit_code_end, CALLABLE_MACHINERY_NAME, CALLABLE_MACHINERY);
	assert_int_equal(search__dispatchers(&module.search, &module.frames), 0);
	assert_int_equal(module.out.n, 6);
	row = row_of(&module, dispatch);
	assert_true(row && row->dispatches && row->kind == CALLABLE_DISPATCHER && !row->name);
	assert_int_equal(row->end, AT(dispatch_end));
	row = row_of(&module, dispatch_far);
	assert_true(row && row->dispatches);
	assert_null(row_of(&module, switches));
	assert_null(row_of(&module, vectorcall)); /* what calls has a frame */
	assert_false(row_of(&module, exit_code)->dispatches);
	assert_true(row_of(&module, tail)->dispatched); /* the dispatcher leads there itself, too */
	assert_false(row_of(&module, body)->dispatched);
	close_module(&module);
}

/* Machinery that is known by name dispatches as others; a method with a row of its own does not, and a row that begins elsewhere is not
 * the function's. */
static void rows_that_are_there(void **state)
{
	struct module module;

	open_module(&module);
	add_row(&module, dispatch, dispatch_end, CALLABLE_MACHINERY_NAME, CALLABLE_MACHINERY);
	add_row(&module, dispatch_far, dispatch_far_end, "mine.method", CALLABLE_METHOD);
	assert_int_equal(search__dispatchers(&module.search, &module.frames), 0);
	assert_int_equal(module.out.n, 2);
	assert_true(row_of(&module, dispatch)->dispatches);
	assert_int_equal(row_of(&module, dispatch)->kind, CALLABLE_MACHINERY);
	assert_false(row_of(&module, dispatch_far)->dispatches);
	close_module(&module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_have_functions),
		cmocka_unit_test(objects_of_other_types),
		cmocka_unit_test(stores_of_an_address),
		cmocka_unit_test(jumps_through_pointers),
		cmocka_unit_test(rows_that_are_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
