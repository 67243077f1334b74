/* SPDX-License-Identifier: MIT */
/* Shared by the tests of exporters: a synthetic recording in memory, an exporter's output, and its JSON. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../tools/synthetic.h"
#include "base/cleanup.h"
#include "events_util.h"
#include "export/export.h"
#include "report/report.h"

static inline void memory_open(struct memory *memory)
{
	*memory = (struct memory){.sink = {memory_event},
				  .fd = memfd_create("recording", MFD_CLOEXEC)};
	assert_int_equal(recording_writer__new(memory->fd, true, &memory->writer), 0);
}

static inline int memory_close(struct memory *memory)
{
	assert_int_equal(recording_writer__flush(memory->writer), 0);
	recording_writer__free(memory->writer);
	buf__free(&memory->line);
	return memory->fd;
}

static inline int made_up(struct synthetic *s)
{
	struct memory memory;

	memory_open(&memory);
	s->sink = &memory.sink;
	synthetic_run(s);
	return memory_close(&memory);
}

/* What report prints of it with --json. */
static inline json_t *report_of(int fd, const struct report_options *options)
{
	struct report *report;
	size_t len;
	char *text = NULL;
	FILE *out = open_memstream(&text, &len);
	json_t *json;

	assert_int_equal(report__new(options, 1, &report), 0);
	assert_int_equal(report__read(report, fd, "it"), 0);
	assert_int_equal(report__finish(report), 0);
	assert_int_equal(report__json(report, out), 0);
	fclose(out);
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	free(text);
	report__free(report);
	return json;
}

static inline char *run(const char *format, int fd, const struct export_options *options,
		 struct export_report *ret, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	assert_int_equal(export__run(format, fd, options, out, ret), 0);
	fclose(out);
	return text;
}

static inline json_t *export_json(int fd, const struct export_options *options, struct export_report *ret)
{
	size_t len;
	char *text = run("speedscope", fd, options, ret, &len);
	json_error_t error;
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

	if (!json)
		fail_msg("%s at %d", error.text, error.position);
	assert_true(len <= (options->max_bytes ? options->max_bytes : EXPORT_BYTES_MAX));
	free(text);
	return json;
}

static inline const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static inline uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static inline json_t *frames_of(const json_t *file)
{
	return json_object_get(json_object_get(file, "shared"), "frames");
}

static inline json_t *profile_of(const json_t *file, const char *name)
{
	json_t *profiles = json_object_get(file, "profiles"), *profile;
	size_t i;

	json_array_foreach(profiles, i,
			   profile) if (!strcmp(text_of(profile, "name"), name)) return profile;
	fail_msg("no profile %s", name);
	return NULL;
}
