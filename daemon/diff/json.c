/* SPDX-License-Identifier: MIT */
/* The comparison as JSON: docs/diff.md is its schema.
 *
 *     {"schema":"cprofd-diff","major":1,"minor":5,...,"weight":"cpu","times":"exclusive","per":"share",...,
 *     "recordings":[{"side":"before","file":"a.cprof",...},...],
 *     "totals":[{"what":"time","before":...,"after":...,"change":...,"differs":false},...],
 *     "tables":[{"by":"class","compared":9,"differ":1,...,"rows":[
 *     {"name":"GC","samples":310,"before":0.021,"after":0.043,"change":0.022,"margin":0.006,...,"differs":true}]}]}
 *
 * What is not known is left out: without "margin", the variance could not be estimated. */

#include "base/stream.h"
#include "diff/internal.h"
#include "events/json.h"

static int put_recording(const struct diff_recording *recording, struct buf *out)
{
	int err = buf__puts(out, "{") ?: json__member(out, "side", recording->after ? "after" : "before");

	err = err ?: json__member(out, "file", recording->name) ?: json__member(out, "command", recording->command) ?: json__member(out, "machine", recording->machine);
	return err
		       ?: buf__printf(out,
				      ",\"pid\":%d,\"rate_hz\":%u,\"samples\":%llu,\"span_ns\":%"
				      "llu,\"time_ns\":%llu,\"compiles\":%llu,\"compiles_cut\":%llu,\"compiling_ns\":%llu,\"cut\":%s}",
				      recording->pid, recording->rate,
				      (unsigned long long)recording->samples,
				      (unsigned long long)recording->span,
				      (unsigned long long)recording->time,
				      (unsigned long long)recording->compiles,
				      (unsigned long long)recording->compiles_cut, (unsigned long long)recording->compiling,
				      recording->cut ? "true" : "false");
}

/* Which keys name a row depends on its table, as in `report --json`. */
static int put_row(const struct diff *diff, const struct diff_row *row, struct buf *out)
{
	struct diff_key key = diff__key(diff, row->row);
	const struct comparison *c = &row->comparison;
	double low, high;
	int err = buf__puts(out, "{") ?: json__member(out, "name", key.name);

	if (key.by == REPORT_FUNCTION || key.by == REPORT_LINE)
		err = err ?: json__member(out, "module", key.module);
	if (key.by == REPORT_LINE)
		err = err ?: buf__printf(out, ",\"line\":%u", key.line);
	if (key.by == REPORT_UNIT || key.by == REPORT_PHASE || key.by == REPORT_PASS)
		err = err ?: json__member(out, "compiler", key.module);
	if (key.by == REPORT_UNIT)
		err = err ?: json__member(out, "signature", key.detail);
	err = err
		      ?: buf__printf(
				 out,
				 ",\"samples\":%llu,\"before\":%.9g,\"after\":%.9g,\"change\":%.9g",
				 (unsigned long long)row->samples, c->before, c->after, c->change);
	if (c->margin >= 0) {
		comparison__range(c, diff__most(diff), &low, &high);
		err = err ?: buf__printf(out, ",\"margin\":%.9g,\"low\":%.9g,\"high\":%.9g", c->margin, low, high);
	}
	/* A ratio to nothing is no number. */
	if (c->before > 0)
		err = err ?: buf__printf(out, ",\"ratio\":%.6f", c->after / c->before);
	err = err ?: buf__printf(out, ",\"before_ns\":%.0f,\"after_ns\":%.0f", diff__mean_time(diff, row->row, false), diff__mean_time(diff, row->row, true));
	if (row->only)
		err = err ?: json__member(out, "only", row->only == DIFF_ONLY_BEFORE ? "before" : "after");
	if (row->rest.known)
		err = err ?: buf__printf(out, ",\"rest_ratio\":%.6f,\"rest_low\":%.6f,\"rest_high\":%.6f,\"rest_differs\":%s", row->rest.ratio,
					 row->rest.low, row->rest.high, row->rest.differs ? "true" : "false");
	return err ?: buf__printf(out, ",\"differs\":%s}", c->differs ? "true" : "false");
}

static int put_table(const struct diff *diff, enum report_by by, struct buf *out)
{
	const struct diff_table *table = &diff->tables[by];
	int err = buf__printf(out, "{\"by\":\"%s\",\"compared\":%u,\"differ\":%u,\"rest_differ\":%u,\"rows\":[", report_names[by],
			      table->n_rows - table->n_too_few, table->n_differ, table->n_rest_differ);

	for (uint32_t i = 0; i < table->n_rows && (!diff->options->top || i < diff->options->top) && !err;
	     i++)
		err = buf__puts(out, i ? ",\n" : "\n") ?: put_row(diff, &table->rows[i], out);
	return err ?: buf__puts(out, "]}");
}

static int put_total(const struct diff *diff, enum diff_total_kind kind, struct buf *out)
{
	const struct comparison c = diff__total(diff, kind);
	double low, high;
	int err = buf__puts(out, kind ? ",\n{" : "\n{") ?: json__member(out, "what", diff_total_names[kind].key);

	err = err ?: buf__printf(out, ",\"before\":%.9g,\"after\":%.9g,\"change\":%.9g", c.before, c.after, c.change);
	if (c.margin >= 0) {
		comparison__range(&c, 0, &low, &high);
		err = err ?: buf__printf(out, ",\"margin\":%.9g,\"low\":%.9g,\"high\":%.9g", c.margin, low, high);
	}
	return err ?: buf__printf(out, ",\"differs\":%s}", c.differs ? "true" : "false");
}

static int put_all(const struct diff *diff, struct buf *out)
{
	const char *separator = "";
	int by, err;

	err = buf__printf(out,
			  "{\"schema\":\"cprofd-diff\",\"major\":%d,\"minor\":%d,\"generator\":"
			  "\"cprofd@" CPROFD_VERSION "\"",
			  DIFF_MAJOR, DIFF_MINOR);
	err = err ?: json__member(out, "weight", diff->wall ? "wall" : "cpu");
	err = err ?: json__member(out, "times", diff->options->inclusive ? "inclusive" : "exclusive");
	err = err ?: json__member(out, "per", diff_per_names[diff->per]);
	err = err ?: buf__printf(out, ",\"level\":%.9g,\n\"recordings\":[", diff->options->level);
	for (uint32_t i = 0; i < diff->read && !err; i++)
		err = buf__puts(out, i ? ",\n" : "\n") ?: put_recording(&diff->recordings[i], out);
	err = err ?: buf__puts(out, "],\n\"totals\":[");
	for (by = 0; by < DIFF_TOTALS && !err; by++)
		err = put_total(diff, (enum diff_total_kind)by, out);
	err = err ?: buf__puts(out, "],\n\"tables\":[");
	for (by = 0; by < REPORT_BY_COUNT && !err; by++) {
		if (!diff__wants(diff, (enum report_by)by))
			continue;
		err = buf__puts(out, separator) ?: put_table(diff, (enum report_by)by, out);
		separator = ",\n";
	}
	return err ?: buf__puts(out, "]}\n");
}

int diff__json(const struct diff *diff, FILE *out)
{
	_cleanup_(buf__free) struct buf text = {};
	int err = put_all(diff, &text);

	return err ?: stream__write(out, text.data, text.len) ?: stream__flush(out);
}
