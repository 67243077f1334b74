/* SPDX-License-Identifier: MIT */
/* Namer: a thread that reads what gives native code its names, so that the engine's loop never waits for it: symbol
 * tables, where the eval loop lies, lines from debug information, /proc/kallsyms.
 *
 *     loop: names__file() -> -EAGAIN             thread: opens the symbols, publishes them
 *         codemap__line() -> -EAGAIN                   reads debug information, for each address once
 *         codemap__event() is readable: a file is asked for -> broker -> codemap__answer()
 *
 * Two threads: the loop (the engine's main thread, which handles samples) and the namer's own. A table that is ready
 * is searched by the loop: some microseconds. The thread alone reads debug information: of one module at a time, for
 * all addresses that were asked for by then, and then not again for a pause that grows, since a unit of debug
 * information is read whole for one address as for a hundred.
 *
 * Owner: a namer for each session; it owns its names, until it ends. Threads: the loop's, where nothing else is
 * said. All bytes are the target's. Errors: -errno. Units: vaddrs, as the ELF file counts.
 *
 *    names:     WAITS --thread: read_symbols()--> READ (file, or error)
 *               READ --thread: install()--> `fresh` --loop: namer__tick()--> file
 *    question:  NEW --loop: codemap__question()--> GIVEN --loop: codemap__answer()--> ANSWERED --thread--> NONE
 *
 * namer_ask.c is the loop's side (in find.c that of lines), namer.c and namer_lines.c are the thread's. `lock` guards
 * what both threads touch; of everything else a comment says whose it is. The lock is held for a few instructions only,
 * never while a file is read. */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "base/texts.h"
#include "broker/broker.h"
#include "classes/callables.h"
#include "codemap/known_names.h"
#include "weave/eval_ranges.h"

/* Limits of one namer. */
#define NAMER_LINES_WAITING 8192u   /* addresses; more wait for the next question */
#define NAMER_LINES_KEPT 65536u	    /* answers; then they are asked for anew */
#define NAMER_TEXT_MAX (4u << 20)   /* of file names in them */
#define NAMER_DOWNLOADS 2u	    /* from debuginfod at once */
#define NAMER_IMAGE_MAX (16u << 20) /* of an object of a JIT compiler */
#define NAMER_SMALL_BYTES (4 << 20) /* of a file whose tables of callables are read in the loop: 1 ms */
#define NAMER_KALLSYMS "/proc/kallsyms"

enum names_kind { NAMES_FILE, NAMES_IMAGE, NAMES_OBJECT, NAMES_KERNEL };
enum names_state { NAMES_WAITS, NAMES_READ };
enum eval_state { EVAL_NONE, EVAL_WANTED, EVAL_READ };
enum download_state { DOWNLOAD_NONE, DOWNLOAD_WANTED, DOWNLOAD_RUNS, DOWNLOAD_OVER };
enum question_state { QUESTION_NONE, QUESTION_NEW, QUESTION_GIVEN, QUESTION_ANSWERED };

/* An address whose line is asked for. */
struct line_job {
	struct line_job *next;
	uint64_t vaddr;
	int error;
	uint32_t line, column;
	char *file; /* or NULL */
};

/* One module's names. It lives until the namer ends, so the thread may walk the list without the lock: entries are
 * added in front and never removed. */
struct names {
	struct namer *namer;
	struct names *next; /* older */
	uint32_t number;
	/* constant once the thread may see it */
	enum names_kind kind;
	char *path;
	int32_t pid;
	uint32_t module;
	void *image;
	size_t image_size;
	uint64_t address;
	struct symbol_opener opener;
	int fd;
	/* the thread's */
	struct symbol_file *work;
	struct debuginfod_job *download;
	enum download_state download_state;
	uint64_t lines_again; /* CLOCK_MONOTONIC ns: not before */
	uint64_t lines_pause; /* ns; the next one is twice as long */
	/* under lock */
	enum names_state state;
	int error;
	struct symbol_file *file;  /* what the loop asks: changed by the loop alone once it is there */
	struct symbol_file *fresh; /* to take its place */
	enum eval_state eval_state;
	struct eval_ranges eval; /* constant once it was read */
	/* Of a small file the loop's, which reads it itself; else constant once `state` is READ. */
	struct callables callables;
	struct kept_names kept; /* constant once `state` is READ, but for the loop, which drops them */
	bool small, small_read; /* the loop's; `small` is constant */
	struct line_job *asked, *done;
	bool lines_sought; /* lines were read once; debuginfod may still bring a debug file */
	bool no_lines;	   /* there are none, and none will come */
	bool lineless;	   /* the loop's copy of no_lines */
	/* The loop's copy of lines_sought: answers stay as they are until namer.renewed changes. */
	bool settled;
};

#define ABSENT_MAX 64u
/* The loop's copy of an answer about one address, so that asking again costs no lock. */
struct line_row {
	uint64_t vaddr;
	uint32_t names; /* number */
	uint32_t line, column;
	int32_t error; /* -EAGAIN: on its way */
	const char *file;
};

struct namer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, answered;
	int event;
	int folder; /* where what takes long to make of a file is kept; < 0: nowhere */
	struct known_names known; /* at the end: to be stored */
	bool started, downloads_on;
	/* under lock */
	bool stop;
	bool kick;	    /* something was requested since the thread last read the list */
	bool hurry;	    /* lines are read without a pause */
	bool rested;	    /* idle: its memory was given back to the system */
	bool answered_some; /* since the loop's last tick; read without the lock */
	struct names *all;  /* the newest first; entries are never removed */
	uint64_t news;
	enum question_state question_state;
	bool question_lost;
	char question[BROKER_DEBUG_PATH_MAX];
	int32_t question_pid;
	int answer;
	/* the thread's */
	struct {
		int32_t pid;
		char branch[28];
	} absent[ABSENT_MAX]; /* top-level entries of /usr/lib/debug that a process does not have */
	uint32_t n_absent;
	uint64_t trimmed; /* when its memory was given back: CLOCK_MONOTONIC ns */
	/* the loop's */
	/* Each changes when an answer may have: but for lines; of names that were settled (a debug file came from
	 * debuginfod); about lines. */
	uint64_t changes, renewed, lines_taken;
	uint32_t n_names, waiting; /* waiting: for lines */
	bool reads; /* symbols of modules are still being read */
	struct hash_seed seed;
	struct line_row *rows;
	uint32_t n_rows, rows_capacity;
	struct slots by_vaddr;
	struct texts texts; /* names of their files */
};

/* `folder`: as codemap__new(). */
int namer__new(int folder, struct namer **ret);
/* NULL. Does not wait: the thread ends, and frees it, when its file lets it. Takes `known` (or NULL), to store the
 * names of functions for the next session. */
struct namer *namer__free(struct namer *namer, struct known_names *known);

/* --- modules. NULL: out of memory --- */

/* A file: `fd` is copied. `path`, `pid`: as which process sees it, for its debug file. `module`: in known_names. */
struct names *namer__add_file(struct namer *namer, int fd, const char *path, int32_t pid, uint32_t module);
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

/* Takes what the thread has finished. Called at each poll, every 20 to 100 ms. */
void namer__tick(struct namer *namer);

/* find.c, on the loop: takes the thread's answer about a line; drops all answers. */
void line_rows__take(struct namer *namer, const struct names *names, const struct line_job *job);
void line_rows__free(struct namer *namer);
/* namer.c. Reads names->callables, on the thread that owns them. */
void names__read_callables(struct names *names);
/* With the lock held: there is work. */
void namer__kick(struct namer *namer);
/* With the lock held, in the thread: the loop has something to take. */
void namer__notify(struct namer *namer);
/* On the thread. Debug information of this module may be had from debuginfod: requests it, if downloads are on. */
void download__want(struct names *names, bool lines);
/* Sets the opener by which symbols/ will request the module's debug file, as the module's process sees it. */
void names__watch(struct names *names);

/* namer_lines.c, on the thread. Answers the questions of one module. False: nothing can be done now; *ret_wait is
 * lowered to the time at which something can. */
bool lines__work(struct namer *namer, struct names *all, uint64_t *ret_wait);
