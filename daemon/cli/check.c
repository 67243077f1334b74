/* SPDX-License-Identifier: MIT */
/* `cprofd check`: prints the rows that check_system.c (this machine) and check_process.c (one process) find,
 * for people or as JSON. Each row names one precondition, whether it holds, and the command that meets it:
 *
 *     ok       kernel                     6.1.0-30-amd64 (6.1 or later is needed)
 *     missing  BTF                        /sys/kernel/btf/vmlinux
 *                                         without it the sampler does not know the kernel's structures
 *                                         -> use a kernel with CONFIG_DEBUG_INFO_BTF=y; in a container, mount /sys */
#include <stdarg.h>

#include "base/json_text.h"
#include "base/safe_text.h"
#include "cli/check.h"
#include "cli/readable.h"

struct check_row *check__add(struct check_list *list, const char *name, enum check_state state,
			     const char *found_format, ...)
{
	const unsigned size = sizeof(list->rows) / sizeof(list->rows[0]);
	struct check_row *row = &list->rows[list->n < size ? list->n++ : size - 1];
	char found[1024];
	va_list args;

	*row = (struct check_row){.state = state};
	snprintf(row->name, sizeof(row->name), "%s", name);
	va_start(args, found_format);
	vsnprintf(found, sizeof(found), found_format, args);
	va_end(args);
	text__copy(row->found, sizeof(row->found), found);
	return row;
}

void check__help(struct check_row *row, const char *cost, const char *help)
{
	snprintf(row->cost, sizeof(row->cost), "%s", cost);
	snprintf(row->help, sizeof(row->help), "%s", help);
}

/* Columns of a list of names. */
#define WIDTH 100

static const char *const state_names[] = {
	[CHECK_OK] = "ok", [CHECK_MISSING] = "missing", [CHECK_WARN] = "warn"};

/* The first row of the list, from `from` on, that needs the same remedy as this one; NULL: none does. */
static const struct check_row *with_same_help(const struct check_list *list, const struct check_row *from, const struct check_row *row)
{
	for (; from < list->rows + list->n; from++)
		if (from != row && from->state != CHECK_OK && row->state != CHECK_OK && !strcmp(from->help, row->help))
			return from;
	return NULL;
}

/* "-> REMEDY" and, below it, the names of the rows that need it. */
static void print_shared_help(const struct check_list *list, const struct check_row *row)
{
	int at;

	printf("\n-> %s\n", row->help);
	at = printf("   for %s", row->name);
	while ((row = with_same_help(list, row + 1, row))) {
		if (at + 2 + (int)strlen(row->name) > WIDTH)
			at = printf(",\n      ") - 2;
		else
			at += printf(", ");
		at += printf("%s", row->name);
	}
	putchar('\n');
}

/* A remedy that several rows need is printed once, behind the table. */
static void print_table(const struct check_list *list)
{
	for (unsigned i = 0; i < list->n; i++) {
		const struct check_row *row = &list->rows[i];

		printf("%-8s %-26s ", state_names[row->state], row->name);
		/* `found` may hold the name of a program, which may hold escape sequences for the terminal. */
		safe_text__put(stdout, row->found);
		putchar('\n');
		if (row->state != CHECK_OK && *row->cost)
			printf("%36s%s\n", "", row->cost);
		if (row->state != CHECK_OK && *row->help && !with_same_help(list, list->rows, row))
			printf("%36s-> %s\n", "", row->help);
	}
	for (unsigned i = 0; i < list->n; i++) {
		const struct check_row *row = &list->rows[i], *same = *row->help ? with_same_help(list, list->rows, row) : NULL;

		if (same > row)
			print_shared_help(list, row);
	}
}

/* {"works": true, "daemon": false, "checks": [{"name": "kernel", "state": "ok", "found": "6.1.0 ...", "cost":
 * "", "help": ""}, ...]}. Scripts rely on the names; `found` is for people. */
static int print_json(const struct check_list *list, bool works)
{
	json_t *rows = json_array(), *all;
	int status;

	for (unsigned i = 0; i < list->n; i++) {
		const struct check_row *row = &list->rows[i];

		json__append(&rows,
			     json_pack("{s:s, s:s, s:o, s:s, s:s}", "name", row->name,
						"state", state_names[row->state], "found", json__text(row->found),
						"cost", row->cost, "help", row->help));
	}
	all = json_pack("{s:b, s:b, s:o}", "works", works, "daemon", list->daemon, "checks", rows);
	status = json__print(all, JSON_INDENT(1));
	json_decref(all);
	return status;
}

int check__run(const struct cli_options *options)
{
	struct check_list list = {};
	bool works = true;
	pid_t pid;
	int status = options__pid(options, false, &pid);

	if (status != CLI_DONE)
		return status;
	check__system(&list, options);
	if (pid)
		check__process(&list, pid);
	/* Only MISSING decides over the exit status. A warning means that some feature is lost, and a script
	 * that asks `cprofd check && ...` does not want to stop for that. */
	for (unsigned i = 0; i < list.n; i++)
		works = works && list.rows[i].state != CHECK_MISSING;
	if (options->json) {
		if (print_json(&list, works) != CLI_DONE)
			return CLI_COULD_NOT;
	} else {
		print_table(&list);
		puts(works ? pid ? "\nIt works here, on this process." : "\nIt works here."
			   : "\nIt does not work here yet: see the rows that say `missing`.");
	}
	return works ? CLI_DONE : CLI_COULD_NOT;
}
