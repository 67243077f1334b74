/* SPDX-License-Identifier: MIT */
/* Numba's mangled names. The expected texts were printed by Numba 0.56.4 and 0.68.1 (FunctionDescriptor.mangled_name
 * and str() of its argument types); tests/live/numba_names.sh compares hundreds more with a real Numba. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbols/numba.h"
#include "symbols/symbols.h"

#define TAGS "B2v1B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3d"

static void shown(const char *name, bool jit, const char *expected)
{
	struct buf out = {};

	assert_int_equal(symbol__display(name, strlen(name), jit, &out), 0);
	assert_int_equal(buf__append(&out, "", 1), 0);
	assert_string_equal(out.data, expected);
	buf__free(&out);
}

static void as_numba_spells(void **state)
{
	shown("_ZN8__main__3foo" TAGS "E5ArrayIdLi1E1C7mutable7alignedE", false,
	      "__main__.foo(array(float64, 1d, C))");
	shown("_ZN7cpython8__main__3foo" TAGS "E5ArrayIdLi2E1F8readonly9unalignedEx", false,
	      "__main__.foo(unaligned readonly array(float64, 2d, F), int64) [cpython wrapper]");
	shown("cfunc._ZN8__main__3foo" TAGS "E8UniTupleIxLi2EE5TupleIxdE", false,
	      "__main__.foo(UniTuple(int64 x 2), Tuple(int64, float64)) [cfunc wrapper]");
	/* What threads run of @vectorize(target="parallel"), of @guvectorize and prange. */
	shown(".kernel.140242954281152___ufunc__._ZN8__main__3vec" TAGS "Ed", true, "__main__.vec(float64) [parallel kernel]");
	shown(".kernel.140242954281152___gufunc__._ZN8__main__3vec" TAGS "Ed", true, "__main__.vec(float64) [parallel kernel]");
	shown("_ZN8__main__4main12_3clocals_3e12_3clambda_3e" TAGS "Ebhatsjiyxfd", false,
	      "__main__.main.<locals>.<lambda>(bool, uint8, int8, uint16, int16, uint32, int32, "
	      "uint64, int64, float32, float64)");
	shown("_ZN8__main__3foo" TAGS "E5TupleDh", false, "__main__.foo(Tuple(), float16)");
	shown("_ZN8__main__3foo" TAGS "EN21omitted_28default_3d16_25_29E", false,
	      "__main__.foo(omitted(default=1.25))");
	shown("_ZN8__main__9caf_c3_a9" TAGS "E", false, "__main__.caf\u00e9()");
	shown("_ZN8__main__3gen4nextE36int64_20generator_28func_3d_3c_3e_29", true,
	      "__main__.gen.next(int64 generator(func=<>))");
	/* 0.54 and before: no tags. */
	shown("_ZN8__main__7foo_241Ex", true, "__main__.foo(int64)");
	shown("_ZN4test8case_241Ev", false, "test::case_241()");
}

static void loses_and_says_so(void **state)
{
	struct numba_name name = {};
	const char *record = "_ZN8__main__3foo" TAGS "E5ArrayI6RecordILi7EELi1E1C7mutable7alignedE";

	assert_int_equal(numba__decode(record, strlen(record), false, &name), 0);
	assert_true(name.lossy);
	assert_int_equal(name.version, 1);
	assert_int_equal(name.signature.len, strlen("array(Record<7>, 1d, C)"));
	assert_memory_equal(name.signature.data, "array(Record<7>, 1d, C)", name.signature.len);
	assert_memory_equal(name.function.data, "__main__.foo", name.function.len);
	/* A class named Klass_28, or a bracket that is never closed? It stays as it is. */
	record = "_ZN8__main__3foo" TAGS "E18type_28Klass_28_29";
	assert_int_equal(numba__decode(record, strlen(record), false, &name), 0);
	assert_true(name.lossy);
	assert_memory_equal(name.signature.data, "type_28Klass_28_29", name.signature.len);
	numba_name__free(&name);
}

static void others_are_not_taken(void **state)
{
	static const char *const names[] = {"_ZN3foo3barEi",
					    "_ZNK4llvm5Value7getTypeEv",
					    "_ZN3fooB5cxx11Ei",
					    "_Z3fooi",
					    "main",
					    "_ZN3fooB2v1Ei",
					    "_ZN",
					    "_Z",
					    "",
					    "_ZN3fo",
					    "_ZN8__main__3foo" TAGS,
					    "cfunc.",
					    "_ZN8__main__3foo" TAGS "E5ArrayI",
					    "_ZN8__main__3foo" TAGS "E99999999999x"};
	struct numba_name name = {};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_int_equal(numba__decode(names[i], strlen(names[i]), false, &name), -ENOENT);
	numba_name__free(&name);
}

/* Brackets within brackets without end, and what expands. */
static void bounded(void **state)
{
	struct numba_name name = {};
	size_t len = 200000, at;
	char *text = malloc(len + 64);

	at = (size_t)sprintf(text, "_ZN8__main__3foo" TAGS "E");
	while (at < len)
		at += (size_t)sprintf(text + at, "5ArrayI");
	assert_int_equal(numba__decode(text, at, false, &name), -ENOENT);
	numba_name__free(&name);
	free(text);
}

/* c++filt and the Rust compiler say so. */
static void other_languages(void **state)
{
	shown("_ZN3foo3barEi.cold", false, "foo::bar(int) [clone .cold]");
	shown("_ZNK4llvm5Value7getTypeEv", true, "llvm::Value::getType() const");
	shown("_RNvC7mycrate3foo", false, "mycrate::foo");
	shown("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", false, "core::fmt::Formatter::pad");
	shown("foo.part.0.constprop.1", false, "foo [clone .part.0] [clone .constprop.1]");
	shown("foo.bar", false, "foo.bar");
	shown("memcpy@plt", false, "memcpy@plt");
	shown("_ZdlPv@plt", false, "operator delete(void*)@plt");
	shown("_Znonsense", false, "_Znonsense");
	shown("", false, "");
	shown(".", false, ".");
}

/* S_ is f, S0_ is a, S1_ is a<int, int>; each further one names the one before
 * twice: 2^30 times "int", which takes minutes and gigabytes to print. */
static void no_bombs(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char text[4096] = "_Z1fI1aIiiE";
	size_t at = strlen(text);
	unsigned i;

	for (i = 1; i < 30; i++)
		at += (size_t)sprintf(text + at, "S0_IS%c_S%c_E", digits[i], digits[i]);
	strcpy(text + at, "Evv");
	shown(text, false, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_numba_spells),	cmocka_unit_test(loses_and_says_so),
		cmocka_unit_test(others_are_not_taken), cmocka_unit_test(bounded),
		cmocka_unit_test(other_languages),	cmocka_unit_test(no_bombs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
