/* SPDX-License-Identifier: MIT */
/* Lines of a recording -> every table of a report, a comparison with itself, and each format, with filters. The
 * first byte chooses the filters. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "diff/diff.h"
#include "report/report.h"

#define NDJSON_HEAD 1
#include "ndjson.h"

static void export_to(const char *format, int fd, const struct export_options *options)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct export_report done;

	if (!out)
		return;
	export__run(format, fd, options, out, &done);
	fclose(out);
}

static void report_to_nobody(int fd, const struct export_options *filter)
{
	const struct report_options options = {.filter = *filter,
					       .tables = (1u << REPORT_BY_COUNT) - 1,
					       .callers = "f*",
					       .callees = "g",
					       .phases = filter->lines,
					       .native_frames = filter->idle,
					       .sort = filter->from ? REPORT_SORT_START : REPORT_SORT_DEFAULT,
					       .top = 10};
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct report *report;

	if (!out || report__new(&options, 2, &report))
		return;
	if (!report__read(report, fd, "a") && !report__read(report, fd, "b") &&
	    !report__finish(report)) {
		report__text(report, out);
		report__json(report, out);
		report__csv(report, out);
	}
	report__free(report);
	fclose(out);
}

static void compare_with_itself(int fd, const struct export_options *filter)
{
	const struct diff_options options = {.filter = *filter,
					     .tables = DIFF_TABLES,
					     .inclusive = filter->lines,
					     .per = filter->idle ? DIFF_COMPILE : DIFF_SHARE,
					     .flame = !filter->thread_names,
					     .level = 0.999};
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct diff *diff;

	if (!out || diff__new(&options, 3, &diff))
		return;
	if (!diff__read(diff, fd, "a", false) && !diff__read(diff, fd, "b", true) && !diff__read(diff, fd, "c", true) &&
	    !diff__finish(diff)) {
		diff__text(diff, out);
		diff__json(diff, out);
		if (options.flame) {
			diff__html(diff, out);
			diff__speedscope(diff, out);
		}
	}
	diff__free(diff);
	fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct export_options options = {};
	int fd;

	if (!size)
		return 0;
	options.lines = *data & 1;
	options.function = *data & 2 ? "f*" : NULL;
	options.module = *data & 4 ? "numba" : NULL;
	options.class_name = *data & 8 ? "not determined" : NULL;
	options.thread = *data & 16 ? "python3" : NULL;
	options.from = *data & 32 ? 1000 : 0;
	options.thread_names = *data & 64;
	options.idle = *data & 128;
	options.skip_first = *data >> 6; /* up to 3 */
	fd = memfd_create("lines", MFD_CLOEXEC);
	if (fd < 0)
		return 0;
	if (write(fd, data + 1, size - 1) == (ssize_t)(size - 1)) {
		report_to_nobody(fd, &options);
		compare_with_itself(fd, &options);
		export_to("svg", fd, &options);
		export_to("pprof", fd, &options);
		export_to("otlp", fd, &options);
		export_to("collapsed", fd, &options);
		export_to("speedscope", fd, &options);
	}
	close(fd);
	return 0;
}
