/* SPDX-License-Identifier: MIT */
/* The files of attach and record: the recording, and the output that is made from it. The recording is kept
 * when anything after it fails. Prints its own errors; returns CLI_*.
 *
 * Order of calls: result__open(), the session writes to result__recording(), result__finish(),
 * result__close(). result__close() may be called at any point, also on RESULT_NONE. */
#pragma once

#include <sys/types.h>

#include "cli/cli.h"
#include "cli/output.h"

struct result {
	const struct cli_options *options;
	/* canonical name (export/export.h); static */
	const char *format;
	char stem[64]; /* beginning of default names: cprofd-PID-TIME */
	char default_path[128];
	bool write_file;	  /* false: --stream alone */
	bool recording_is_output; /* -f events */
	struct output output;
	/* only if the recording is not the output itself */
	struct recording_file file;
};
#define RESULT_NONE ((struct result){.output = OUTPUT_NONE, .file = RECORDING_FILE_NONE})

/* Opens both files, before anything is sampled. */
int result__open(struct result *result, const struct cli_options *options, pid_t pid);
/* cprofd-PID-TIME */
void result__stem(pid_t pid, char *ret, size_t size);
/* Descriptor to write the events to, and to read them from afterwards. The result owns it. */
int result__recording(const struct result *result);
/* Is the recording compressed with zstd, or plain lines? */
bool result__compressed(const struct result *result);
/* Makes the output from the complete recording. */
int result__finish(struct result *result);
/* Removes files that were neither finished nor kept. */
void result__close(struct result *result);
