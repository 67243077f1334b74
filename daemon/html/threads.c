/* SPDX-License-Identifier: MIT */
/* Classes of time as stripes (one bar with a coloured part per class), and the table of threads with a column
 * per class.
 *
 *     thread          [== compiler native ==|= interpreter =|GC]   4.1 s   52 %   2.5 s   1.2 s   0.4 s
 *
 * A class that page.css has no colour for is grey: a recording may have classes that this version does not
 * know. */
#include <string.h>

#include "html/html.h"

/* Class names of daemon/classes/classes.h -> CSS classes of page.css. */
static const struct {
	const char *name, *style;
} styles[] = {
	{"kernel", "kernel"},	    {"GC", "gc"},	      {"compiler native", "compiler"},
	{"JIT code", "jit"},	    {"JIT dispatch", "dispatch"}, {"import", "import"},
	{"C call", "call"},	    {"interpreter", "interpreter"}, {"waiting", "waiting"},
	{"ready", "ready"},	    {"without the GIL", "waiting"},
};

static const char *style_of(const char *name)
{
	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
		if (!strcmp(styles[i].name, name))
			return styles[i].style;
	return "other";
}

void tables__swatch(struct buf *out, const char *class_name)
{
	buf__printf(out, "<b class=\"swatch c-%s\"></b>", style_of(class_name));
}

/* NULL: the thread has no time in that class. Classes are always drawn in the order of `order`, so that all
 * stripes of a page can be compared. */
static const json_t *row_of(const json_t *rows, const char *name)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		if (!strcmp(get__text(row, "name"), name))
			return row;
	}
	return NULL;
}

void tables__stripe(struct buf *out, const json_t *order, const json_t *rows, uint64_t total)
{
	const json_t *each, *row;
	double x = 0, width;
	size_t i;

	buf__puts(out, "<svg class=\"stripe\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
	json_array_foreach(order, i, each) {
		const char *name = get__text(each, "name");

		row = row_of(rows, name);
		width = total ? 1000.0 * (double)get__number(row, "exclusive_ns") / (double)total : 0;
		/* Also for row NULL, whose number is 0. */
		if (width <= 0)
			continue;
		buf__printf(out, "<rect class=\"c-%s\" x=\"%.2f\" width=\"%.2f\" height=\"10\"><title>", style_of(name), x,
			    width);
		html__text(out, name);
		buf__printf(out, ": %.1f\u00a0%%</title></rect>", width / 10);
		x += width;
	}
	buf__puts(out, "</svg>");
}

/* The stripe is 100 % wide for each thread, however long it ran: the columns beside it have the times. */
static void put_thread(struct buf *out, const json_t *order, const json_t *thread)
{
	const json_t *classes = json_object_get(thread, "classes"), *each;
	size_t i;

	buf__puts(out, "<tr><th scope=\"row\">");
	html__name(out, get__text(thread, "name"), NULL);
	buf__puts(out, "</th><td class=\"wide\">");
	tables__stripe(out, order, classes, get__number(thread, "exclusive_ns"));
	buf__puts(out, "</td>");
	tables__time(out, thread, "exclusive", 1);
	json_array_foreach(order, i, each) {
		const json_t *row = row_of(classes, get__text(each, "name"));

		if (row) {
			buf__printf(out, "<td data-value=\"%llu\">", (unsigned long long)get__number(row, "exclusive_ns"));
			html__duration(out, get__number(row, "exclusive_ns"));
			buf__puts(out, "</td>");
		} else {
			buf__puts(out, "<td data-value=\"0\"></td>");
		}
	}
	buf__puts(out, "</tr>\n");
}

void tables__threads(struct buf *out, const json_t *table, const json_t *classes)
{
	const json_t *order = json_object_get(classes, "rows"), *row;
	size_t i;

	buf__puts(out, "<thead><tr><th scope=\"col\">thread</th><td></td><th scope=\"col\">time</th><td></td>");
	json_array_foreach(order, i, row) {
		buf__puts(out, "<th scope=\"col\">");
		tables__swatch(out, get__text(row, "name"));
		html__text(out, get__text(row, "name"));
		buf__puts(out, "</th>");
	}
	buf__puts(out, "</tr></thead>\n<tbody>\n");
	json_array_foreach(json_object_get(table, "rows"), i, row) {
		put_thread(out, order, row);
	}
	buf__puts(out, "</tbody>");
}
