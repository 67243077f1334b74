/* SPDX-License-Identifier: MIT */
/* The table of output formats; finding a format by its name, or by the ending of a file's name. */
#include "export/export.h"

#include <string.h>
#include <unistd.h>

#include "base/stream.h"
#include "events/events.h"
#include "export/formats.h"

/* The order is that of --help. To add a format: a row here, its function in formats.h, and a file for it. */
const struct exporter exporters[] = {
	{"speedscope", ".speedscope.json",
	 "for speedscope.app: a time line for each thread, in nanoseconds", ".speedscope.json ?.json", .run = export__speedscope,
	 .no_units = "speedscope has a profile of each thread's compiles beside its samples"},
	{"collapsed", ".collapsed.txt",
	 "a line for each stack and its CPU time in microseconds (flamegraph.pl --countname=us, gprof2dot)",
	 ".collapsed .folded .collapsed.txt ?.txt", .run = export__collapsed, .readable = true},
	{"svg", ".svg", "a flame graph that a browser opens by itself: click to zoom, search by name",
	 ".svg", .run = export__svg, .readable = true},
	{"html", ".html",
	 "a page that a browser opens by itself: time line of compiles, their tree, tables, flame graph",
	 ".html .htm", .run = export__html, .rules = true, .readable = true},
	{"pprof", ".pb.gz",
	 "for `go tool pprof` and stores of profiles: CPU and wall time, functions and lines, labels",
	 ".pb.gz .pprof", .run = export__pprof},
	{"firefox", ".firefox.json.gz",
	 "for profiler.firefox.com: samples with classes of time as categories, compiles and waits as markers",
	 ".firefox.json.gz .firefox.json ?.json.gz", .run = export__firefox, .no_units = "Firefox Profiler has compiles as markers beside the samples"},
	{"perfetto", ".pftrace.gz",
	 "for ui.perfetto.dev and its SQL: a track of compiles for each thread, with classes of time, waits, work for others, stacks, counters",
	 ".pftrace.gz .pftrace .perfetto-trace .perfetto-trace.gz", .run = export__perfetto, .no_units = "Perfetto has a track of each thread's compiles beside its samples"},
	{"otlp", ".otlp.gz",
	 "for collectors of OpenTelemetry: its profiles (v1development), with compile, phase, pass and class as attributes of samples",
	 ".otlp.gz .otlp", .run = export__otlp, .no_units = "OpenTelemetry's profiles have compiles as attributes of the samples"},
	{"events", ".cprof", "the recording itself, from which every other format can be made",
	 ".cprof .ndjson .jsonl", .run = export__events, .no_units = "a recording has its compiles as events of their own"},
	{},
};

/* Names that py-spy's users know. */
static const struct {
	const char *alias, *name;
} aliases[] = {{"raw", "collapsed"}, {"flamegraph", "svg"}};

const struct exporter *exporter__find(const char *format)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(format, aliases[i].alias))
			format = aliases[i].name;
	for (const struct exporter *exporter = exporters; exporter->name; exporter++)
		if (!strcmp(format, exporter->name))
			return exporter;
	return NULL;
}

/* Has `name` one of the endings? One that begins with '?' is not sure (struct exporter.endings). */
static bool is_called(const char *name, const char *endings, bool *ret_sure)
{
	size_t len = strlen(name), n;

	for (; *endings; endings += n + (endings[n] == ' ')) {
		*ret_sure = *endings != '?';
		endings += !*ret_sure;
		n = strcspn(endings, " ");
		if (len > n && !strncasecmp(name + len - n, endings, n))
			return true;
	}
	return false;
}

const struct exporter *exporter__of_name(const char *name, bool *ret_sure)
{
	for (const struct exporter *exporter = exporters; exporter->name; exporter++)
		if (is_called(name, exporter->endings, ret_sure))
			return exporter;
	*ret_sure = false;
	return NULL;
}

const char *exporter__names(void)
{
	static char text[256];
	size_t i, len = 0;

	for (const struct exporter *exporter = exporters; exporter->name; exporter++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", exporter == exporters ? "" : ", ",
					exporter->name);
		for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
			if (!strcmp(aliases[i].name, exporter->name))
				len += (size_t)snprintf(text + len, sizeof(text) - len, " (%s)", aliases[i].alias);
	}
	return text;
}

int export__run(const char *format, int recording_fd, const struct export_options *options,
		FILE *out, struct export_report *ret)
{
	const struct exporter *exporter = exporter__find(format);
	struct export_options how = *options;
	int err;

	*ret = (struct export_report){};
	if (!exporter)
		return -ENOENT;
	if (lseek(recording_fd, 0, SEEK_SET) < 0 && errno != ESPIPE)
		return -errno;
	/* For stream__flush() below. */
	errno = 0;
	how.readable = exporter->readable;
	err = exporter->run(recording_fd, &how, out, ret);
	return err ?: stream__flush(out);
}
