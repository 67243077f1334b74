/* SPDX-License-Identifier: MIT */
/* make_recording [-t THREADS] [-s SECONDS] [-r RATE] [-d DEPTH] [-e EPOCH_SECONDS] [-f FORMAT] [-m
 * MAX_BYTES] [-l] [-u] -o FILE A synthetic recording (zstd), or what an exporter makes of it; -l: lines; -u: compiles.
 * Prints the truth about it as JSON: of each thread its begin, wall, cpu, and CPU by leaf function.
 */
#include <fcntl.h>
#include <unistd.h>

#include "../tools/synthetic.h"
#include "base/buf.h"
#include "export/export.h"

struct file_sink {
	struct event_sink sink;
	struct recording_writer *writer;
	struct buf line;
	unsigned events;
};

static int write_event(struct event_sink *self, const struct event *event)
{
	struct file_sink *file = (struct file_sink *)self;
	int err;

	file->line.len = 0;
	err = event__encode(event, &file->line);
	if (!err)
		err = recording_writer__lines(file->writer, file->line.data, file->line.len);
	if (!err && ++file->events % 50 == 0)
		err = recording_writer__flush(file->writer);
	return err;
}

static void print_truth(const struct synthetic *s)
{
	uint32_t i, f;
	char name[64];

	printf("[");
	for (i = 0; i < s->threads; i++) {
		const struct synthetic_thread *thread = &s->truth[i];
		const char *separator = "";

		printf("%s{\"tid\":%u,\"begin\":%" PRIu64 ",\"end\":%" PRIu64 ",\"wall\":%" PRIu64
		       ",\"cpu\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"self\":{",
		       i ? ",\n" : "", 4242 + i, thread->begin, thread->end, thread->wall,
		       thread->cpu, thread->samples);
		for (f = 0; f < SYNTHETIC_FUNCTIONS; f++)
			if (thread->self[f]) {
				synthetic_name(f, name);
				printf("%s\"%s\":%" PRIu64, separator, name, thread->self[f]);
				separator = ",";
			}
		printf("}}");
	}
	printf("]\n");
}

static int export_to(const char *format, int fd, const struct export_options *options,
		     const char *path)
{
	struct export_report report;
	FILE *out = fopen(path, "we");
	int err = out ? export__run(format, fd, options, out, &report) : -1;

	if (out && fclose(out))
		err = -1;
	if (err)
		fprintf(stderr, "make_recording: %s: %s\n", path, strerror(-err));
	return err;
}

int main(int argc, char **argv)
{
	static struct synthetic s = {
		.threads = 1, .rate = 999, .seconds = 10, .depth = 60, .seed = 1};
	struct file_sink file = {.sink = {write_event}};
	struct export_options options = {};
	const char *format = NULL, *path = NULL;
	int option, fd;

	while ((option = getopt(argc, argv, "t:s:r:d:e:f:m:luo:")) != -1) {
		switch (option) {
		case 't':
			s.threads = (uint32_t)atoi(optarg);
			break;
		case 's':
			s.seconds = (uint32_t)atoi(optarg);
			break;
		case 'r':
			s.rate = (uint32_t)atoi(optarg);
			break;
		case 'd':
			s.depth = (uint32_t)atoi(optarg);
			break;
		case 'e':
			s.epoch_seconds = (uint32_t)atoi(optarg);
			break;
		case 'f':
			format = optarg;
			break;
		case 'm':
			options.max_bytes = strtoull(optarg, NULL, 10);
			break;
		case 'l':
			options.lines = true;
			break;
		case 'u':
			s.units = true;
			break;
		case 'o':
			path = optarg;
			break;
		default:
			return 2;
		}
	}
	if (!path || s.threads < 1 || s.depth < 2 || s.depth > SYNTHETIC_DEPTH)
		return 2;
	fd = format ? open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
		    : open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || recording_writer__new(fd, true, &file.writer)) {
		perror(path);
		return 1;
	}
	s.sink = &file.sink;
	synthetic_run(&s);
	if (recording_writer__flush(file.writer))
		return 1;
	recording_writer__free(file.writer);
	buf__free(&file.line);
	print_truth(&s);
	synthetic_free(&s);
	return format && export_to(format, fd, &options, path) ? 1 : 0;
}
