/* SPDX-License-Identifier: MIT */
/* Inside of modules: who holds what. Private to daemon/modules/.
 *
 *    modules -> files      one for each file that somebody has mapped code of; with its unwind table
 *            -> processes  one for each image of a process; with its mappings (code), JIT objects, published list
 *            -> pools      BPF maps, mapped here: tables and lists lie there, and the sampler reads them
 *            -> worker     threads that read files and make tables; they touch only the job that they were given
 *
 * All of it belongs to the engine's main thread. The sampler reads a list or a table at any time, so neither is ever
 * changed in place: a new one is written beside it, published by one store, and the old room is retired until no tick
 * can still use it.
 *
 * Times are CLOCK_MONOTONIC ns. Addresses are the target's. */
#pragma once

#include "modules/modules.h"
#include "modules/worker.h"
#include "target/maps.h"
#include "target/process.h"

#define MS 1000000ull

/* A table in a pool. */
struct pool_table {
	struct unwind_table *at; /* NULL: none */
	size_t size;
	uint16_t pool;
};

/* NEW: the broker has to be asked for it. ASKED: it was. DONE: a worker has read it, or reads it, or nobody will. */
enum file_state { FILE_NEW, FILE_ASKED, FILE_DONE };

/* A module, and what only this folder knows of it. */
struct file {
	struct module seen; /* first */
	enum file_state state;
	uint32_t major, minor;
	uint64_t inode;
	/* The mapping by which the broker finds the file: start..end in process pid. pid 0: that mapping is gone,
	 * another one is needed. */
	int32_t pid;
	uint64_t start, end;
	/* How often opening it failed; after TRIES it is left alone. */
	unsigned failed;
	/* A walk waits for its table: its job comes first. */
	bool urgent;
	/* Owned; < 0: not open. While it is open, its inode cannot be given to another file. */
	int fd;
	int64_t size, mtime_s, mtime_ns; /* when it was opened */
	void *image;			 /* no file: the vDSO's bytes */
	size_t image_size;
	struct segments segments;
	/* ELF address of __jit_debug_descriptor (the GDB interface's list); 0: it has none. */
	uint64_t descriptor_at;
	struct pool_table table;
	/* Code of it that is not described, where walks stopped (ELF addresses, ascending): it is followed,
	 * and another table made. */
	uint64_t vaddrs[UNWIND_VADDRS_MAX];
	/* follows: how often code was followed in it; follow_ns: CPU time that this took. */
	uint32_t n_vaddrs, follows;
	uint64_t follow_ns;
	/* following: a job for this is under way. followed: nothing is left to follow, or the bounds are used up. */
	bool following, followed;
	/* It is jit-PID.dump of this pid: a file of a JIT compiler, mapped executable only to be noticed. 0: it is
	 * none. */
	int32_t jitdump;
};

/* It has no table yet, and may get one. */
static inline bool file__is_pending(const struct file *file)
{
	return file->seen.state == MODULE_WAITS || file->seen.state == MODULE_LATER;
}

/* An executable mapping. */
struct code {
	uint64_t start, end, offset;
	struct file *file; /* NULL: anonymous */
	/* What is added to the file's ELF addresses; valid with `biased`, which needs the file's segments. */
	uint64_t bias;
	bool biased;
	bool descriptor;     /* its JIT's list is known to `jit` */
	/* modules_process.polls at which it was seen first: the last poll may have seen it before its mapping was
	 * reported. */
	uint32_t seen_at_poll;
	/* `born` is the time that the sampler reported. Else it is the begin of the poll before the one that saw it: it
	 * came some time after that. */
	bool exact;
	uint64_t born, died; /* died 0: it is there */
};

/* How many processes hold room in a pool: forked children share their parent's. NULL: one. */
struct refcount {
	uint32_t n;
};

struct object {
	uint32_t id;
	struct refcount *refcount; /* of its table */
	struct pool_table table;
};

/* The kernel gave a range of addresses away in which code of a file lay (see changes.c). */
struct change {
	uint64_t start, end;
	uint64_t time;
	/* From this time on the published list does not have the former code. Walks between `time` and `known` may have
	 * gone by a wrong table. 0: such a list is still to come. */
	uint64_t known;
	bool file;	/* code of a file lies there, or did */
};
#define CHANGES_MAX 64u

/* A file that a JIT compiler writes. */
struct jit_file {
	int fd; /* < 0: there is none */
	/* Of this opening, by which tail.c knows it: another file gets another id. */
	uint64_t id;
	/* The descriptor is this struct's. A jitdump's belongs to its struct file. */
	bool owned;
	uint64_t device, inode;
	uint64_t offset; /* all before it was given to `jit` */
	/* The bytes before `offset` (n_last of them): other bytes there mean that the file was written anew. */
	char last[16];
	uint32_t n_last;
	bool behind;  /* more is there */
	/* Everything that was written by this time was read. */
	uint64_t ended;
	/* stamp: of size and time of change when it was read to its end; the same stamp means that there is nothing
	 * new. 0: not known. */
	uint64_t stamp, read_at;
	bool removed; /* it has no name any more */
	bool midline; /* it begins within a line */
};

/* Functions that such files name and that begin in one JIT_BLOCK of addresses. They share a table. */
struct jit_block {
	uint64_t start;
	/* By address. functions: those that `table` describes; next: those of the table that is being made. */
	struct jit_function *functions, *next;
	uint32_t n, n_next;
	bool making;
	/* Not before this time is another table made. */
	uint64_t due;
	struct pool_table table;
};

struct jit_files {
	struct jit_file map, dump;
	int32_t own; /* the process's own pid; 0: not known yet */
	bool asked;
	uint64_t asked_at, pause;
	/* Code that nothing names was reached since the last question; the perf map may have appeared. */
	bool wanted;
	uint64_t news;	   /* when something was read */
	/* Cursor of jit__replaced(). */
	uint64_t replaced;
	struct change changes[CHANGES_MAX]; /* code with a table that was replaced, the oldest first */
	uint32_t n_changes;
	struct jit_block *jit_blocks;
	uint32_t n_jit_blocks, capacity;
};

/* A range of addresses that the kernel gave away although no code was ever seen there: mostly it is data. Kept, as code
 * may follow. */
struct given {
	uint64_t start, end;
	uint64_t time;
};
#define GIVEN_MAX 256u

/* One image of one process: an exec closes it, and the next image is another struct. After its end it is kept for
 * KEPT_NS, since samples of before still come. */
struct modules_process {
	struct modules_process *next, *next_of_pid;
	uint64_t id;
	int32_t pid;
	struct image_key key;
	struct memory_reader mem; /* fd < 0: it ended */
	int maps;
	uint64_t opened, closed; /* closed 0: it runs */
	uint64_t runtime;
	/* The file that holds `runtime` (_PyRuntime): libpython, or the program. NULL: not found, or no Python. */
	const struct file *interpreter;
	/* n mappings that are there, by address, then n_gone that are not any more. */
	struct code *code;
	uint32_t n, n_gone;
	/* Hashes of the executable mappings, all and those of files: the same hash means that nothing changed.
	 * files_hash 0: the mappings have to be read with their names next time. */
	uint64_t maps_hash, files_hash;
	uint64_t read_at;   /* when the last reading of the mappings began, */
	uint64_t read_end;  /* and when it ended */
	/* Readings of the mappings that found a change. */
	uint32_t polls;
	/* The latest time at which a walk reached a pc in no mapping. */
	uint64_t asked_for;
	/* How long to wait before the mappings are read again for such a pc; doubles while that finds nothing. */
	uint64_t pause;
	/* How long the last reading took: bounds how often it is done. */
	uint64_t poll_ns;
	struct change changes[CHANGES_MAX]; /* the oldest first */
	uint32_t n_changes, changes_gone;
	/* All reports of changes and given room so far: a generation number for late.c. */
	uint64_t n_reports;
	/* A generation number: answers about code of files may have changed. */
	uint64_t file_answers;
	struct given given[GIVEN_MAX]; /* the oldest first */
	uint32_t n_given;
	/* The list has to be made anew from all that is mapped. */
	bool dirty;
	/* Objects of a JIT came that the list does not have: they can be merged into it. */
	bool grown;
	bool poll_soon;
	/* What it knows of JIT objects was copied from its parent, and not compared with its own memory yet. */
	bool inherited;
	/* the list that is published */
	void *list;
	size_t list_size;
	/* list_word: struct unwind_process.list, which says where it lies; list_at: when it was published. */
	uint64_t list_word, list_at;
	struct refcount *list_refcount;
	/* Mixed into addresses in the sampler's cache of rules, so that two processes never share an entry by
	 * chance. */
	uint64_t salt;
	struct jit *jit; /* NULL: no list and no file of a JIT's is known */
	struct jit_files *files; /* NULL: it has no code of a JIT's */
	/* Everything that its JITs had registered or written by this time is known. */
	uint64_t polled;
	struct object *objects;
	uint32_t n_objects, objects_capacity, next_object;
	uint32_t *deferred; /* ids of objects whose table is made when a walk stops in one, ascending */
	uint32_t n_deferred, deferred_capacity;
	/* So many objects in front are in the published list, unless they ended. */
	uint32_t n_listed;
	uint32_t n_ended;  /* of them, as of the last sweep */
	uint64_t ends;	   /* jit__ends() of then */
};

struct pool {
	char *memory;
	uint64_t bytes;
	struct unwind_pool room;
};

/* Room in a pool that is not used any more, but that a tick may still be reading. */
struct retired {
	struct retired *next;
	uint16_t pool;
	void *memory;
	size_t size;
	uint64_t at;
};
/* A tick that goes by a list that was just replaced is over by then. */
#define RETIRE_NS (60 * MS)

#define POOLS_MAX 32u

#define MODULES_BUCKETS 256u

struct modules {
	struct modules_host *host;
	bool tables;
	struct worker *worker;
	struct file **files;
	uint32_t n_files;
	/* The file that the broker is opening at this moment; NULL: none. One at a time, as answers come without a
	 * name. */
	struct file *asked;
	/* A walk waits for it: asked for next. */
	struct file *hot;
	struct modules_process *processes;
	/* The same, by pid % MODULES_BUCKETS, the newest first: each frame asks. */
	struct modules_process *of_pid[MODULES_BUCKETS];
	uint32_t n_processes;
	uint64_t last_process;
	struct pool pools[POOLS_MAX];
	uint32_t n_pools;
	bool pool_asked, pool_refused;
	uint64_t map_asked; /* the process whose perf map is being opened; 0: none */
	uint64_t last_jit_file;
	struct tail *tail;  /* NULL: nothing was to be read yet */
	/* Bytes of JIT compilers' files that may still be read (refill()); below 0 after a piece that was longer than
	 * what was left. */
	int64_t bytes_left;
	uint64_t bytes_at;  /* as of when */
	/* Jobs that are done, but whose tables wait for a pool. */
	struct job *homeless;
	struct retired *retired;
	/* The next process's salt is made from it. */
	uint64_t salts;
	/* Number of the last list: part of list_word, by which the sampler notices another list. */
	uint16_t change;
	/* A generation number: any answer of modules__find() may have changed. */
	uint64_t answers;
	bool follows;	  /* some file's code is, or has to be */
	uint64_t now;
	/* file_bytes: of files that JIT compilers write. For tests: tables that came from the disk; bytes of tables now;
	 * tables and lists that found no room. */
	struct {
		uint64_t file_bytes, cached, table_bytes, no_room;
	} counts;
	/* Scratch of late.c; NULL: no walk was done again yet. */
	struct late *late;
};

/* --- room.c --- */
/* Asks for the pools that every session needs. */
void room__open(struct modules *modules);
/* NULL: there is no room now; another pool was requested, if there can be one. */
void *room__allot(struct modules *modules, size_t size, uint16_t *ret_pool);
void room__retire(struct modules *modules, uint16_t pool, void *at, size_t size, uint64_t now);
void room__sweep(struct modules *modules, uint64_t now);
void room__free(struct modules *modules);
/* A place for the table that the job has found in the cache: -EINPROGRESS, and the worker has it again; -EAGAIN: no
 * room yet; 0: there is none. */
int room__give(struct modules *modules, struct job *job);
/* Its place, if the table is not there. */
void room__unused(struct modules *modules, struct job *job);
/* Takes the job's table. False: no room yet. */
bool room__table(struct modules *modules, struct job *job, struct pool_table *ret);

/* --- files.c --- */
struct file *files__get(struct modules *modules, struct modules_process *process,
			const struct mapping *mapping);
void files__ask(struct modules *modules);
/* A walk stopped in it for lack of its table. */
void files__want(struct modules *modules, struct file *file);
/* A walk stopped at this ELF address of it, for code that is not followed yet. */
void files__follow(struct modules *modules, struct file *file, uint64_t vaddr);
/* Begins the next job for addresses that were gathered while the last one ran. */
void files__tick(struct modules *modules);
/* 0; -EAGAIN: no room for its table yet; -EINPROGRESS: the worker has the job again. */
int files__done(struct modules *modules, struct job *job);
/* Memory that can be mapped twice, and is no ELF file: a JIT's. */
bool files__is_memory(const struct file *file);
void files__free(struct modules *modules);

/* --- find.c --- */
/* The mapping that holds pc; NULL: none was there at that time, as far as is known. */
const struct code *modules_process__code(const struct modules_process *process, uint64_t pc,
				   uint64_t time);

/* --- processes.c --- */
void processes__tick(struct modules *modules, uint64_t now);
void processes__dirty(struct modules *modules);
void processes__free(struct modules *modules);

struct modules_process *processes__add(struct modules *modules, int32_t pid,
				       const struct image_key *key, uint64_t opened);
void processes__undo(struct modules *modules, struct modules_process *process, uint64_t now);

/* Is the file still mapped where it was when the broker was asked? (On an overlay, an open file may have another inode
 * than its mapping.) */
bool processes__maps(const struct modules *modules, const struct file *file);

/* --- changes.c --- */
uint64_t modules__clock(void); /* CLOCK_MONOTONIC ns */
/* May the mappings be read again? Processes with many mappings are read less often. */
bool polls__affordable(const struct modules_process *process, uint64_t now);
/* When the room of [start, end) was taken by something else, the last time after `after`; `after` when it
 * was not, or when that is not known. */
uint64_t changes__taken(const struct modules_process *process, uint64_t start, uint64_t end,
			uint64_t after);
/* The first time instead: several libraries may have come and gone there since the mappings were read. */
uint64_t changes__left(const struct modules_process *process, uint64_t start, uint64_t end,
		       uint64_t after);
/* A loader may still be at work where something was mapped: the mappings have to be read once more. */
bool changes__settle(const struct modules_process *process, uint64_t now);
/* The list that is published now agrees with the last reading. */
void changes__published(struct modules_process *process, uint64_t now);

/* --- fork.c --- */
/* 0 or -ENOMEM: then *a stays alone. */
int refcount__share(struct refcount **a, struct refcount **ret_b);
/* True: it was the last one, and what was shared goes. */
bool refcount__drop(struct refcount **refcount);
/* A process with this very list, whose image is the same, itself before others; NULL: none. */
struct modules_process *fork__twin(struct modules *modules, struct modules_process *process,
				   const void *list, size_t size);
/* Is it the oldest living process of its image? Its list is used for those of the image that have no entry of their
 * own. */
bool fork__is_eldest(const struct modules *modules, const struct modules_process *process);
/* That one; NULL: none lives. */
struct modules_process *fork__eldest(const struct modules *modules, const struct image_key *image);

/* --- lists.c --- */
/* What was mapped at `time`, ascending; *ret_n of them (0: nothing, or no memory). The caller's to free. */
struct unwind_entry *lists__at(struct modules *modules, const struct modules_process *process,
				uint64_t time, uint32_t *ret_n);
/* Objects that ended stay this long, for walks that are late. */
#define OBJECT_KEPT_NS (3000 * MS)
/* Publishes `from`'s list for the process, too; false: no memory. */
bool lists__share(struct modules *modules, struct modules_process *from,
		  struct modules_process *process, uint64_t now);
void lists__publish(struct modules *modules, struct modules_process *process, uint64_t now);
void lists__drop(struct modules *modules, struct modules_process *process, uint64_t now);

/* --- late.c --- */
bool late__awaits_file(const struct modules_process *process); /* one that is mapped has no table yet */
void late__free(struct modules *modules);

/* --- jit_files.c: what JIT compilers write for perf --- */
/* Finds such files among the mappings, and requests the perf map. */
void jit_files__scan(struct modules *modules, struct modules_process *process, uint64_t now);
/* Reads what was written since; true: there was something. */
bool jit_files__poll(struct modules *modules, struct modules_process *process, uint64_t now);
/* Is all known that was written by the last poll? */
bool jit_files__current(const struct modules_process *process);
/* Was that file read since then? Where the process has none, what it knows is its parent's. */
bool jit_files__known(const struct modules_process *process, enum jit_source source, uint64_t time);
/* Is the perf map on its way? */
bool jit_files__awaited(const struct modules_process *process);
/* A walk reached code that no file names. */
void jit_files__miss(const struct modules_process *process);
void jit_files__close(struct modules_process *process);
void jit_files__free(struct modules *modules, struct modules_process *process, uint64_t now);
/* The process's `jit`, made if need be; NULL: no memory. */
struct jit *jit_files__jit(struct modules_process *process);

/* --- jit_tables.c: tables of what these files name --- */
/* After new functions came: makes tables of CPython's trampolines ahead of walks, as they are in every stack. */
void jit_tables__prepare(struct modules *modules, struct modules_process *process);
/* A walk stopped there. */
void jit_tables__want(struct modules *modules, struct modules_process *process, uint64_t pc);
/* May a table with this pc still be made? */
bool jit_tables__may_retry(const struct modules_process *process, uint64_t pc);
/* One of CPython's trampolines that no file names yet. -ENOENT */
int jit_tables__copy(const struct modules_process *process, uint64_t pc, struct jit_found *ret);
/* After news, of later than `since`: what was replaced has no table any more. */
void jit_tables__replaced(struct modules_process *process, uint64_t since);
/* The list that is published now knows of it. */
void jit_tables__published(struct modules_process *process, uint64_t now);
/* Their ranges at `time` (UINT64_MAX: now), at most jit_tables__count(). */
uint32_t jit_tables__count(const struct modules_process *process);
void jit_tables__put(struct modules *modules, const struct modules_process *process, uint64_t time, uint32_t module,
		     struct unwind_entry *to, uint32_t *n, uint32_t max);
/* 0, or -EAGAIN: no room yet. */
int jit_tables__done(struct modules *modules, struct modules_process *process, struct job *job);
void jit_tables__free(struct modules *modules, struct modules_process *process, uint64_t now);
/* An object with its own unwind information, as an ELF image. -ENOENT: its code cannot be read. */
int jit_tables__image(struct modules_process *process, const struct jit_object *object, void **ret, size_t *ret_size);

/* --- modules.c --- */
/* A job that the worker has done: its table is taken. */
void modules__done(struct modules *modules, struct job *job);

/* --- objects.c: JIT compilers --- */
void objects__poll(struct modules *modules, struct modules_process *process, uint64_t now);
/* The child has the parent's tables of the objects that its jit has. 0 or -ENOMEM. */
int objects__fork(struct modules_process *to, struct modules_process *from);
int objects__done(struct modules *modules, struct job *job);
/* Does pc lie in an object whose table nobody needed yet? */
bool objects__is_deferred(const struct modules_process *process, uint64_t pc, uint64_t time);
/* A walk stopped in it. */
void objects__want(struct modules *modules, struct modules_process *process, uint32_t id);
/* Drops tables of objects that ended; true: there were some. */
void objects__sweep(struct modules *modules, struct modules_process *process, uint64_t now);
void objects__free(struct modules *modules, struct modules_process *process, uint64_t now);

/* --- tail.c --- */
/* Reads files that somebody else writes. A file system may not answer (FUSE, or an overlay on one), so a thread of its
 * own reads, and the caller waits TAIL_WAIT_MS at most. While such a read hangs, nothing else is read.
 *
 * Owner: the caller of tail__new(). Threads: one caller at a time. Errors: -errno. */
#define TAIL_WAIT_MS 20
#define TAIL_PIECE (256u << 10)

struct tail;

/* What was read, and of which file: valid until the next call. */
struct tail_piece {
	const char *bytes; /* valid until the next call */
	size_t n;
	uint64_t begun; /* CLOCK_MONOTONIC ns: all that was written by then is seen */
	uint64_t size;  /* of the file, before it was read */
	uint64_t links; /* 0: it was removed */
};

int tail__new(struct tail **ret);
void tail__free(struct tail *tail); /* NULL. Does not wait for a file */
/* Up to TAIL_PIECE bytes at `offset` of the file that the caller calls `key`. -EAGAIN: it takes longer, or a former one
 * does: ask again, and have what was read meanwhile. */
int tail__read(struct tail *tail, uint64_t key, int fd, uint64_t offset, struct tail_piece *ret);
