/* SPDX-License-Identifier: MIT */
/* What attach and record leave behind: the recording, and the file that was asked for, made of it. The recording stays when
 * anything after it fails. Speaks; CLI_*. */
#ifndef CPROFD_CLI_RESULT_H
#define CPROFD_CLI_RESULT_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "cli/output.h"

struct result {
	const struct cli_options *options;
	const char *format;
	char stem[64]; /* of names: cprofd-PID-TIME */
	char default_path[128];
	bool write_file;	  /* false: --stream alone */
	bool recording_is_output; /* -f events */
	struct output output;
	struct recording_file file;
};
#define RESULT_NONE ((struct result){.output = OUTPUT_NONE, .file = RECORDING_FILE_NONE})

/* Opens both, before anything is sampled. */
int result__open(struct result *result, const struct cli_options *options, pid_t pid);
/* cprofd-PID-TIME */
void result__stem(pid_t pid, char *ret, size_t size);
int result__recording(const struct result *result);
/* zstd, or plain lines? */
bool result__compressed(const struct result *result);
/* The file that was asked for, of a whole recording. */
int result__finish(struct result *result);
/* Removes what was not finished, and not kept. */
void result__close(struct result *result);

#endif
