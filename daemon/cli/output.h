/* SPDX-License-Identifier: MIT */
/* The file that a command writes, in the calling user's name: a temporary name
 * beside it first (of a recording NAME.part, which somebody finds who lost cprofd), the wanted name when it is whole. A name that is a symbolic
 * link is refused, something that is no regular file (a pipe, /dev/null) is
 * written to as it is. */
#ifndef CPROFD_CLI_OUTPUT_H
#define CPROFD_CLI_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct output {
	const char *path;      /* as the user gave it; "-": stdout */
	int fd;                /* -1: not open */
	int directory;         /* where the two names below are; -1: written directly */
	char name[256];
	char temporary[288];
};
#define OUTPUT_NONE ((struct output){.fd = -1, .directory = -1})

/* A stream onto the open file, with a descriptor of its own: the caller's, to be closed before output__commit(). NULL: errno. */
FILE *output__stream(const struct output *output);
/* Refused with words of its own; CLI_DONE or CLI_COULD_NOT. `path` is borrowed. `sampling`: it is for what is to be
 * sampled. `part`: what is written is of use before it is whole. */
int output__open(const char *path, bool sampling, bool part, struct output *ret);
/* Gives the file its name. -errno; the temporary file is kept then. */
int output__commit(struct output *output);
/* Removes what was not committed; closes. */
void output__close(struct output *output);

/* A recording beside `output` (or in $TMPDIR when that is no regular file) that
 * stays under its name when cprofd is killed: STEM.cprof, STEM-1.cprof... */
struct recording_file {
	int fd;
	int directory;
	char name[256];
	char path[PATH_MAX + 260]; /* for people */
};
#define RECORDING_FILE_NONE ((struct recording_file){.fd = -1, .directory = -1})
int recording_file__open(const struct output *output, const char *stem, struct recording_file *ret);
void recording_file__remove(struct recording_file *file);
void recording_file__close(struct recording_file *file); /* keeps it */

#endif
