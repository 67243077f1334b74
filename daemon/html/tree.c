/* SPDX-License-Identifier: MIT */
/* The tree of compiles as rows of one table. Each row has its depth; tables.js folds what is below a row.
 *
 *     <tr data-depth="0"><th ...><svg width="0" .../> line  <module> ...</th> ...      the line that caused compiles
 *     <tr data-depth="1">...<svg width="14" .../> compile  svd(float64) ...
 *     <tr class="stage" data-depth="2">...<svg width="28" .../> phase  typing ...      hidden until it is asked for
 *
 * The indent is an empty SVG of that width, as the page's policy allows no style attributes. */
#include <string.h>

#include "html/html.h"

#define STEP 14u /* indent per level in px; the same in tables.js */

/* Rows that the page can hide as a whole, to show only compiles within compiles. */
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

/* Depth first. The recursion is as deep as units are nested (export/units.h). */
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
