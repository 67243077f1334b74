/* SPDX-License-Identifier: MIT */
/* The dump contract: what bpf/dump.bpf.c writes and the engine reads, besides struct py_out of the walker.
 *
 * The iterator tells of each thread of one process image (struct dump_thread, a row of its output). Threads that
 * the engine wants have a slot: map `wanted`, tid -> number of a slot; map `slots`, mapped by both sides. Who fills a
 * slot first has it: the iterator for a thread that is on no CPU, or else the next tick of the thread itself.
 *
 * What lies in a slot is of one instant: of a tick, since its thread is interrupted; of the iterator, since the
 * thread was on no CPU before and after, and had not been switched out in between.
 *
 * Byte order and alignment are the machine's. Times: *_start are CLOCK_BOOTTIME ns, as in /proc/PID/stat but finer.
 */
#ifndef CPROFD_DUMP_H
#define CPROFD_DUMP_H

#include "host.h"
#include "py/state.h"

#define DUMP_SLOTS 16u
#define DUMP_STACK_PAGES 64u
#define DUMP_STACK_BYTES (DUMP_STACK_PAGES * 4096u)
#define DUMP_CODES 1024u
#define DUMP_REGISTERS UNWIND_REGISTERS /* by DWARF number */
#define DUMP_TRIES 8u          /* ticks for a whole Python stack; then it is taken as it is */

struct dump_thread {
	__u32 tgid, tid;
	__u64 process_start, thread_start;
	__u32 exec;            /* task->self_exec_id */
	__u32 state;           /* task->__state; 0: it runs, or waits for a CPU */
	__u32 on_cpu;
	__u32 _pad;
	__u64 switches;        /* how often it was switched out */
	__u64 thread_pointer;  /* pthread_self() */
	char comm[16];         /* NUL-terminated unless 16 long */
};
_Static_assert(sizeof(struct dump_thread) == 72, "dump_thread");

enum dump_slot_state {
	DUMP_FREE,
	DUMP_WANTED,           /* set by the engine */
	DUMP_BUSY,             /* being filled */
	DUMP_DONE,
};

enum dump_how {
	DUMP_STILL = 1,        /* it was on no CPU; `python` is empty: the engine walks */
	DUMP_TICK,             /* its own tick; `python` was walked in it */
};

struct dump_slot {
	__u32 state;           /* enum dump_slot_state */
	__u32 tries;
	__u32 how;             /* enum dump_how */
	__u32 in_kernel;       /* the registers are those with which it entered the kernel */
	struct dump_thread thread;
	__u64 regs[DUMP_REGISTERS];
	__u64 stack_at;        /* the page that the stack pointer is in */
	__u32 stack_bytes;     /* whole pages that could be read from there on */
	/* TICK */
	__u32 n_frames;
	__u16 loss, _pad0;     /* enum loss: where the Python stack was cut */
	__u32 no_python;       /* the thread has no thread state */
	__u32 n_codes, _pad1;
	struct py_todo codes[DUMP_CODES]; /* where the code objects lie; those that another slot told of are left out */
	struct py_out python __attribute__((aligned(4096)));
	__u8 stack[DUMP_STACK_BYTES] __attribute__((aligned(4096)));
};

#endif
