/* Files from anybody, as recordings, through every exporter. The first byte
 * chooses options and whether the rest is a file or the lines of one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "events/events.h"
#include "export/export.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct export_options options = {};
	const struct exporter *exporter;
	struct export_report report;
	FILE *out;
	int fd;

	if (!size)
		return 0;
	options.lines = data[0] & 1;
	options.idle = data[0] & 2;
	options.thread_names = data[0] & 4;
	options.from = data[0] & 8 ? 1000000 : 0;
	options.to = data[0] & 16 ? 5000000 : 0;
	options.max_bytes = data[0] & 32 ? 2000 : 0;
	fd = file_of(data + 1, size - 1, data[0] & 64);
	out = fopen("/dev/null", "we");
	for (exporter = exporters; exporter->name; exporter++)
		export__run(exporter->name, fd, &options, out, &report);
	fclose(out);
	close(fd);
	return 0;
}
