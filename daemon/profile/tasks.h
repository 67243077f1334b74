/* SPDX-License-Identifier: MIT */
/* Processes and threads of a session. Those that ended stay until the epoch is
 * over: a late joiner must get every id of it. Inside daemon/profile/ only. */
#pragma once

#include "cprofd/record.h"
#include "attribution/attribution.h"
#include "base/container.h"
#include "profile/cache.h"

#define TASKS_BUCKETS 1024u
#define ID_NONE UINT32_MAX
#define PYTHON_LEN 24

/* One image of a process: (pid, start time, exec count). exec makes a new row. Times are ns; `boottime` ones are
 * comparable with /proc. */
struct process {
	struct process *next;        /* in order of arrival */
	struct process *same_bucket;
	uint64_t start;              /* boottime */
	uint64_t time;               /* monotonic: first seen */
	uint64_t end_time;
	char *name;                  /* as the engine reported it; NULL: comm */
	uint32_t id;                 /* in the epoch; ID_NONE: not emitted yet */
	uint32_t tgid, parent, exec;
	uint32_t forker;             /* tid of the thread of `parent` that made it; 0: not known */
	uint32_t living;             /* threads without their thread_end */
	uint64_t runtime, runtime_end; /* the interpreter's state; 0: not known */
	struct gil_seen {
		uint64_t time;
		uint32_t tid;
	} gil[16];                   /* wall mode: who held the GIL, as seen last; a ring */
	uint32_t n_gil;
	uint8_t lines;               /* enum py_lines */
	bool exec_known, changed, ending, settled, ended;
	bool withheld;               /* the client is not authorised for it, as far as is known: nothing of it is emitted */
	bool authorised;             /* ... it is since, by the broker: the next record of it shows it */
	struct code_seen code;       /* of what the code map says of its addresses */
	char python[PYTHON_LEN], unsupported[PYTHON_LEN];
	char container[CONTAINER_ID_LEN + 1]; /* "": none */
	char comm[17];
};

/* One remembered frame of a thread's previous stack. */
struct memo_frame {
	uint64_t key;                /* as in struct step */
	int32_t offset;
	uint32_t stack;              /* the node that ends in this frame */
	bool is_frame;
};

/* The thread's previous stack (stack.c): step i from the outermost, and its node. */
struct memo {
	uint32_t n, capacity;
	struct memo_frame *frames;   /* outermost first */
};

/* One thread of one image. Its time line is [begin, end_time]; rows cover it without holes or overlaps. */
struct thread {
	struct thread *next;
	struct thread *same_bucket;
	struct process *process;
	uint64_t start;              /* boottime */
	uint64_t begin;              /* monotonic: its time line */
	uint64_t last;               /* end of its last row, emitted or queued */
	uint64_t emitted;               /* end of its last emitted row */
	/* Where a part ended and its account was closed, and where its last row had ended then. Only while last == part that row is the last one still. */
	uint64_t part, row_end;
	uint64_t end_time;           /* with ending */
	/* CPU time (cpu.c) */
	uint64_t cpu_seen;           /* newest sum_exec_runtime */
	uint64_t cpu_used;           /* in the session: cpu_seen - baseline */
	uint64_t due, due_cpu;       /* ticks that were due at earlier rates, for cpu_used up to due_cpu (ledger.c) */
	uint64_t cpu_final;          /* from its exit's record, or 0 */
	bool cpu_due;                /* cpu_final is not final: RECORD_FREED will have all */
	uint64_t carry;              /* counted by the scheduler, not given to a sample yet */
	uint64_t ahead;              /* given to samples on account, before the scheduler counted it */
	uint64_t waiting_first, waiting_last; /* queue numbers of samples that wait */
	uint32_t waiting;
	/* What its samples stand for (stands.c) */
	uint32_t cpu_ticks;          /* ticks of CPUs' clocks that sampled it, up to FIRST_TICKS */
	uint64_t samples;
	struct memo memo;
	struct waits *waits;         /* waits.c; NULL: none */
	uint64_t pthread;            /* its pthread_self(), or 0: not known */
	uint32_t stack, stack_epoch; /* of its last tick */
	/* Whose call it works for, or who works for its (workers.c) */
	struct attribution_thread attribution;
	uint32_t attribution_epoch;       /* of the nodes in it */
	struct attribution_seen tick, off; /* where it was at its last tick, and where it left its CPU */
	uint64_t left, left_key;     /* a newer place where it left, as waits.c keeps it, whose stack was not read yet; 0: none */
	uint64_t rested;             /* begin of its last idle wait */
	uint32_t id, tid;
	bool cpu_known;              /* cpu_seen is valid */
	/* May the baseline be older than `begin`? And than the thread's clock, as it was there before the session? */
	enum { CPU_EXACT, CPU_ROUGH, CPU_LISTED } cpu_base;
	bool asleep, compiles;       /* waits.c: it fell asleep, and no record says that it woke up; in a frame with values */
	uint64_t asleep_cpu;         /* its CPU time then, ns */
	bool lost;                   /* the client is not authorised for it any more: its time line ends with `last`, or goes on later */
	bool changed, ending, end_queued, ended;
	char comm[17];
};

/* All processes and threads of the session, in order of arrival, and hashed by pid. Linear walks are over both:
 * sessions have up to some thousand threads. */
struct tasks {
	struct process *processes, **processes_end;
	struct thread *threads, **threads_end;
	struct process *process_buckets[TASKS_BUCKETS];
	struct thread *thread_buckets[TASKS_BUCKETS];
	uint32_t n_processes, n_threads, n_ended;
	uint32_t n_ending;           /* ends that are not queued yet */
	uint64_t bytes;              /* of the rows */
	uint64_t memo_bytes;
};

void tasks__init(struct tasks *tasks);
void tasks__free(struct tasks *tasks);

/* Do two boottime starts, one of them perhaps from /proc, mean the same? */
bool tasks__same_start(uint64_t a, uint64_t b);

/* exec_known false: the one that runs now. NULL: not known. */
struct process *tasks__find_process(const struct tasks *tasks, uint32_t tgid, uint64_t start,
				    uint32_t exec, bool exec_known);
struct process *tasks__add_process(struct tasks *tasks, uint32_t tgid, uint64_t start);
struct thread *tasks__find_thread(const struct tasks *tasks, const struct process *process,
				  uint32_t tid, uint64_t start);
struct thread *tasks__add_thread(struct tasks *tasks, struct process *process, uint32_t tid,
				 uint64_t start);
/* A new epoch: drops those that ended, and takes the ids of all others. */
void tasks__renew(struct tasks *tasks);
void memo__free(struct memo *memo, struct tasks *tasks);
