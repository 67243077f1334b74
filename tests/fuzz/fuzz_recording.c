/* SPDX-License-Identifier: MIT */
/* Files from anybody, as recordings, through the exporters. The first byte chooses options and whether the rest is a file or the
 * lines of one, the second the exporter. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "events/events.h"
#include "export/export.h"
#include "rules/rules.h"

#define NDJSON_HEAD 2
#include "ndjson.h"

static int file_of(const uint8_t *data, size_t size, int compress)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);
	struct recording_writer *writer;

	if (fd < 0)
		abort();
	if (!compress) {
		if (write(fd, data, size) != (ssize_t)size)
			abort();
		return fd;
	}
	if (recording_writer__new(fd, true, &writer))
		abort();
	recording_writer__lines(writer, (const char *)data, size);
	if (recording_writer__flush(writer))
		abort();
	recording_writer__free(writer);
	return fd;
}

/* They are the same for each input; to read them takes longer than most of these. */
static const struct rules *rules_of_the_program(void)
{
	static struct rules *rules;
	struct rules_error error;

	if (!rules && (rules__new(&rules) || rules__builtin(rules, &error)))
		abort();
	return rules;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *out;
	struct export_options options = {.rules = rules_of_the_program()};
	const struct exporter *exporter;
	struct export_report report;
	unsigned n = 0;
	int fd;

	if (size < NDJSON_HEAD)
		return 0;
	out = out ? out : fopen("/dev/null", "we");
	options.lines = data[0] & 1;
	options.idle = data[0] & 2;
	options.thread_names = data[0] & 4;
	options.from = data[0] & 8 ? 2000 : 0;
	options.to = data[0] & 16 ? 5000 : 0;
	options.max_bytes = data[0] & 32 ? 2000 : 0;
	options.units = data[0] & 128;
	options.fold_interpreter = data[1] & 128;
	options.function = data[1] & 64 ? "f*" : NULL;
	options.skip_first = data[1] & 32 ? 1 : 0;
	for (exporter = exporters; exporter->name; exporter++)
		n++;
	fd = file_of(data + NDJSON_HEAD, size - NDJSON_HEAD, data[0] & 64 && data[1] & 16);
	export__run(exporters[data[1] % 16 % n].name, fd, &options, out, &report);
	close(fd);
	return 0;
}
