/* The report for spreadsheets: RFC 4180, one head, all tables one after another. */
#include <errno.h>
#include <string.h>

#include "report/internal.h"

static void put_field(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputs("\",", out);
}

/* `below`: a row that belongs to the one of `name` in the table `by`. */
static void put_row(enum report_by by, const struct table *table, const struct rank *rank, const char *name, bool below,
		    double total, FILE *out)
{
	struct row_key key = table__key(table, rank->row);

	put_field(out, report_names[by]);
	put_field(out, below ? name : key.name);
	put_field(out, key.file);
	fprintf(out, "%u,", key.line);
	put_field(out, key.module);
	put_field(out, kind__name(key.kind));
	put_field(out, below ? key.name : "");
	put_field(out, by == REPORT_THREAD ? key.detail : "");
	fprintf(out, "%.0f,%.0f,%.9f,%.9f,%.9f,%.0f,%.0f,", rank->exclusive, rank->inclusive,
		total > 0 ? rank->exclusive / total : 0, total > 0 ? rank->inclusive / total : 0,
		total > 0 ? rank->running / total : 0, rank->exclusive_sd, rank->inclusive_sd);
	put_field(out, by == REPORT_UNIT ? key.detail : "");
	fprintf(out, "%.6g,%.0f\r\n", rank->calls, rank->elapsed);
}

static int put_table(struct report *report, const struct table *table, FILE *out)
{
	const struct table *below = NULL;
	uint32_t row, i;
	int err = 0;

	for (row = 0; row < table->n_ranks && !err; row++) {
		struct row_key key = table__key(table, table->ranks[row].row);

		put_row(table->by, table, &table->ranks[row], "", false, table->total, out);
		if (table->by != REPORT_THREAD)
			continue;
		err = report__rank_below(report, table->by, table->ranks[row].row, 0, &below);
		for (i = 0; !err && below && i < below->n_ranks; i++)
			put_row(table->by, below, &below->ranks[i], key.name, true, table->total, out);
	}
	return err;
}

int report__csv(struct report *report, FILE *out)
{
	uint32_t i;
	int err = 0;

	errno = 0;
	fputs("table,name,file,line,module,kind,class,process,exclusive_ns,inclusive_ns,exclusive_"
	      "share,"
	      "inclusive_share,running_share,exclusive_sd_ns,inclusive_sd_ns,signature,calls,elapsed_ns\r\n",
	      out);
	for (i = 0; i < REPORT_BY_COUNT && !err; i++)
		if (report__wants(report, (enum report_by)i))
			err = put_table(report, &report->tables[i], out);
	if (err)
		return err;
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
