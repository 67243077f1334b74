/* SPDX-License-Identifier: MIT */
/* The language of rules: what rules mean, and where which errors are reported. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "rules/rules.h"

static const char small[] = "# nothing\n"
			    "compiler Small\n"
			    "own */small/*\n"
			    "strip Pass\n"
			    "group \"the two\" One* Two\n"
			    "unit\n"
			    "\tfile */small/main.py */small/other.py\n"
			    "\tfunction Driver.compile\n"
			    "\thas args\n"
			    "\tname func.__name__ | \"unnamed\"\n"
			    "\tsignature args.*.name\n"
			    "pass\n"
			    "\tnative ns::Model<*>::run(*\n"
			    "\tnot *Adaptor*\n"
			    "\tname @template:2\n"
			    "pass\n"
			    "\tnative *::runOnFunction(*\n"
			    "\tname @class\n";

static struct rules *parse(const char *text)
{
	struct rules_error error = {};
	struct rules *rules;

	assert_int_equal(rules__new(&rules), 0);
	if (rules__parse(rules, "test.rules", text, strlen(text), &error))
		fail_msg("%u:%u: %s", error.line, error.column, error.sentence);
	return rules;
}

static void refused(const char *text, uint32_t line, uint32_t column)
{
	struct rules_error error = {};
	struct rules *rules = parse(small);

	assert_int_equal(rules__parse(rules, "bad.rules", text, strlen(text), &error), -EBADMSG);
	assert_string_equal(error.file, "bad.rules");
	assert_true(strlen(error.sentence) > 10);
	if (error.line != line || error.column != column)
		fail_msg("%u:%u: %s; not at %u:%u", error.line, error.column, error.sentence, line, column);
	/* Nothing of it was loaded, nothing of what was there is gone. */
	assert_int_equal(rules__compilers(rules), 1);
	assert_int_equal(rules__count(rules), 3);
	assert_int_equal(rules__python(rules, "/x/small/main.py", "Driver.compile", NULL), 0);
	rules__free(rules);
}

/* Each begin of a text, in memory that ends with it: sanitizers see it if the parser reads on. */
static void ends_with_its_text(void **state)
{
	static const char values[] = "compiler X\nunit\n\tnative f\n\tsignature a.*.b.@symbol | @template:1 + \"x\"\n\tname a.";
	static const char *const texts[] = {small, values};
	size_t i, len;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (len = strlen(texts[i]); len; len--) {
			char *exact = memcpy(malloc(len), texts[i], len);
			struct rules_error error;
			struct rules *rules;

			assert_int_equal(rules__new(&rules), 0);
			rules__parse(rules, "test.rules", exact, len, &error);
			rules__free(rules);
			free(exact);
		}
}

static void says(void **state)
{
	struct rules *rules = parse(small);
	const struct rule *rule = rules__get(rules, 0);

	assert_int_equal(rules__compilers(rules), 1);
	assert_string_equal(rules__compiler(rules, 0)->name, "Small");
	assert_int_equal(rule->kind, RULE_UNIT);
	assert_int_equal(rule->line, 6);
	assert_int_equal(rule->files.n, 2);
	assert_int_equal(rule->name.n, 2);
	assert_int_equal(rule->name.sources[0].n, 2);
	assert_string_equal(rule->name.sources[0].steps[0].name, "func");
	assert_string_equal(rule->name.sources[0].steps[1].name, "__name__");
	assert_int_equal(rule->signature.sources[0].steps[1].kind, STEP_ITEMS);
	assert_true(rules__is_own(rules, 0, "/usr/small/x.py"));
	assert_false(rules__is_own(rules, 0, "/usr/smaller/x.py"));
	rules__free(rules);
}

static void frames(void **state)
{
	const char *const both[] = {"self", "args"}, *const one[] = {"self"};
	struct rules *rules = parse(small);

	assert_int_equal(rules__python(rules, "/a/small/other.py", "Driver.compile", NULL), 0);
	assert_int_equal(rules__python(rules, "/a/small/other.py", "compile", NULL), 0); /* before 3.11 */
	assert_int_equal(rules__python(rules, "/a/small/other.py", "Other.compile", NULL), RULE_NONE);
	/* Since 3.11 that is a function of the module. */
	assert_int_equal(rules__python(rules, "/a/small/other.py", "compile", &(struct rule_variables){both, 2, true}), RULE_NONE);
	assert_int_equal(rules__python(rules, "/a/small/other.py", "Driver.compile", &(struct rule_variables){both, 2, true}), 0);
	assert_int_equal(rules__python(rules, "/a/small/x.py", "Driver.compile", NULL), RULE_NONE);
	assert_int_equal(rules__python(rules, "/a/small/main.py", "compile", &(struct rule_variables){both, 2, false}), 0);
	assert_int_equal(rules__python(rules, "/a/small/main.py", "compile", &(struct rule_variables){one, 1, false}),
			 RULE_NONE);
	assert_int_equal(rules__native(rules, "ns::Model<ns::F, ns::GVN>::run(ns::F&)"), 1);
	assert_int_equal(rules__native(rules, "ns::Model<ns::F, ns::FAdaptor>::run(ns::F&)"), RULE_NONE);
	assert_int_equal(rules__native(rules, "ns::GVN::runOnFunction(F&)"), 2);
	rules__free(rules);
}

static void assert_text(const char *source, const char *frame, const char *expected)
{
	char line[256], text[RULES_WORD_MAX] = "(none)";
	struct rules *rules;

	snprintf(line, sizeof(line), "compiler X\npass\nnative *\nname %s\n", source);
	rules = parse(line);
	rule__text(&rules__get(rules, 0)->name, frame, text, sizeof(text));
	assert_string_equal(text, expected);
	rules__free(rules);
}

static void parts_of_names(void **state)
{
	const char *model = "llvm::detail::PassModel<llvm::Function, llvm::InstCombinePass, "
			    "llvm::AnalysisManager<llvm::Function> >::run(llvm::Function&, "
			    "llvm::AnalysisManager<llvm::Function>&)";

	assert_text("@template:2", model, "InstCombinePass");
	assert_text("@template:3", model, "AnalysisManager");
	assert_text("@template:4", model, "(none)");
	assert_text("@class", model, "PassModel");
	assert_text("@function", model, "run");
	assert_text("@class", "llvm::GVNPass::runImpl(llvm::Function&)", "GVNPass");
	assert_text("@class", "(anonymous namespace)::LoopSimplify::runOnFunction(llvm::Function&)", "LoopSimplify");
	assert_text("@class", "ns::(anonymous namespace)::A<(int)3>::f(int) const", "A");
	assert_text("@function", "run_pipeline.<locals>.run", "run");
	assert_text("@class", "Core.compile", "Core");
	assert_text("@class", "compile", "(none)");
	assert_text("@class | \"x\"", "compile", "x");
	assert_text("value | @function", "compile", "compile");
	assert_text("@class + \".\" + @function", "Core.compile", "Core.compile");
	assert_text("@class + \".\" + @function | @function", "compile", "compile");
	assert_text("\"graph \" + value | \"graph\"", "compile", "graph");
	assert_text("@template:1", "a<b", "(none)");
	assert_text("@class", "::::", "(none)");
}

static void polish(void **state)
{
	struct rules *rules = parse(small);
	char name[RULES_WORD_MAX] = "GVNPass";

	compiler__polish(rules__compiler(rules, 0), name);
	assert_string_equal(name, "GVN");
	strcpy(name, "OneThing");
	compiler__polish(rules__compiler(rules, 0), name);
	assert_string_equal(name, "the two");
	strcpy(name, "Pass");
	compiler__polish(rules__compiler(rules, 0), name);
	assert_string_equal(name, "Pass");
	rules__free(rules);
}

static void stages(void **state)
{
	struct rules *rules = parse("compiler X\nstage \"typing\" infer* a*b\nstage \"code\" low\nunit\n\tfile f\n\tfunction f\n\tname @function\n");
	const struct compiler *compiler = rules__compiler_named(rules, "X");

	assert_null(rules__compiler_named(rules, "Y"));
	assert_int_equal(compiler->n_stages, 2);
	assert_string_equal(compiler->stages[0].name, "typing");
	assert_string_equal(compiler->stages[1].name, "code");
	assert_true(patterns__any(&compiler->stages[0].patterns, "inference"));
	assert_true(patterns__any(&compiler->stages[0].patterns, "a b"));
	assert_false(patterns__any(&compiler->stages[1].patterns, "lower"));
	rules__free(rules);
}

static void lines(void **state)
{
	struct rules *rules = parse("compiler X\nline\n\tfile f\n\tfunction f\n\thas inst\n\tsource inst.loc.filename\n\tnumber inst.loc.line\n");
	const struct rule *rule = rules__get(rules, 0);

	assert_int_equal(rule->kind, RULE_LINE);
	assert_string_equal(rule_kind_names[rule->kind], "line");
	assert_string_equal(rule->name.sources[0].steps[2].name, "filename");
	assert_string_equal(rule->signature.sources[0].steps[2].name, "line");
	rules__free(rules);
}

static void patterns(void **state)
{
	char many[400], text[400];

	assert_true(pattern__matches("a*b*c", "a--b-b-c"));
	assert_false(pattern__matches("a*b*c", "a--b-b-"));
	assert_true(pattern__matches("*", ""));
	assert_true(pattern__matches("", ""));
	assert_false(pattern__matches("", "a"));
	assert_true(pattern__matches("**", "abc"));
	/* Stars multiply nothing: the last one alone goes back. */
	for (size_t i = 0; i < sizeof(many) - 1; i++) {
		many[i] = i % 2 ? 'a' : '*';
		text[i] = 'a';
	}
	many[sizeof(many) - 1] = text[sizeof(text) - 1] = '\0';
	many[sizeof(many) - 2] = 'b';
	assert_false(pattern__matches(many, text));
}

static void errors(void **state)
{
	refused("", 0, 1);
	refused("# only words\n", 1, 13);
	refused("compiler X\n", 1, 11);
	refused("unit\n", 1, 1);
	refused("compiler X\ncompiler Y\n", 2, 10);
	refused("compiler X\nfile a\n", 2, 1);
	refused("compiler X\nunit\nbogus 1\n", 3, 1);
	refused("compiler X\nunit\n\tfunction f\n\tname f\nunit\n", 5, 5);
	refused("compiler X\nunit\n\tfile f\n\tname f\n", 4, 8);
	refused("compiler X\nunit\n\tfile f\n\tfunction f\n", 4, 12);
	refused("compiler X\nunit\n\tname f..g\n", 3, 9);
	refused("compiler X\nunit\n\tnative f\n\tname x | \"a \" + y\n", 4, 19);
	refused("compiler X\nunit\n\tnative f\n\thas x\n\tname \"f\"\n", 5, 10);
	refused("compiler X\nunit\n\tname f.\n", 3, 9);
	refused("compiler X\nunit\n\tname 3\n", 3, 7);
	refused("compiler X\nunit\n\tname \"abc\n", 3, 11);
	refused("compiler X\nunit\n\tname @what\n", 3, 7);
	refused("compiler X\nunit\n\tname @template:x\n", 3, 17);
	refused("compiler X\nunit\n\tname a b\n", 3, 9);
	refused("compiler X\nunit\n\tname a()\n", 3, 8);
	refused("compiler X\nunit\n\tname a[0].b\n", 3, 8);
	refused("compiler X\nunit\n\tname a|b|c|d|e|f|g|h|i\n", 3, 23);
	refused("compiler X\nunit\n\tname a|b+c+d|e|f|g|h+i\n", 3, 23);
	refused("compiler X\nunit\n\tname a +\n", 3, 10);
	refused("compiler X\nunit\n\thas a, b\n", 3, 7);
	refused("compiler X\nunit\n\thas a b.c\n", 3, 9);
	refused("compiler X\npass\n\tsignature a\n", 3, 12);
	refused("compiler X\nunit\n\tname a.@symbols\n", 3, 16);
	refused("compiler X\nunit\n\tname a.@text\n", 3, 9);
	refused("compiler X\npass\n\tdefined a\n", 3, 10);
	refused("compiler X\nunit\n\tfile a # here\n", 3, 9);
	refused("compiler X\n\runit\n", 2, 1);
	refused("compiler X\nunit\n\tname a.b.c.d.e.f.g.h.i\n", 3, 23);
	refused("compiler X\nunit\n\tname a\n\tname b\n", 4, 7);
	refused("compiler X\nunit\nown x\n", 3, 1);
	refused("compiler X\nunit extra\n", 2, 6);
	refused("compiler X\n\x01\n", 2, 1);
	refused("compiler\n", 1, 9);
	refused("compiler X\ngroup a b\n", 2, 7);
	refused("compiler X\ngroup \"a\"\n", 2, 10);
	refused("compiler X\nstage a b\n", 2, 7);
	refused("compiler X\nstage \"a\" a\nstage \"b\" a\nstage \"c\" a\nstage \"d\" a\nstage \"e\" a\n", 6, 7);
	refused("compiler X\nunit\nstage \"a\" a\n", 3, 1);
	refused("compiler X\nunit\n\tfile\n", 3, 6);
	refused("compiler X\nline\n\tname a\n", 3, 7);
	refused("compiler X\nline\n\tsignature a\n", 3, 12);
	refused("compiler X\nunit\n\tsource a\n", 3, 9);
	refused("compiler X\nphase\n\tnumber a\n", 3, 9);
	refused("compiler X\nline\n\tonce\n", 3, 6);
	refused("compiler X\nphase\n\ttraces\n", 3, 8);
	refused("compiler X\nunit\n\ttraces x\n", 3, 9);
	refused("compiler X\nline\n\tnumber a + b + c + d + e\n", 3, 26);
	refused("compiler X\nline\n\tfile f\n\tfunction f\n\tsource a.b\n", 5, 12);
	refused("compiler X\nline\n\tnative f\n\tsource \"a\"\n\tnumber \"1\"\n", 5, 12);
}

static void many(void **state)
{
	struct buf text = {};
	struct rules_error error = {};
	struct rules *rules;

	buf__puts(&text, "compiler X\n");
	for (int i = 0; i < 10000; i++)
		buf__puts(&text, "pass\nnative *x*\nname @class\n");
	assert_int_equal(rules__new(&rules), 0);
	assert_int_equal(rules__parse(rules, "many", text.data, text.len, &error), -EBADMSG);
	assert_int_equal(error.line, 2 + 3 * RULES_MAX);
	assert_int_equal(rules__count(rules), 0);
	buf__clear(&text);
	buf__puts(&text, "compiler X\npass\n");
	for (int i = 0; i < 10000; i++)
		buf__puts(&text, "native *x*\n");
	assert_int_equal(rules__parse(rules, "many", text.data, text.len, &error), -EBADMSG);
	assert_int_equal(error.line, 3 + RULES_PATTERNS_MAX);
	buf__free(&text);
	rules__free(rules);
}

static void a_users_file_wins(void **state)
{
	static const char mine[] = "compiler Small\nunit\nfile *\nfunction mine\nname \"x\"\n";
	struct rules *rules = parse(small);
	struct rules_error error;

	assert_int_equal(rules__parse(rules, "mine", mine, strlen(mine), &error), 0);
	assert_int_equal(rules__python(rules, "/x/small/main.py", "Driver.compile", NULL), RULE_NONE);
	assert_int_equal(rules__python(rules, "/x", "mine", NULL), 3);
	assert_true(compiler__gone(rules__compiler(rules, 0)));
	rules__free(rules);
}

static void those_of_the_program(void **state)
{
	struct rules_error error = {};
	struct rules *rules;

	assert_int_equal(rules__new(&rules), 0);
	if (rules__builtin(rules, &error))
		fail_msg("%s:%u:%u: %s", error.file, error.line, error.column, error.sentence);
	assert_true(rules__compilers(rules) >= 5);
	assert_int_not_equal(rules__python(rules, "/p/numba/core/compiler.py", "compile_extra", NULL), RULE_NONE);
	rules__free(rules);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* A name that the pattern matches: something in place of each star. One byte of some is changed. */
static void make_name(const char *pattern, uint32_t *seed, char ret[2 * RULES_WORD_MAX])
{
	static const char *const fill[] = {"", "llvm::", "(anonymous namespace)::Pass", "<llvm::Function, llvm::AnalysisManager<llvm::Function>>",
					   "ru", "n", "::", "&)", "é"};
	size_t len = 0;

	for (; *pattern; pattern++) {
		const char *from = *pattern == '*' ? fill[next_random(seed) % 9] : NULL;

		if (from)
			memcpy(ret + len, from, strlen(from));
		else
			ret[len] = *pattern;
		len += from ? strlen(from) : 1;
	}
	ret[len] = '\0';
	if (len && next_random(seed) % 3 == 0)
		ret[next_random(seed) % len] = "aN:(*"[next_random(seed) % 5];
}

/* What a look at pairs of bytes leaves out would not have matched. */
static void pairs(void **state)
{
	uint32_t seed = 1, matched = 0, other = 0;
	char name[2 * RULES_WORD_MAX];
	struct rules_error error;
	struct text_pairs has;
	struct rules *rules;

	assert_int_equal(rules__new(&rules), 0);
	assert_int_equal(rules__builtin(rules, &error), 0);
	for (uint32_t round = 0; round < 20000; round++) {
		const struct rule *from = rules__get(rules, next_random(&seed) % rules__count(rules));

		if (!from->natives.n)
			continue;
		make_name(from->natives.patterns[next_random(&seed) % from->natives.n], &seed, name);
		text_pairs__of(name, &has);
		for (uint32_t i = 0; i < rules__count(rules); i++) {
			const bool truth = rule__could_match(rules__get(rules, i), NULL, name, NULL);

			assert_int_equal(rule__could_match(rules__get(rules, i), NULL, name, &has), truth);
			matched += truth;
			other += !truth;
		}
	}
	assert_true(matched > 1000 && other > 1000);
	rules__free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_with_its_text),
		cmocka_unit_test(says),	   cmocka_unit_test(frames), cmocka_unit_test(parts_of_names),
		cmocka_unit_test(polish), cmocka_unit_test(stages),  cmocka_unit_test(lines), cmocka_unit_test(patterns), cmocka_unit_test(errors),
		cmocka_unit_test(many),	   cmocka_unit_test(a_users_file_wins),
		cmocka_unit_test(those_of_the_program), cmocka_unit_test(pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
