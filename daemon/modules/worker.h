/* SPDX-License-Identifier: MIT */
/* The threads that read files and make tables, so that the engine's loop never waits for them. A job and
 * what it points to belong to the worker from worker__give() until worker__take().
 *
 * Tables of files are kept in a cache on disk, if there is a directory for it: found there instead of made,
 * and stored after their owner has them. Threads: as many as there are CPUs, at most WORKER_THREADS_MAX. */
#pragma once

#include "modules/segments.h"
#include "unwind/unwind.h"

#define WORKER_THREADS_MAX 4u
#define WORKER_CACHE_BYTES (256ull << 20) /* what was used longest ago goes */

/* In this order; of one rank the smaller first, so that the largest keep nobody waiting. */
enum job_rank {
	JOB_WANTED, /* a walk stopped there; objects of JIT compilers */
	JOB_COMMON, /* every stack goes through it: the program, libc */
	JOB_OTHER,
	JOB_STORE,  /* its table goes to the cache */
};

#define WORKER_JIT_BLOCK UINT32_MAX /* an object that is none: functions that begin at `jit_block` (jit_tables.c) */

/* One file or object: what is wanted of it, and what became of it. `in` is the owner's, until the job is given; `out`
 * is valid once it is done. */
struct job {
	struct job *next;
	/* in: a file, or bytes (owned) */
	int fd;
	void *bytes;
	uint64_t size;
	enum job_rank rank;
	/* What is wanted besides segments and identity: a table; the address of a JIT's list. */
	bool tables, descriptor;
	uint32_t module;	 /* whose: a module's id, or of an object of a JIT compiler: */
	uint32_t object;
	int32_t pid;
	uint64_t process;
	uint64_t jit_block;
	/* Another table is wanted in place of this one (unwind.h, table__follow()), which stays as it is. */
	const struct unwind_table *before;
	uint64_t vaddrs[UNWIND_VADDRS_MAX];
	uint32_t n_vaddrs;
	bool last, keeps; /* keeps: it goes to the cache */
	/* For a file: a table from the cache is to be read directly into its place in a pool, without a copy. If the
	 * cache has one, the job comes back with its size in `wanted`, and is given again with `room`: that many
	 * bytes, zeroed. */
	bool to_pool;
	size_t wanted;
	void *room;
	uint16_t pool;
	/* out */
	int error;		    /* of the table: -ENODATA.. */
	struct unwind_table *table; /* malloc'd, or at `room` */
	struct unwind_identity identity;
	struct segments segments;
	/* ELF address of __jit_debug_descriptor; 0: none. */
	uint64_t descriptor_at;
	/* CPU time of the thread. */
	uint64_t ns;
	bool cached; /* the table was in the cache */
};

struct worker;
int worker__new(struct worker **ret);
struct worker *worker__free(struct worker *worker);	  /* NULL; jobs that wait are dropped */
/* Before the first job. Taken over; < 0: none. */
void worker__cache(struct worker *worker, int directory);
/* Readable when a job is done; worker__take() until NULL clears it. */
int worker__fd(const struct worker *worker);
int worker__give(struct worker *worker, struct job *job); /* takes it, if it returns 0 */
struct job *worker__take(struct worker *worker);	  /* one that is done, or NULL */
/* In the caller's thread, at once: for what is small. It stays the caller's, as after worker__take(). */
void worker__do(struct worker *worker, struct job *job);
/* Its owner has what it wanted of this job: stores its table, if that is of use, and frees it. */
void worker__store(struct worker *worker, struct job *job);
/* A walk waits for this module's table: its job goes to the front. */
void worker__hurry(struct worker *worker, uint32_t module);
/* Is there a job for a JIT object of this process, waiting, running or done? Then a walk that found nothing may succeed
 * soon. */
bool worker__has_objects(struct worker *worker, uint64_t process);
void job__free(struct job *job);
