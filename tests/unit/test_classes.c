/* SPDX-License-Identifier: MIT */
/* Classes of samples, from frames written by hand. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "classes/bytecode.h"
#include "classes/callables.h"
#include "classes/classes.h"

#define PY(name) {ORIGIN_PYTHON, name, "", "/x.py"}
#define LIB(name) {ORIGIN_PYTHON, name, "", "<frozen importlib._bootstrap_external>"}
#define CORE(name) {ORIGIN_INTERPRETER, name, "python3.11", ""}
#define SO(name, module) {ORIGIN_NATIVE, name, module, ""}
#define CALL(name) {ORIGIN_CALL, name, "", ""}
#define JIT(name) {ORIGIN_JIT, name, "JIT", ""}
#define NOTE(name) {ORIGIN_NOTE, name, "", ""}
#define KERNEL(name) {ORIGIN_KERNEL, name, "kernel", ""}

struct row {
	enum class_origin origin;
	const char *name, *module, *file;
};

struct scene {
	struct row rows[10]; /* innermost first, the whole stack */
	uint32_t kernel;
	enum class_kind kind;
	const char *name;
};

static const struct scene scenes[] = {
	{{PY("f"), PY("main")}, 0, CLASS_INTERPRETER, ""},
	{{CORE("PyObject_GetAttr"), PY("f")}, 0, CLASS_INTERPRETER, ""},
	{{CORE("_PyEval_EvalFrameDefault"), PY("f")}, 0, CLASS_INTERPRETER, ""},
	{{SO("memcpy", "libc.so.6"), CORE("PyUnicode_Concat"), PY("f")}, 0, CLASS_INTERPRETER, ""},
	{{SO("memcpy", "libc.so.6"), CORE("list_sort"), CALL("list.sort"), PY("f")}, 0, CLASS_CALL, "list.sort"},
	{{CORE("long_add"), CALL("int.__add__"), PY("f")}, 0, CLASS_CALL, "int.__add__"},
	{{CORE("x"), CALL("sorted"), CORE("y"), CALL("functools.partial.__call__"), PY("f")}, 0, CLASS_CALL, "sorted"},
	{{SO("inner", "foo.so"), SO("outer", "foo.so"), CORE("vectorcall"), PY("f")}, 0, CLASS_CALL, "outer"},
	{{SO("work", "libwork.so"), SO("ffi_call", "libffi.so.8"), SO("PyCFuncPtr_call", "_ctypes.cpython-311-x86_64-linux-gnu.so"),
	  CALL("_ctypes.PyCFuncPtr.__call__"), PY("f")}, 0, CLASS_CALL, "work"},
	{{SO("llvm::run", "libLLVM-14.so.1"), SO("LLVMPY_Run", "libllvmlite.so"), PY("f")}, 0, CLASS_COMPILER, "LLVM"},
	{{SO("malloc", "libc.so.6"), SO("llvm::run", "libLLVM-14.so.1"), PY("f")}, 0, CLASS_COMPILER, "LLVM"},
	{{PY("callback"), SO("llvm::run", "libLLVM-14.so.1"), PY("f")}, 0, CLASS_INTERPRETER, ""},
	{{JIT("f(int64)"), SO("call", "_dispatcher.cpython-311-x86_64-linux-gnu.so"), PY("f")}, 0, CLASS_JIT, "f(int64)"},
	{{SO("typeof", "_dispatcher.cpython-311-x86_64-linux-gnu.so"), PY("f")}, 0, CLASS_DISPATCH, "Numba"},
	{{CORE("PyLong_AsLongLong"), JIT("f(int64) [cpython wrapper]"), SO("call", "_dispatcher.cpython-311-x86_64-linux-gnu.so"), PY("f")}, 0,
	 CLASS_DISPATCH, "Numba"},
	{{JIT("NRT_decref"), JIT("f(int64) [cpython wrapper]"), PY("f")}, 0, CLASS_DISPATCH, "Numba"},
	{{SO("NRT_Allocate", "_nrt_python.cpython-311-x86_64-linux-gnu.so"), JIT("f(int64)"), PY("f")}, 0, CLASS_JIT, "f(int64)"},
	{{CORE("_PyObject_MakeTpCall"), CALL("_dispatcher.Dispatcher.__call__"), PY("f")}, 0, CLASS_DISPATCH, "Numba"},
	{{SO("exp", "libm.so.6"), JIT("f(float64)"), PY("f")}, 0, CLASS_JIT, "f(float64)"},
	{{CORE("dict_traverse"), CORE("gc_collect_main.constprop.0"), CORE("list_append"), CALL("list.append"), PY("f")}, 0, CLASS_GC, ""},
	{{SO("traverse", "foo.so"), CORE("(GC)"), PY("f")}, 0, CLASS_GC, ""},
	{{CORE("visit_decref"), CORE("collect [clone .constprop.0]"), CALL("gc.collect"), PY("f")}, 0, CLASS_GC, ""},
	{{PY("__del__"), CORE("gc_collect_main"), PY("f")}, 0, CLASS_INTERPRETER, ""},
	{{SO("read", "libc.so.6"), CORE("os_read"), CALL("posix.read"), PY("f")}, KERNEL_CALL, CLASS_KERNEL, "read"},
	{{SO("__GI___libc_write", "libc.so.6"), PY("f")}, KERNEL_CALL, CLASS_KERNEL, "write"},
	{{SO("open64", "libc.so.6"), PY("f")}, KERNEL_NUMBERED + SYS_openat, CLASS_KERNEL, "openat"},
	{{SO("x", "libc.so.6"), PY("f")}, KERNEL_NUMBERED + 4095, CLASS_KERNEL, "x"},
	{{SO("memset", "libc.so.6"), PY("f")}, KERNEL_FAULT, CLASS_KERNEL, "page fault"},
	{{KERNEL("vfs_read"), KERNEL("__x64_sys_pread64"), KERNEL("entry_SYSCALL_64_after_hwframe"), SO("pread", "libc.so.6"), PY("f")},
	 KERNEL_CALL, CLASS_KERNEL, "pread64"},
	{{KERNEL("handle_mm_fault"), KERNEL("exc_page_fault"), KERNEL("asm_exc_page_fault"), PY("f")}, KERNEL_FAULT, CLASS_KERNEL,
	 "page fault"},
	{{LIB("FileFinder.find_spec"), LIB("_find_and_load"), PY("f")}, 0, CLASS_IMPORT, "find"},
	{{CORE("r_object"), CALL("marshal.loads"), LIB("_compile_bytecode"), LIB("SourceLoader.get_code"), LIB("_find_and_load"), PY("f")},
	 0, CLASS_IMPORT, "unmarshal"},
	{{PY("<module>"), LIB("_call_with_frames_removed"), LIB("_LoaderBasics.exec_module"), LIB("_find_and_load"), PY("f")}, 0, CLASS_IMPORT,
	 "execute"},
	{{CORE("x"), CALL("list.sort"), PY("helper"), PY("<module>"), LIB("exec_module"), LIB("_find_and_load"), PY("f")}, 0, CLASS_IMPORT,
	 "execute"},
	{{NOTE("(unknown native code)"), PY("f")}, 0, CLASS_UNKNOWN, "(unknown native code)"},
	{{SO("worker", "libpool.so"), SO("start_thread", "libc.so.6")}, 0, CLASS_CALL, "worker"},
};

static void scenes_have_their_classes(void **state)
{
	enum import_phase phases[11];
	struct class_frame frames[10];
	struct class_result result;
	uint32_t i, j, n;

	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		const struct scene *scene = &scenes[i];
		struct class_input in = {.frames = frames, .kernel = scene->kernel};

		for (n = 0; n < 10 && scene->rows[n].name; n++)
			;
		phases[n] = IMPORT_NO;
		for (j = n; j; j--) {
			const struct row *row = &scene->rows[j - 1];
			struct trait trait = class__trait(row->origin, row->name, row->module, row->file);

			frames[j - 1] = (struct class_frame){trait, row->name, row->module};
			phases[j - 1] = class__import(phases[j], trait);
		}
		in.import = phases[0];
		for (j = 0; j < n && scene->rows[j].origin != ORIGIN_PYTHON; j++)
			;
		in.n = j < n ? j + 1 : n;
		class__of(&in, &result);
		if (result.kind != scene->kind)
			fail_msg("scene %u: %s, not %s", i, class__name(result.kind), class__name(scene->kind));
		assert_string_equal(result.name, scene->name);
	}
}

/* def f(x): return x.upper(y.lower()), as dis shows it in 3.8: co_names = (y, upper, lower) with y global. */
static void names_before_a_call(void **state)
{
	static const uint8_t code[] = {
		124, 0, /* LOAD_FAST x */
		160, 1, /* LOAD_METHOD upper */
		116, 0, /* LOAD_GLOBAL y */
		160, 2, /* LOAD_METHOD lower */
		161, 0, /* CALL_METHOD */
		161, 1, /* CALL_METHOD */
		23, 0,  /* BINARY_ADD */
		83, 0,  /* RETURN_VALUE */
	};
	struct bytecode_site site;

	bytecode__site(8, code, sizeof(code), 8, &site);
	assert_int_equal(site.kind, OPCODE_CALL);
	assert_int_equal(site.n, 3);
	assert_int_equal(site.names[0], 2);
	assert_int_equal(site.names[1], 0);
	assert_int_equal(site.names[2], 1);
	assert_true(site.exact && site.named);
	assert_int_equal(site.own, 2);
	assert_int_equal(site.owner, 0);
	assert_true(site.of_global);
	bytecode__site(8, code, sizeof(code), 10, &site);
	assert_true(site.exact && site.named);
	assert_int_equal(site.own, 1);
	assert_false(site.owned); /* an attribute of what no name loaded */
	bytecode__site(8, code, sizeof(code), 12, &site);
	assert_int_equal(site.kind, OPCODE_OPERATOR);
	bytecode__site(8, code, sizeof(code), 14, &site);
	assert_int_equal(site.kind, OPCODE_OTHER);
	bytecode__site(7, code, sizeof(code), 8, &site);
	assert_int_equal(site.kind, OPCODE_OTHER);
	bytecode__site(8, code, 1, 8, &site);
	assert_int_equal(site.n, 0);
}

/* ord(letter) and big.bit_length() as 3.11 specialised them; dis with adaptive=True shows it. */
static void specialised_calls(void **state)
{
	static const uint8_t code[] = {
		48, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                          /* LOAD_GLOBAL_BUILTIN NULL + co_names[0] */
		55, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                          /* LOAD_GLOBAL co_names[1] */
		76, 1, 0, 0,                                                                  /* PRECALL_NO_KW_BUILTIN_O */
		22, 1, 0, 0, 0, 0, 0, 0, 0, 0,                                                /* CALL_ADAPTIVE */
		55, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                          /* LOAD_GLOBAL co_names[2] */
		58, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,            /* LOAD_METHOD_NO_DICT co_names[3] */
		81, 0, 0, 0,                                                                  /* PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS */
		22, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                                /* CALL_ADAPTIVE */
		100, 0, 114, 4, 100, 1,                                                       /* a jump among arguments */
		76, 1, 0, 0,
	};
	struct bytecode_site site;

	bytecode__site(11, code, sizeof(code), 24, &site);
	assert_true(site.exact && site.named);
	assert_int_equal(site.own, 0);
	assert_int_equal(site.builtin, BUILTIN_YES);
	bytecode__site(11, code, sizeof(code), 28, &site);
	assert_int_equal(site.own, 0);
	bytecode__site(11, code, sizeof(code), 72, &site);
	assert_int_equal(site.own, 3);
	assert_int_equal(site.owner, 2);
	assert_int_equal(site.builtin, BUILTIN_ATTRIBUTE);
	assert_int_equal(site.pointer, 64);
	assert_int_equal(code[site.pointer], 1);
	bytecode__site(11, code, sizeof(code), 92, &site);
	assert_int_equal(site.kind, OPCODE_CALL);
	assert_false(site.exact);
	assert_int_equal(site.n, 4);
}

/* The interpreter that builds this has them; its own tables are compared with what it says in tests/live/callees.py. */
static void a_module_that_is_no_extension(void **state)
{
	struct callables callables;
	struct elf_bytes file;
	int fd = open("/proc/self/exe", O_RDONLY);

	assert_int_equal(elf_bytes__init_fd(&file, fd), 0);
	assert_int_equal(callables__find(&file, &callables), -ENOENT);
	close(fd);
}

/* Each address of a stretch has the same answer, and those beside it another, or nothing to tell them apart. */
static void stretches_of_callables(void **state)
{
	struct callable rows[] = {{.start = 3, .end = 5}, {.start = 5, .end = 9}, {.start = 12, .end = 20}, {.start = 15, .end = 16}};
	uint32_t n;

	for (n = 0; n <= 4; n++) {
		const struct callables callables = {.rows = rows, .n = n};

		for (uint64_t vaddr = 1; vaddr < 24; vaddr++) {
			struct range in = {1, 24};
			const struct callable *found = callables__at(&callables, vaddr, &in);
			uint64_t at;

			assert_true(1 <= in.start && in.start <= vaddr && vaddr < in.end && in.end <= 24);
			for (at = in.start; at < in.end; at++)
				assert_ptr_equal(callables__at(&callables, at, NULL), found);
			if (found && found->end != 20) /* the whole of it, but where another begins in it */
				assert_int_equal(in.end - in.start, found->end - found->start);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scenes_have_their_classes),
		cmocka_unit_test(names_before_a_call),
		cmocka_unit_test(specialised_calls),
		cmocka_unit_test(a_module_that_is_no_extension),
		cmocka_unit_test(stretches_of_callables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
