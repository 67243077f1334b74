/* SPDX-License-Identifier: MIT */
/* The bytes are a source, whose lines `report --annotate` lists, as text and as JSON: two of them, which the first bytes choose, and one that no
 * source has. Nothing but text that is safe for a terminal comes out, and each of these lines has its figures. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "report/report.h"

static const uint8_t *source;
static size_t source_size;

static int open_source(const char *path)
{
	int fd = memfd_create(path, MFD_CLOEXEC);

	if (fd < 0 || write(fd, source, source_size) != (ssize_t)source_size || lseek(fd, 0, SEEK_SET))
		abort();
	return fd;
}

static int make_recording(unsigned first, unsigned second)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);

	dprintf(fd,
		"{\"ev\":\"hello\",\"major\":1,\"minor\":11}\n"
		"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,\"command\":\"c\"}\n"
		"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,\"name\":\"p\"}\n"
		"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"
		"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"C\",\"f\",\"i\",1000,0,\"a.py\",2]]}\n"
		"{\"ev\":\"lines\",\"first\":1,\"rows\":[[0,1,\"a.py\",%u],[0,1,\"a.py\",%u],[0,1,\"a.py\",2147483647]]}\n"
		"{\"ev\":\"samples\",\"t\":[1100,100,100],\"wall\":[100,100,100],\"cpu\":[100,100,100],\"thread\":[0,0,0],\"unit\":[1,1,1],\"line\":[1,2,3]}\n"
		"{\"ev\":\"end\",\"time\":9000}\n",
		first, second);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void judge(const char *text, unsigned line)
{
	char figures[64];

	snprintf(figures, sizeof(figures), "%10u  ", line);
	if (!strstr(text, figures))
		abort();
}

/* It parses, and has both listed lines and the one that no source has. */
static void judge_json(struct report *report)
{
	char *text = NULL;
	size_t len = 0, timed = 0, i;
	FILE *out = open_memstream(&text, &len);
	json_t *json, *line;

	if (!out || report__json(report, out))
		abort();
	fclose(out);
	json = json_loadb(text, len, 0, NULL);
	json_array_foreach(json_object_get(json_array_get(json_object_get(json, "sources"), 0), "lines"), i, line)
		timed += json_object_get(line, "each") != NULL;
	if (timed != 3)
		abort();
	json_decref(json);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct report_options options = {.tables = 1u << REPORT_SOURCE_LINE, .open_source = open_source};
	unsigned first = size > 1 ? 1u + (data[0] & 15) : 1, second = size > 1 ? first + 1u + data[1] : 2;
	_cleanup_close_ int fd = make_recording(first, second);
	struct report *report;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	source = data;
	source_size = size;
	if (!out || report__new(&options, 1, &report) || report__read(report, fd, "it") || report__finish(report) || report__text(report, out))
		abort();
	fclose(out);
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)text[i] < ' ' && text[i] != '\n') || text[i] == 127)
			abort();
	judge(text, first);
	judge(text, second);
	judge(text, 2147483647);
	free(text);
	judge_json(report);
	report__free(report);
	return 0;
}
