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

static void put_row(const struct table *table, const struct rank *rank, FILE *out)
{
	struct row_key key = table__key(table, rank->row);
	bool thread = table->by == REPORT_THREAD;

	put_field(out, report_names[table->by]);
	put_field(out, key.name);
	put_field(out, thread ? "" : key.file);
	fprintf(out, "%u,", key.line);
	put_field(out, thread ? "" : key.module);
	put_field(out, kind__name(key.kind));
	put_field(out, thread ? key.file : "");
	put_field(out, thread ? key.module : "");
	fprintf(out, "%.0f,%.0f,%.9f,%.9f,%.9f,%.0f,%.0f\r\n", rank->exclusive, rank->inclusive,
		table->total > 0 ? rank->exclusive / table->total : 0,
		table->total > 0 ? rank->inclusive / table->total : 0,
		table->total > 0 ? rank->running / table->total : 0, rank->exclusive_sd,
		rank->inclusive_sd);
}

int report__csv(struct report *report, FILE *out)
{
	uint32_t i, row;

	errno = 0;
	fputs("table,name,file,line,module,kind,class,process,exclusive_ns,inclusive_ns,exclusive_"
	      "share,"
	      "inclusive_share,running_share,exclusive_sd_ns,inclusive_sd_ns\r\n",
	      out);
	for (i = 0; i < REPORT_BY_COUNT; i++) {
		const struct table *table = &report->tables[i];

		for (row = 0; report__wants(report, table->by) && row < table->n_ranks; row++)
			put_row(table, &table->ranks[row], out);
	}
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
