/* SPDX-License-Identifier: MIT */
/* The tree of compiles as rows of one table. Each row has its depth; tables.js folds what is below a row. */
#include <string.h>

#include "html/html.h"

#define STEP 14u /* indent per level in px; the same in tables.js */

static bool is_stage(const json_t *row)
{
	const char *what = get__text(row, "what");

	return !strcmp(what, "phase") || !strcmp(what, "pass");
}

static void put_name(struct buf *out, const json_t *row)
{
	const char *what = get__text(row, "what"), *name = get__text(row, "name");

	buf__printf(out, "<span class=\"what %s\">%s</span>", what,
		    !strcmp(what, "trigger") ? "line" : !strcmp(what, "unit") ? "compile" : what);
	html__name(out, *name ? name : "?", !strcmp(what, "unit") || *get__text(row, "signature") ? get__text(row, "signature") : NULL);
}

static void put_rows(struct buf *out, const json_t *rows, unsigned depth)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		buf__printf(out, "<tr%s data-depth=\"%u\"><th scope=\"row\"><div><svg width=\"%u\" height=\"1\"></svg>",
			    is_stage(row) ? " class=\"stage\"" : "", depth, depth * STEP);
		put_name(out, row);
		buf__puts(out, "</div></th>");
		tables__time(out, row, "inclusive", 1);
		tables__time(out, row, "exclusive", 1);
		tables__elapsed(out, row);
		tables__calls(out, row);
		buf__puts(out, "<td class=\"words\">");
		html__location(out, get__text(row, "file"), get__number(row, "line"));
		buf__puts(out, "</td></tr>\n");
		put_rows(out, json_object_get(row, "rows"), depth + 1);
	}
}

void tables__tree(struct buf *out, const json_t *table) { put_rows(out, json_object_get(table, "rows"), 0); }
