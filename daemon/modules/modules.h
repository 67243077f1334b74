/* SPDX-License-Identifier: MIT */
/* Modules: the native code of a session's processes. Which file (or object of a JIT compiler) lies
 * where, its unwind table in the pools that the sampler reads, and the answer to "what is at pc".
 *
 *   /proc/PID/maps -> mappings -> files (opened by the host) -> tables (a worker thread) -> pools
 *   mappings + tables -> a list for each process -> the sampler (struct unwind_process)
 *
 * Sampling needs none of it: until a list is there a walk says NATIVE_PENDING. A file is read and
 * compiled once for a session, whoever maps it. All bytes of files and of targets are hostile; they
 * are read with bounds, and what does not fit together has no table.
 *
 * Owner: one struct modules for each session; it owns what it returns, which lives as long as it
 * does (a module), or until modules__tick() (all else). What it needs of the broker it asks the
 * host for. Units: addresses of the target; CLOCK_MONOTONIC ns. Threads: one at a time; its worker
 * touches nothing but the job it was given. Errors: -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cprofd/record.h"
#include "jit/jit.h"
#include "unwind/unwind.h"

#define MODULES_MAX 4096u
#define MODULES_PROCESSES_MAX 4096u
#define MODULES_MAPPINGS_MAX 16384u /* executable ones of one process */
#define MODULES_LISTS_BYTES (2u << 20)
#define MODULES_POOL_BYTES (4u << 20) /* the smallest pool that is requested */

/* What only the broker can do. One question of each kind is open at a time; its answer comes with
 * modules__file(), modules__pool() or modules__perf_map(), also from within the call. */
struct modules_host {
	/* Requests the file behind this mapping. -errno: it could not be requested. */
	int (*open_file)(struct modules_host *self, int32_t pid, uint64_t start, uint64_t end);
	int (*add_pool)(struct modules_host *self, uint64_t bytes);
	/* /tmp/perf-PID.map, as the process knows it. */
	int (*open_perf_map)(struct modules_host *self, int32_t pid);
	/* NULL: it is forgotten. */
	int (*set_process)(struct modules_host *self, const struct native_key *key,
			   const struct unwind_process *process);
	/* Whose mappings a task has of whom none are known at that time: a child runs the image of who forked it.
	 * `later`: those of the same pid from later on, or NULL: the answer where nothing better is known. May be
	 * NULL. */
	struct modules_process *(*inherited)(struct modules_host *self, const struct record_task *task, uint64_t time,
					     struct modules_process *later);
};

struct modules;
struct modules_process;

/* 0 or -errno. `host` is borrowed and outlives it. `tables`: the sampler walks native stacks, so tables and lists are
 * made; else only modules__find() is answered. */
int modules__new(struct modules_host *host, bool tables, struct modules **ret);
struct modules *modules__free(struct modules *modules); /* NULL; waits for the jobs that run */
/* Before the first process: where tables are kept (unwind.h). The fd is taken; < 0: nowhere. */
void modules__cache(struct modules *modules, int directory);
/* Readable when there is something for modules__tick(). Not the caller's to close. */
int modules__fd(const struct modules *modules);

/* Answers open_file(): the file that was requested last. fd < 0: -errno. The fd is taken. */
void modules__file(struct modules *modules, int fd);
/* Answers open_perf_map(). fd < 0: there is none. The fd is taken. `own`: the pid that the process has in its own PID
 * namespace, which the names of its files contain; 0: not known. */
void modules__perf_map(struct modules *modules, int fd, int32_t own);
/* Answers add_pool(). bytes 0: there will be no further pool. The fd is taken. */
void modules__pool(struct modules *modules, int fd, uint64_t bytes, uint32_t number);

/* To be called every 20 to 100 ms: takes the worker's results, reads what changed, publishes lists. */
void modules__tick(struct modules *modules, uint64_t now);

/* --- processes --- */

/* A process, or its next image after an exec. `mem`, `maps`: its files of /proc, which are duplicated. NULL: no memory,
 * or too many. */
struct modules_process *modules__open_process(struct modules *modules, int32_t pid,
					      const struct image_key *key, int mem, int maps,
					      uint64_t now);
/* A child that `parent` forked at `time` (or a child of it that is not known): it has its parent's mappings, JIT
 * objects and list as of then, and no files of /proc of its own yet. NULL: no memory, too many, or the parent is
 * forgotten. */
struct modules_process *modules__fork_process(struct modules *modules, int32_t pid, uint64_t parent,
					      uint64_t time, uint64_t now);
/* Gives a forked child its own files of /proc (duplicated): from now on it is read like any other process. */
void modules_process__memory(struct modules_process *process, int mem, int maps);
/* Its mappings are likely to have changed: reads them at once, and publishes the list. */
void modules_process__poll(struct modules *modules, struct modules_process *process, uint64_t now);
/* The sampler reports that the kernel is about to map something in this range, where nothing is mapped at `time`
 * (struct record_map). */
void modules_process__mapped(struct modules_process *process, uint64_t start, uint64_t end,
			     uint64_t time);
/* Reads the mappings of processes for which modules_process__mapped() was called, unless that would be too expensive
 * now. Returns when there will be more to do; UINT64_MAX: nothing. */
uint64_t modules__refresh(struct modules *modules, uint64_t now);
/* Does some process have a JIT whose code only files name? They do not say when code was replaced, so samples are not held for long. */
bool modules__jit_files(const struct modules *modules);
/* May a frame of the walk lie in code of a JIT compiler? Such code changes all the time, so the sample should be
 * processed soon. */
bool modules_process__near_jit(const struct modules_process *process, const __u64 *pc, uint32_t n, uint64_t time);
/* How many of the n frames of a walk at that time can be trusted? Where a file's code was replaced before the list was
 * published anew, the walk used the table of the former file, and what it found through it is wrong. */
uint32_t modules_process__trusted(const struct modules_process *process, const __u64 *pc,
				  uint32_t n, uint64_t time);
/* A number that no other process of the session gets; from 1. */
uint64_t modules_process__id(const struct modules_process *process);
/* Its _PyRuntime: the module that holds it is the interpreter. */
void modules_process__runtime(struct modules_process *process, uint64_t address);
/* It ended, or runs another image. Answers stay for some seconds. */
void modules__close_process(struct modules *modules, struct modules_process *process, uint64_t now);
/* The image that ran as `pid` at that time. NULL: none is known (a child that was just forked has no entry of its own:
 * ask for its parent). The number of processes is small; linear. */
struct modules_process *modules__process(struct modules *modules, int32_t pid, uint64_t time);
/* The same for a task, also if it has mappings by inheritance only (modules_host.inherited). `modules` may be NULL. */
struct modules_process *modules__of_task(struct modules *modules, const struct record_task *task, uint64_t time);
/* Its memory as it is now: all of `size`, or -EFAULT. */
int modules_process__read(struct modules_process *process, uint64_t address, void *dst, size_t size);
/* By modules_process__id(); NULL: it is forgotten. */
struct modules_process *modules__numbered(const struct modules *modules, uint64_t id);
bool modules_process__is_later(const struct modules_process *process, uint64_t time); /* opened after that time */

/* A walk ended early at pc: requests what is missing for later walks (a file's table, code to be followed, a perf map,
 * the mappings). */
void modules__wants(struct modules *modules, struct modules_process *process, uint64_t pc,
		    enum loss loss, uint64_t time);
/* Walks the copied stack of a sample of that time, with the tables that are there by now, over what was mapped then.
 * `ret` has room for RECORD_NATIVE_FRAMES_MAX frames; of its part only the loss is set. */
void modules__walk(struct modules *modules, const struct modules_process *process,
		   const struct part_stack *stack, uint64_t time, struct part_native_frames *ret);
/* Can a walk of that time that ended at pc get further in a moment? Then the sample may wait. */
bool modules__may_retry(const struct modules *modules, const struct modules_process *process,
		    uint64_t pc, enum loss loss, uint64_t time);
/* Is pc where a new thread leaves the kernel for the first time? Its stack is empty there, and the call frame
 * information describes its parent's. */
bool modules__begins(const struct modules_process *process, uint64_t pc, uint64_t time);

/* --- the question --- */

/* WAITS: its table is still being made. LATER: it was read, and no walk needed its table yet. READY: the table is there.
 * BARE: there is none: the file cannot be read, or has no code that can be described. */
enum module_state { MODULE_WAITS, MODULE_LATER, MODULE_READY, MODULE_BARE };

struct module {
	uint32_t id; /* from 1 */
	char *path;  /* as the target sees it; "[vdso]" */
	enum module_state state;
	uint8_t build_id[32];
	uint32_t build_id_size; /* 0: none, or not known yet */
};

struct modules_found {
	const struct module *module; /* NULL: code that no file holds */
	uint64_t vaddr; /* the ELF file's address; without its table: offset in the file */
	bool vaddr_known;
	bool interpreter; /* the module holds this process' CPython */
	bool stable;	  /* as long as modules__stable() is the same */
	uint64_t start, end; /* of the mapping; without a module 0 */
	bool jit;	  /* the answer is in `object` */
	struct jit_found object;
};
/* `pc`: as recorded, without NATIVE_EXACT; take 1 off a return address before. -ENOENT: nothing
 * is known to have been there. */
int modules__find(struct modules *modules, const struct modules_process *process, uint64_t pc,
		  uint64_t time, struct modules_found *ret);
/* The ELF file: a descriptor, or the vDSO's bytes. Neither is the caller's. -EAGAIN: it is not open yet; -ENOENT: it
 * could not be opened. */
struct module_bytes {
	int fd;		   /* -1: */
	const void *image; /* NULL: fd */
	size_t size;
};
int modules__bytes(const struct modules *modules, const struct module *module, struct module_bytes *ret);
/* -EAGAIN while the file may still be opened, -ENOENT when it will not be. */
int modules__awaited(const struct module *module);
/* It was opened less than a second ago: its CPython may not be known yet. */
bool modules_process__is_new(const struct modules_process *process, uint64_t now);
/* An object of the JIT compilers of the process of that number; *ret_mem: its memory, not owned. What it points to
 * lives until the next tick. -ENOENT: gone. */
int modules__jit_object(const struct modules *modules, uint64_t process, uint32_t object, struct jit_object *ret,
			int *ret_mem);
/* A generation number: two answers about that time with the same number are the same. The process may be NULL. */
uint64_t modules__changes(const struct modules *modules, const struct modules_process *process,
			  uint64_t time);
/* The same for answers that are `stable` (code of files that is still mapped): it does not change with JIT code, so
 * caches live longer. */
uint64_t modules__stable(const struct modules_process *process, uint64_t time);
/* The module that holds the process' CPython; NULL: none is known. */
const struct module *modules__interpreter(const struct modules_process *process);
