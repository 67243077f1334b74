/* SPDX-License-Identifier: MIT */
/* Which functions are hidden (--exclude, --hide-imports). projection.c leaves their frames out of the stacks:
 *
 *     recording:            main > wrapper > work        --exclude wrapper:   main > work
 *                           main > work                                       main > work, the same stack */
#include "export/hide.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/close.h"
#include "export/filter.h"
#include "export/places.h"

struct hide {
	const struct export_options *options;
	struct close close[EXPORT_EXCLUDE_MAX]; /* of each pattern */
};

bool hide__wanted(const struct export_options *options)
{
	return options->n_exclude || options->hide_imports || options->hide_native;
}

/* importlib and zipimport, frozen or not: what an `import` statement runs before the module's own code. */
static bool is_importer(const struct function_row *row)
{
	char module[512];

	if (row->kind != FUNCTION_PYTHON)
		return false;
	/* CPython freezes importlib._bootstrap and _bootstrap_external into the interpreter; other parts of
	 * importlib are files of the standard library. */
	if (!strncmp(row->file, "<frozen importlib.", 18) || !strncmp(row->file, "<frozen zipimport", 17))
		return true;
	place__module(row->kind, row->file, row->module, module, sizeof(module));
	return pattern__module("importlib", module) || pattern__module("zipimport", module);
}

/* Native functions through which importlib runs: they are hidden only directly below it, as programs call
 * exec() and __import__(), too. With and without "builtins.", as native stacks and call frames name them. */
static bool is_machine(const struct function_row *row)
{
	static const char *const names[] = {"exec", "builtins.exec", "__import__", "builtins.__import__", "builtin_exec", "builtin_exec_impl",
					    "builtin___import__", "PyEval_EvalCode"};

	if (row->kind == FUNCTION_PYTHON)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(row->name, names[i]))
			return true;
	return false;
}

/* Each pattern is tried on the function, its module by either name, and its file: --exclude does not say what
 * it means. */
static bool is_excluded(struct hide *hide, const struct function_row *row)
{
	char module[512];
	bool any = hide->options->hide_native && row->kind != FUNCTION_PYTHON;

	if (row->kind == FUNCTION_NOTE)
		return false;
	place__module(row->kind, row->file, row->module, module, sizeof(module));
	for (uint32_t i = 0; i < hide->options->n_exclude; i++) {
		const char *pattern = hide->options->exclude[i];
		bool match = pattern__function(pattern, row->name) || pattern__module(pattern, module) ||
			     (*row->module && pattern__module(pattern, row->module)) || (*row->file && pattern__glob(pattern, row->file));

		any |= close__tried(&hide->close[i], match, row->name);
		close__tried(&hide->close[i], match, module);
	}
	return any;
}

enum visibility hide__function(struct hide *hide, const struct function_row *row)
{
	if (is_excluded(hide, row))
		return VISIBILITY_HIDDEN;
	if (!hide->options->hide_imports)
		return VISIBILITY_SHOWN;
	return is_importer(row) ? VISIBILITY_IMPORT : is_machine(row) ? VISIBILITY_MACHINE : VISIBILITY_SHOWN;
}

int hide__new(const struct export_options *options, struct hide **ret)
{
	struct hide *hide = calloc(1, sizeof(*hide));

	if (!hide)
		return -ENOMEM;
	hide->options = options;
	for (uint32_t i = 0; i < options->n_exclude; i++)
		hide->close[i] = CLOSE("exclude", options->exclude[i], false);
	*ret = hide;
	return 0;
}

int hide__missing(const struct hide *hide, struct export_missing *ret)
{
	int err = 0;

	for (uint32_t i = 0; i < hide->options->n_exclude && !err; i++) {
		err = close__missing(&hide->close[i], ret);
		ret->name = err ? hide->options->exclude[i] : NULL;
	}
	return err;
}

void hide__free(struct hide *hide)
{
	free(hide);
}
