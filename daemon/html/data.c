/* SPDX-License-Identifier: MIT */
/* The data of the page: the report's JSON of one recording, reduced to the page's limits, with the time line
 * added.
 *
 *     recording -> report (report/) -> JSON text -> parsed -> fewer rows -> + "timeline" (time_line.c)
 *
 * The JSON goes the way over text, so that the page shows exactly what `report --json` prints, and so that
 * the page's parts need one way to read it. The recording is read three times: for quiet threads, for the
 * report, for the time line. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "base/order.h"
#include "html/html.h"
#include "report/report.h"
#include "rules/rules.h"

/* Those that the page has a section for (tables.c). */
#define TABLES                                                                                                         \
	(1u << REPORT_CLASS | 1u << REPORT_PROCESS | 1u << REPORT_THREAD | 1u << REPORT_UNIT | 1u << REPORT_PHASE | 1u << REPORT_PASS |       \
	 1u << REPORT_TREE | 1u << REPORT_REPEAT | 1u << REPORT_FUNCTION | 1u << REPORT_LINE)

/* --- fewer rows --- */

/* Counts the rows of a table, those below others included; with `ret` also returns their weights. Only the
 * tree has rows within rows, and it is as deep as units are nested (export/units.h). */
static size_t collect(const json_t *rows, uint64_t *ret)
{
	const json_t *row;
	size_t i, n = 0;

	json_array_foreach(rows, i, row) {
		if (ret)
			ret[n] = get__number(row, "inclusive_ns");
		n++;
		n += collect(json_object_get(row, "rows"), ret ? ret + n : NULL);
	}
	return n;
}

/* Removes rows below `least`. Children are never heavier than their parents, so whole branches go. */
static void prune(json_t *rows, uint64_t least)
{
	/* From the last one: removing a row moves those after it. */
	for (size_t i = json_array_size(rows); i--;) {
		json_t *row = json_array_get(rows, i);

		if (get__number(row, "inclusive_ns") < least)
			json_array_remove(rows, i);
		else
			prune(json_object_get(row, "rows"), least);
	}
}

/* Keeps the heaviest `max` rows of the table; in a tree, wherever they are. */
static int keep(json_t *table, size_t max)
{
	json_t *rows = json_object_get(table, "rows");
	_cleanup_free_ uint64_t *weights = NULL;
	size_t n;

	if (strcmp(get__text(table, "by"), "tree")) /* other tables are sorted: cut their end */
		while (json_array_size(rows) > max)
			json_array_remove(rows, json_array_size(rows) - 1);
	n = collect(rows, NULL);
	if (n <= max)
		return 0;
	weights = calloc(n, sizeof(*weights));
	if (!weights)
		return -ENOMEM;
	collect(rows, weights);
	qsort(weights, n, sizeof(*weights), order__u64);
	/* Everything as light as the first row too many goes, so that rows of equal weight do not depend on
	 * their order. */
	prune(rows, weights[n - 1 - max] + 1);
	return 0;
}

/* Reduces the tables until the JSON fits. A row has some 400 bytes; if names are long, fewer rows are kept. The
 * limit is for the browser, which parses the data before it shows the page. Names of up to 16 KB may take several
 * rounds here, which is cheap enough. */
static int fit(json_t *report)
{
	size_t i, tree = HTML_TREE_MAX, max = HTML_ROWS_MAX, listings = HTML_SOURCES_MAX;
	json_t *table, *sources = json_object_get(report, "sources");
	int err = 0;

	/* The first round only applies the limits on rows. With max 0 nothing can be left out any more. */
	for (; !err; tree /= 4, max /= 4, listings /= 4) {
		while (json_array_size(sources) > listings)
			json_array_remove(sources, json_array_size(sources) - 1);
		json_array_foreach(json_object_get(report, "tables"), i, table)
			err = err ?: keep(table, strcmp(get__text(table, "by"), "tree") ? max : tree);
		if (!max || json_dumpb(report, NULL, 0, HTML_JSON) <= HTML_REPORT_MAX)
			break;
	}
	return err;
}

/* --- the parts --- */

static int read_report(const struct report_options *how, int recording_fd, struct export_report *ret, FILE *out)
{
	struct report *report;
	int err = report__new(how, 1, &report);

	if (err)
		return err;
	err = report__read(report, recording_fd, "");
	if (err == -ENOENT)
		ret->missing = *report__missing(report);
	err = err ?: report__finish(report) ?: report__json(report, out);
	report__free(report);
	return err;
}

static int parse(char *text, size_t len, json_t **ret)
{
	*ret = json__load(text, len, 0, NULL);
	return *ret ? 0 : -ENOMEM; /* it is our own JSON, so only memory can be missing */
}

static int make_report(int recording_fd, const struct export_options *options, const struct rules *rules,
		       struct export_report *ret_report, json_t **ret)
{
	/* A page of several recordings would need another form, so `files` is always 1. */
	const struct report_options how = {.filter = *options,
					   .tables = TABLES | (options->open_source ? 1u << REPORT_SOURCE_LINE : 0),
					   .top = HTML_ROWS_MAX,
					   .phases = true,
					   .rules = rules,
					   .open_source = options->open_source};
	char *text = NULL;
	size_t len = 0;
	FILE *memory = open_memstream(&text, &len);
	int err = memory ? read_report(&how, recording_fd, ret_report, memory) : -errno;

	if (memory && fclose(memory) && !err)
		err = -ENOMEM;
	err = err ?: parse(text, len, ret) ?: fit(*ret);
	free(text);
	return err;
}

static int add_time_line(int recording_fd, const struct export_options *options, struct export_report *ret, json_t *data)
{
	_cleanup_(buf__free) struct buf text = {};
	json_t *line;
	/* The model reads from the descriptor's position. */
	int err = lseek(recording_fd, 0, SEEK_SET) < 0 ? -errno : 0;

	err = err ?: time_line__json(recording_fd, options, &text, ret) ?: parse(text.data, text.len, &line);
	if (!err && json_object_set_new(data, "timeline", line))
		err = -ENOMEM;
	return err;
}

/* With the built-in rules. */
static int make_plain(int recording_fd, const struct export_options *options, struct export_report *ret_report, json_t **ret)
{
	struct rules_error error;
	struct rules *rules;
	int err = rules__new(&rules);

	if (err)
		return err;
	if (rules__builtin(rules, &error))
		err = -EINVAL;
	err = err ?: make_report(recording_fd, options, rules, ret_report, ret);
	rules__free(rules);
	return err;
}

int data__make(int recording_fd, const struct export_options *options, struct export_report *ret_report, json_t **ret)
{
	int err;

	*ret = NULL;
	err = options->rules ? make_report(recording_fd, options, options->rules, ret_report, ret)
			     : make_plain(recording_fd, options, ret_report, ret);
	return err ?: add_time_line(recording_fd, options, ret_report, *ret);
}
