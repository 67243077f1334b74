/* SPDX-License-Identifier: MIT */
/* The file that a command writes, with the calling user's rights. It is written under a temporary name beside the
 * wanted one and renamed when it is complete. (A recording's temporary name is NAME.part, so that users find it if
 * cprofd was killed.) A symbolic link is refused; something that is no regular file (a pipe, /dev/null) is written
 * to directly. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* One file that is being written. OUTPUT_NONE, or filled in by output__open(); output__close() accepts both. */
struct output {
	const char *path;      /* as the user gave it; "-": stdout */
	/* open for writing, and for reading if it is a regular file; -1: not open */
	int fd;
	int directory;         /* of the two names below; -1: the file is written directly */
	/* both relative to `directory`; "": the file has no temporary name (any more) */
	char name[256];
	char temporary[288];
};
#define OUTPUT_NONE ((struct output){.fd = -1, .directory = -1})

/* A new stream with a duplicate of the descriptor; the caller closes it before output__commit(). NULL: see errno. */
FILE *output__stream(const struct output *output);
/* Prints its own errors; CLI_DONE or CLI_COULD_NOT. `path` is borrowed. `sampling`: the output of a session that has
 * not begun. `part`: the file is useful even if it stays incomplete, so its temporary name is NAME.part. */
int output__open(const char *path, bool sampling, bool part, struct output *ret);
/* The same for a file, without words: -errno. */
int output__create(const char *path, bool part, struct output *ret);
/* Renames the file to its final name. On -errno the temporary file stays. Errors of the disk must have been
 * reported by fclose() or the writer before: a rename makes a file visible, not correct. */
int output__commit(struct output *output);
/* Closes the file; removes it if it was not committed. */
void output__close(struct output *output);

/* A recording beside `output` (or in $TMPDIR if that is no regular file), from which the output is made later. It
 * has its own name from the start, STEM.cprof or STEM-1.cprof ..., so it is still there if cprofd is killed. */
struct recording_file {
	int fd;
	int directory;
	char name[256];
	char path[PATH_MAX + 260]; /* for messages */
};
#define RECORDING_FILE_NONE ((struct recording_file){.fd = -1, .directory = -1})
/* Prints its own errors; CLI_*. `stem`: of result__stem(), without a directory. */
int recording_file__open(const struct output *output, const char *stem, struct recording_file *ret);
/* Deletes it, for when the output was made. Accepts one that is closed or was never open. */
void recording_file__remove(struct recording_file *file);
void recording_file__close(struct recording_file *file); /* keeps it */
