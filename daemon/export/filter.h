/* SPDX-License-Identifier: MIT */
/* The filters of samples, the same for all exporters.
 *
 * A sample passes if it is of the given class, its stack has a frame of the given function and one of the given
 * module, and it is in no skipped compile (skip.c: for that the recording is read once more when the filter is
 * made). Threads and windows are cut by the model (exactly, also inside a sample). Owner: the options are borrowed.
 * Threading: none kept. Errors: -errno. */
#pragma once

#include "events/events.h"
#include "export/export.h"
#include "base/buf.h"

#define FILTER_LEFT_OUT "(left out)"

struct filter;

/* Does any option select samples? */
bool filter__wanted(const struct export_options *options);
/* recording_fd is used only for --skip-first, whose first pass restores its position. */
int filter__new(const struct export_options *options, int recording_fd, struct filter **ret);
/* Give it each event, in order. */
int filter__event(struct filter *filter, const struct event *event);
/* Does a sample of the last event pass? */
int filter__passes(struct filter *filter, const struct sample_row *row, bool *ret);
/* Are frames missing in this stack? */
bool filter__has_hole(const struct filter *filter, uint32_t stack);
/* After the recording was read. -ENOENT: a filter matched nothing. */
int filter__missing(const struct filter *filter, struct export_missing *ret);
void filter__free(struct filter *filter);

/* --- skip.c --- */
/* Which compiles are among the first N of their unit (--skip-first). That is known only at the end of a recording,
 * so it is read twice. Private to this directory.
 *
 * As in `report --by=repeat`, a unit is identified by compiler, function, definition line and signature, in one
 * process. Its compiles are counted in the order of their begin. A compile whose name is unknown counts as a unit of
 * its own. Everything inside a skipped compile is skipped with it, but counts like any other compile.
 * Zero-initialised is empty. Errors: -errno; -ESPIPE: the fd cannot be read twice. */
struct skip {
	struct buf rows;   /* bool by index among all rows of `units` in the recording: skipped */
	uint32_t compiles; /* in the recording */
};

/* Reads from the fd's position, and restores it. */
int skip__find(struct skip *skip, int recording_fd, uint32_t first);
void skip__free(struct skip *skip);

/* --- pattern.c --- */
/* How users name functions and modules in options. Pure. */
/* A pattern with * or ? must match the whole name. Without, it is the name or its last parts: `run_pass` and
 * `NativeLowering.run_pass` both match "NativeLowering.run_pass"; `runOnModule` matches
 * "llvm::Pass::runOnModule(Module&)". */
bool pattern__function(const char *pattern, const char *name);
/* A number is the pid; else it matches the command line, or a word of it, with or without its directory. */
bool pattern__process(const char *pattern, int32_t pid, const char *name);
/* The same with the first parts: `numba` matches "numba.core.compiler", `libLLVM-14` matches "libLLVM-14.so.1". */
bool pattern__module(const char *pattern, const char *name);
/* *: any bytes, ?: one byte. Time: at most length of the pattern times length of the text. */
bool pattern__glob(const char *pattern, const char *text);
