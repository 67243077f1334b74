/* SPDX-License-Identifier: MIT */
/* Listings of the functions that were compiled, each line with what the compiler took for it, and warmer the longer that was:
 *
 *     <details open><summary>kernel  t1.py</summary><table>
 *     <tr class="heat9"><td>4</td><td>1.23 s</td><td>1.50 s</td><td>40.1 %</td><td class="code">y = np.sin(a)</td></tr> ...
 *
 * Warmth is by inclusive time, since a line is as costly as all that has to be compiled for it, relative to the hottest line of
 * all listings, so that a cool function looks cool. */
#include <math.h>

#include "html/html.h"

#define DEGREES 9 /* classes heat1 to heat9 in page.css */
#define OPEN_AT_FIRST 3

static double hottest_line(const json_t *sources)
{
	const json_t *source, *line;
	double most = 1e-9; /* never 0, as shares are divided by it */
	size_t i, k;

	json_array_foreach(sources, i, source)
		json_array_foreach(json_object_get(source, "lines"), k, line)
			most = fmax(most, get__share(line, "inclusive_share"));
	return most;
}

static void put_line(struct buf *out, const json_t *line, double hottest)
{
	const double share = get__share(line, "inclusive_share");

	buf__puts(out, "<tr");
	if (share > 0)
		buf__printf(out, " class=\"heat%d\"", (int)fmax(1, round(DEGREES * share / hottest)));
	buf__printf(out, "><td class=\"at\">%llu</td>", (unsigned long long)get__number(line, "line"));
	if (json_object_get(line, "inclusive_ns")) {
		buf__puts(out, "<td>");
		html__duration(out, get__number(line, "exclusive_ns"));
		buf__puts(out, "</td><td>");
		html__duration(out, get__number(line, "inclusive_ns"));
		buf__puts(out, "</td><td>");
		html__percent(out, get__share(line, "inclusive_share"));
		buf__puts(out, "</td>");
	} else {
		buf__puts(out, "<td></td><td></td><td></td>");
	}
	buf__puts(out, "<td class=\"code\">");
	html__text(out, get__text(line, "text"));
	buf__puts(out, "</td></tr>\n");
}

static void put_gap(struct buf *out)
{
	buf__puts(out, "<tr><td class=\"at\">...</td><td></td><td></td><td></td><td></td></tr>\n");
}

static void put_source(struct buf *out, const json_t *source, bool open, double hottest)
{
	const json_t *line;
	uint64_t last = 0;
	size_t i;

	buf__printf(out, "<details%s><summary>", open ? " open" : "");
	html__name(out, get__text(source, "name"), NULL);
	buf__puts(out, " ");
	html__location(out, get__text(source, "file"), get__number(source, "defined"));
	buf__puts(out, "</summary>\n");
	if (*get__text(source, "warning")) {
		buf__puts(out, "<p class=\"warning\">");
		html__text(out, get__text(source, "warning"));
		buf__puts(out, "</p>\n");
	}
	buf__puts(out, "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"source of ");
	html__text(out, get__text(source, "name"));
	buf__puts(out, "\">\n<table>\n<thead><tr><th scope=\"col\">line</th><th scope=\"col\" title=\"in no compile that it needed\">exclusive</th>"
		       "<th scope=\"col\" title=\"and all that was compiled for it\">inclusive</th><th scope=\"col\">share</th>"
		       "<th scope=\"col\" class=\"words\">source</th></tr></thead>\n<tbody>\n");
	json_array_foreach(json_object_get(source, "lines"), i, line) {
		if (last && get__number(line, "line") > last + 1)
			put_gap(out);
		last = get__number(line, "line");
		put_line(out, line, hottest);
	}
	buf__puts(out, "</tbody></table>\n</div>\n</details>\n");
}

void source__link(struct buf *out, const json_t *report)
{
	if (json_array_size(json_object_get(report, "sources")))
		buf__puts(out, "<a href=\"#sources\">Sources</a>\n");
}

void source__put(struct buf *out, const json_t *report)
{
	const json_t *sources = json_object_get(report, "sources"), *source;
	const double hottest = hottest_line(sources);
	size_t i;

	if (!json_array_size(sources))
		return;
	buf__puts(out, "<section id=\"sources\">\n<h2>Sources</h2>\n"
		       "<p class=\"note\">What the compiler took for each line of the functions that were compiled; the warmer, the longer. "
		       "Sources are as they were when this page was made.</p>\n");
	json_array_foreach(sources, i, source) put_source(out, source, i < OPEN_AT_FIRST, hottest);
	buf__puts(out, "</section>\n");
}
