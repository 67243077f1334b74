/* SPDX-License-Identifier: MIT */
/* Namer: a thread that reads what gives native code its names, so that the engine's loop never waits for it: symbol
 * tables, where the eval loop lies, lines from debug information, /proc/kallsyms.
 *
 *     loop: names__file() -> -EAGAIN             thread: opens the symbols, publishes them
 *         codemap__line() -> -EAGAIN                   reads debug information, for each address once
 *         namer__event() is readable: a file is asked for -> broker -> namer__answer()
 *
 * Two threads: the loop (the engine's main thread, which handles samples) and the namer's own. A table that is ready
 * is searched by the loop: some microseconds. The thread alone reads debug information: of one module at a time, for
 * all addresses that were asked for by then, and then not again for a pause that grows, since a unit of debug
 * information is read whole for one address as for a hundred.
 *
 * Owner: a namer for each session; it owns its names, until it ends. Threads: all functions here belong to one
 * thread, the loop's. All bytes are the target's. Errors: -errno. Units: vaddrs, as the ELF file counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classes/callables.h"
#include "symbols/symbols.h"
#include "weave/eval_ranges.h"

/* Limits of one namer. */
#define NAMER_LINES_WAITING 8192u   /* addresses; more wait for the next question */
#define NAMER_LINES_KEPT 65536u	    /* answers; then they are asked for anew */
#define NAMER_TEXT_MAX (4u << 20)   /* of file names in them */
#define NAMER_DOWNLOADS 2u	    /* from debuginfod at once */
#define NAMER_IMAGE_MAX (16u << 20) /* of an object of a JIT compiler */
#define NAMER_SMALL_BYTES (4 << 20) /* of a file whose tables of callables are read in the loop: 1 ms */
#define NAMER_KALLSYMS "/proc/kallsyms"

struct namer;
struct names; /* of one module */

/* `folder`: as codemap__new(). */
int namer__new(int folder, struct namer **ret);
/* NULL. Does not wait: the thread ends, and frees it, when its file lets it. */
struct namer *namer__free(struct namer *namer);

/* --- modules. NULL: out of memory --- */

/* A file: `fd` is copied. `path`, `pid`: as which process sees it, for its debug file. */
struct names *namer__add_file(struct namer *namer, int fd, const char *path, int32_t pid);
/* The vDSO: the bytes are copied. */
struct names *namer__add_image(struct namer *namer, const void *image, size_t size);
/* An object of a JIT compiler, for its lines: read from the target's memory (`mem` is copied). It may be gone or
 * another one by then: see names__file(). */
struct names *namer__add_object(struct namer *namer, int mem, uint64_t address, uint64_t size);
struct names *namer__add_kernel(struct namer *namer);

/* --- tables: -EAGAIN until they were read --- */

/* Its symbols, to be searched by this thread until the next namer__tick(). *ret_error: 0, or why there are none. For an
 * object: its image was copied before this said 0. */
const struct symbol_file *names__file(const struct names *names, int *ret_error);
/* Its functions that Python code can call; NULL: not read yet. */
const struct callables *names__callables(struct names *names);
/* Where the eval loop lies, in a module that holds an interpreter; the first call asks for it, ahead of all
 * else. *ret lives as long as the names. -ENOENT: there is none. */
int names__eval(struct names *names, const struct eval_ranges **ret);
/* Have its symbols been read, and lines been asked for once? Then answers stay as they are until namer__renewed()
 * changes. */
bool names__settled(const struct names *names);
/* No address of it has a line, and none will. */
bool names__lineless(const struct names *names);

/* Takes what the thread has finished. Called at each poll, every 20 to 100 ms. */
void namer__tick(struct namer *namer);
/* Are symbols of modules still being read? */
bool namer__reads(const struct namer *namer);
/* Are lines? */
bool namer__waits(const struct namer *namer);
/* The session ends: lines are read at once, without pauses to gather questions. */
void namer__hurry(struct namer *namer);
/* A number that changes when an answer may have changed, except those about lines. */
uint64_t namer__changes(const struct namer *namer);
/* The same for names that were settled: a debug file came from debuginfod. And for answers about lines: */
uint64_t namer__renewed(const struct namer *namer);
uint64_t namer__lines_generation(const struct namer *namer);

/* --- files that it asks for --- */

int namer__event(const struct namer *namer); /* readable: there is a question. Borrowed */
/* NAMER_KALLSYMS, or a path below /usr/lib/debug as `*ret_pid` sees it. False: no question, or it was given
 * already. */
bool namer__question(struct namer *namer, int32_t *ret_pid, const char **ret_path);
void namer__answer(struct namer *namer, int fd); /* taken; or -errno. -ENODEV: that tree has no such branch */
