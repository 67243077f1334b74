/* SPDX-License-Identifier: MIT */
/* Shortening names and paths to the width of a column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "report/fit.h"

static void check(const char *name, int width, const char *expected)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(fit__name(out, name, width), !strstr(expected, "…"));
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static void names(void **state)
{
	check("run_pass", 10, "run_pass  ");
	check("run_pass", -10, "run_pass");
	check("run_pass", 8, "run_pass");
	/* Overloads differ at the end. */
	check("ns::get(unsigned int, Loc const&, Value, Flags)", -21, "ns::get(unsign…Flags)");
	check("größere_größen", -9, "größer…en");
}

static void templates(void **state)
{
	check("std::map<int, std::pair<int const, A*> >::erase(int const&)", -40, "std::map<…>::erase(int const&)");
	check("std::map<int, std::pair<int const, A*> >::erase(int const&)", 34, "std::map<…>::erase(int const&)    ");
	/* What fits is left as it is. */
	check("std::map<int, int>::erase(int)", -40, "std::map<int, int>::erase(int)");
	/* These are no templates. */
	check("make.<locals>.foo.<locals>.bar", -28, "make.<locals>.foo.…cals>.bar");
	check("A::operator<(A const&, A const&)", -20, "A::operator<(…onst&)");
	check("A::operator<<(A<int>, B)", -22, "A::operator<<(A<…>, B)");
}

static void not_closed(void **state)
{
	check("odd<name that does not end", -12, "odd<name…end");
	check("f<x->y, z>::g(int, int, int)", -12, "f<…>::g(…nt)");
}

static void long_ones(void **state)
{
	char name[5000];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	check(name, -9, "xxxxxx…xx");
	memset(name + 2, '<', sizeof(name) - 3);
	check(name, -9, "xx<<<<…<<");
}

static void check_lines(const char *text, int width, const char *expected)
{
	char *got = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&got, &len);

	assert_non_null(out);
	fit__lines(out, text, width);
	fclose(out);
	assert_string_equal(got, expected);
	free(got);
}

static void lines(void **state)
{
	check_lines("one two three\n\nfour\n", 13, "one two three\n\nfour\n");
	check_lines("one two three\nfour", 12, "one two\nthree\nfour");
	/* Indented as the line is; blanks around a break go. */
	check_lines("    one two   three four\n", 12, "    one two\n    three\n    four\n");
	/* A word that is too long stays whole. */
	check_lines("  a_long_word b\n", 6, "  a_long_word\n  b\n");
	/* A colour takes no columns, nor do the further bytes of a character. */
	check_lines("\033[1mbold\033[0m größe\n", 10, "\033[1mbold\033[0m größe\n");
	check_lines("", 10, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(templates),
		cmocka_unit_test(not_closed),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
