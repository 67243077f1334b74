/* SPDX-License-Identifier: MIT */
/* The report for programs: docs/report.md is its schema. The text is built in memory, as a report has some
 * megabytes at most, and written at once: a full disk never leaves JSON that parses.
 *
 *     {"schema":"cprofd-report","major":3,"minor":9,...,"recordings":[{...}],"tables":[
 *     {"by":"function","sort":"exclusive","total_ns":...,"rows_all":812,"rows":[
 *     {"name":"run_pass",...,"exclusive_ns":...,"each":[{...}]}]}]} */
#include <string.h>

#include "events/json.h"
#include "base/stream.h"
#include "report/internal.h"

/* Rounded to whole nanoseconds. */
int put__ns(struct buf *out, const char *key, double ns)
{
	return json__number(out, key, (uint64_t)(ns + 0.5));
}

static int put__share(struct buf *out, const char *key, double part, double whole)
{
	return json__key(out, key) ?: buf__printf(out, "%.9f", whole > 0 ? part / whole : 0);
}

/* Filters that were not given are left out. */
static int put_filter(struct buf *out, const char *key, const char *value)
{
	return value ? json__member(out, key, value) : 0;
}

static int put_filters(struct buf *out, const struct export_options *filter)
{
	int err = json__key(out, "filters") ?: buf__puts(out, "{");

	err = err ?: put_filter(out, "thread", filter->thread);
	err = err ?: put_filter(out, "process", filter->process);
	err = err ?: put_filter(out, "class", filter->class_name);
	err = err ?: put_filter(out, "function", filter->function);
	err = err ?: put_filter(out, "module", filter->module);
	if (filter->hide_imports)
		err = err ?: json__key(out, "hide_imports") ?: buf__puts(out, "true");
	if (filter->hide_native)
		err = err ?: json__member(out, "native", "off");
	if (filter->n_exclude)
		err = err ?: json__key(out, "exclude") ?: buf__puts(out, "[");
	for (uint32_t i = 0; i < filter->n_exclude; i++)
		err = err ?: buf__puts(out, i ? "," : "") ?: json__string(out, filter->exclude[i]);
	if (filter->n_exclude)
		err = err ?: buf__puts(out, "]");
	if (filter->skip_first)
		err = err ?: json__number(out, "skip_first", filter->skip_first);
	if (filter->from || filter->to)
		err = err ?: json__number(out, "from_ns", filter->from) ?: json__number(out, "to_ns", filter->to);
	return err ?: buf__puts(out, "}");
}

/* `out` is never empty here, as put_report() has begun the array. */
static int put_file(struct buf *out, const struct report_file *file)
{
	int err = buf__puts(out, out->data[out->len - 1] == '[' ? "{" : ",\n{");

	err = err ?: json__member(out, "file", file->name) ?: json__number(out, "pid", (uint64_t)file->pid);
	err = err ?: json__member(out, "command", file->command) ?: about__started(out, file->realtime);
	err = err ?: json__member(out, "mode", file->mode) ?: json__member(out, "reason", file->reason);
	if (file->unsupported)
		err = err ?: json__member(out, "unsupported", file->unsupported);
	err = err ?: json__number(out, "rate_hz", file->rate) ?: json__number(out, "span_ns", file->span);
	err = err ?: json__number(out, "samples", file->samples) ?: json__number(out, "whole", file->whole);
	err = err ?: json__number(out, "threads", file->threads) ?: json__number(out, "cpu_ns", file->cpu);
	err = err ?: json__number(out, "wall_ns", file->wall) ?: json__number(out, "idle_ns", file->idle);
	err = err ?: json__number(out, "quiet_threads", file->quiet_threads) ?: json__number(out, "quiet_wall_ns", file->quiet_wall);
	err = err ?: json__number(out, "not_recorded_ns", file->not_recorded);
	err = err ?: json__number(out, "shown_cpu_ns", file->shown.cpu);
	err = err ?: json__number(out, "shown_wall_ns", file->shown.wall);
	err = err ?: json__number(out, "left_out_cpu_ns", file->left_out.cpu);
	err = err ?: json__key(out, "cut") ?: buf__puts(out, file->cut ? "true" : "false");
	if (file->triggers.len)
		err = err ?: buf__puts(out, ",") ?: buf__append(out, file->triggers.data, file->triggers.len);
	return err ?: buf__puts(out, ",") ?: buf__append(out, file->losses.data, file->losses.len) ?: buf__puts(out, "}");
}

static bool of_units(enum report_by by)
{
	return by == REPORT_UNIT || by == REPORT_SOURCE || by == REPORT_SOURCE_LINE || by == REPORT_PHASE || by == REPORT_PASS || by == REPORT_FAILED;
}

/* Which members a row has depends on its table: groups (module, class ...) have no file; compiles, phases and
 * passes name their compiler in place of a module. */
static int put_row_name(struct buf *out, const struct table *table, const struct row_key *key)
{
	int err = json__member(out, "name", key->name);

	if (table->by == REPORT_THREAD)
		err = err ?: json__member(out, "process", key->detail);
	if (key->pid)
		err = err ?: json__number(out, "pid", (uint64_t)key->pid);
	if (of_units(table->by))
		err = err ?: json__member(out, "compiler", key->module);
	if (table->by == REPORT_UNIT || table->by == REPORT_FAILED)
		err = err ?: json__member(out, "signature", key->detail);
	if (key->kind == KIND_GROUP && table->by != REPORT_UNIT && table->by != REPORT_SOURCE && table->by != REPORT_SOURCE_LINE && table->by != REPORT_FAILED)
		return err;
	err = err ?: json__member(out, "file", key->file) ?: json__number(out, "line", key->line);
	if (table->by == REPORT_SOURCE_LINE)
		err = err ?: json__number(out, "defined", key->defined);
	if (key->kind == KIND_GROUP)
		return err;
	err = err ?: json__member(out, "module", key->module);
	return err ?: json__member(out, "kind", kind__name(key->kind));
}

/* The times of each recording, from which a reader can compute what the means hide. Both clocks, whichever
 * orders the rows. */
static int put_each(struct buf *out, const struct table *table, const struct rank *rank, bool counted)
{
	int err = json__key(out, "each") ?: buf__puts(out, "[");

	for (uint32_t i = 0; i < table->files && !err; i++) {
		const struct row_times *times = table__times(table, rank->row, i);

		err = buf__puts(out, i ? ",{" : "{");
		err = err ?: json__number(out, "exclusive_cpu_ns", times->exclusive.cpu);
		err = err ?: json__number(out, "inclusive_cpu_ns", times->inclusive.cpu);
		err = err ?: json__number(out, "exclusive_wall_ns", times->exclusive.wall);
		err = err ?: json__number(out, "inclusive_wall_ns", times->inclusive.wall);
		if (counted)
			err = err ?: json__number(out, "calls", times->calls);
		err = err ?: buf__puts(out, "}");
	}
	return err ?: buf__puts(out, "]");
}

/* The times of a row, or of a row below it. */
int put__times(struct buf *out, const struct table *table, double total, const struct rank *rank, bool counted)
{
	int err = put__ns(out, "exclusive_ns", rank->exclusive);

	err = err ?: put__ns(out, "inclusive_ns", rank->inclusive);
	err = err ?: put__share(out, "exclusive_share", rank->exclusive, total);
	err = err ?: put__share(out, "inclusive_share", rank->inclusive, total);
	err = err ?: put__share(out, "running_share", rank->running, total);
	if (table->files > 1) {
		err = err ?: put__ns(out, "exclusive_sd_ns", rank->exclusive_sd);
		err = err ?: put__ns(out, "inclusive_sd_ns", rank->inclusive_sd);
	}
	if (counted) {
		err = err ?: put__ns(out, "elapsed_ns", rank->elapsed) ?: put__ns(out, "cpu_ns", rank->cpu);
		err = err ?: json__key(out, "calls") ?: buf__printf(out, "%.6g", rank->calls);
		if (rank->begun)
			err = err ?: json__number(out, "start_ns", rank->begun - 1);
	}
	return err ?: put_each(out, table, rank, counted);
}

static int put_below(struct report *report, struct buf *out, const struct table *above, double total, uint32_t row)
{
	static const char *const keys[REPORT_BY_COUNT] = {
		[REPORT_CALLEE] = "lines", [REPORT_THREAD] = "classes", [REPORT_UNIT] = "triggers", [REPORT_SOURCE] = "signatures", [REPORT_SOURCE_LINE] = "phases", [REPORT_PHASE] = "subjects",
		[REPORT_FAILED] = "left_in"};
	const struct table *table;
	int err = report__rank_below(report, above->by, row, 0, &table);

	/* Most phases have no subjects: the key is left out for them. The other tables have an empty array. */
	if (err || !table || (above->by == REPORT_PHASE && !table->n_ranks))
		return err;
	err = json__key(out, keys[above->by]) ?: buf__puts(out, "[");
	for (uint32_t i = 0; i < table->n_ranks && !err; i++) {
		struct row_key name = table__key(table, table->ranks[i].row);

		err = buf__puts(out, i ? ",\n{" : "{") ?: put_row_name(out, table, &name);
		err = err ?: put__times(out, table, total, &table->ranks[i], of_units(above->by));
		err = err ?: buf__puts(out, "}");
	}
	return err ?: buf__puts(out, "]");
}

static int put_row(struct report *report, struct buf *out, const struct table *table, double total,
		   const struct rank *rank)
{
	struct row_key key = table__key(table, rank->row);
	int err = buf__puts(out, out->data[out->len - 1] == '[' ? "{" : ",\n{");

	err = err ?: put_row_name(out, table, &key);
	err = err ?: put__times(out, table, total, rank, rank__of_compiles(table->by));
	err = err ?: put_below(report, out, table, total, rank->row);
	return err ?: buf__puts(out, "}");
}

/* rows_all: how many rows there are without --top, --until and --min-share. */
static int put_table(struct report *report, struct buf *out, const struct table *table)
{
	const char *of = table->by == REPORT_CALLERS   ? report->options->callers
			 : table->by == REPORT_CALLEES ? report->options->callees
						       : NULL;
	int err = buf__puts(out, out->data[out->len - 1] == '[' ? "\n{" : ",\n{");

	err = err ?: json__member(out, "by", report_names[table->by]) ?: put_filter(out, "of", of);
	err = err ?: json__member(out, "sort", rank_orders[rank__order(table, report->options)]);
	err = err ?: put__ns(out, "total_ns", table->total) ?: json__number(out, "rows_all", table->n_rows);
	err = err ?: json__key(out, "rows") ?: buf__puts(out, "[");
	for (uint32_t i = 0; i < table->n_ranks && !err; i++)
		err = put_row(report, out, table, table->total, &table->ranks[i]);
	return err ?: buf__puts(out, "]}");
}

static int put_report(struct report *report, struct buf *out)
{
	int err = buf__printf(out, "{\"schema\":\"cprofd-report\",\"major\":%d,\"minor\":%d",
			      REPORT_MAJOR, REPORT_MINOR);

	err = err ?: json__member(out, "generator", "cprofd@" CPROFD_VERSION);
	err = err ?: json__member(out, "weight", report->wall ? "wall" : "cpu");
	err = err ?: json__member(out, "calls", "not sampled");
	err = err ?: put_filters(out, &report->options->filter);
	err = err ?: buf__puts(out, ",\n\"recordings\":[");
	for (uint32_t i = 0; i < report->read && !err; i++)
		err = put_file(out, &report->file[i]);
	err = err ?: buf__puts(out, "],\n\"tables\":[");
	for (uint32_t i = 0; i < REPORT_BY_COUNT && !err; i++)
		if (report__wants(report, (enum report_by)i))
			err = i == REPORT_TREE || i == REPORT_CHAIN || i == REPORT_REPEAT
				      ? units_json__table(report, &report->tables[i], out)
				      : put_table(report, out, report__table(report, (enum report_by)i));
	err = err ?: buf__puts(out, "]");
	if (!err && report->options->open_source)
		err = annotate__json(report, out);
	return err ?: buf__puts(out, "}\n");
}

int report__json(struct report *report, FILE *out)
{
	_cleanup_(buf__free) struct buf text = {};
	int err = put_report(report, &text);

	return err ?: stream__write(out, text.data, text.len) ?: stream__flush(out);
}
