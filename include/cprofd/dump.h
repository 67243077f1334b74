/* SPDX-License-Identifier: MIT */
/* The interface of a dump: what bpf/dump.bpf.c writes and the engine reads, besides struct py_out of the walker.
 *
 * The iterator reports each thread of one process image (its output is rows of struct dump_thread). For a thread
 * whose stack it wants, the engine assigns a slot: map `wanted` is tid -> number of the slot, map `slots` is mapped
 * by both sides. Whichever comes first fills the slot: the iterator if the thread is on no CPU, otherwise the
 * thread's own next tick.
 *
 * The contents of a slot belong to one instant: a tick interrupts its thread; and the iterator checks that the
 * thread was on no CPU before and after, and was not switched out in between.
 *
 * Byte order and alignment are the machine's. Times: *_start are CLOCK_BOOTTIME ns, as in /proc/PID/stat but finer. */
#pragma once

#include "host.h"
#include "py/state.h"

#define DUMP_SLOTS 16u
#define DUMP_STACK_PAGES 64u
#define DUMP_STACK_BYTES (DUMP_STACK_PAGES * 4096u)
#define DUMP_CODES 1024u
#define DUMP_REGISTERS UNWIND_REGISTERS /* by DWARF number */
#define DUMP_TRIES 8u          /* ticks to get a complete Python stack; then an incomplete one is taken */

struct dump_thread {
	__u32 tgid, tid;
	__u64 process_start, thread_start;
	__u32 exec;            /* task->self_exec_id */
	__u32 state;           /* task->__state; 0: running, or waiting for a CPU */
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
	DUMP_STILL = 1,        /* the thread was on no CPU; `python` is empty: the engine walks */
	DUMP_TICK,             /* the thread's own tick, which also walked `python` */
};

struct dump_slot {
	__u32 state;           /* enum dump_slot_state */
	__u32 tries;
	__u32 how;             /* enum dump_how */
	__u32 in_kernel;       /* the registers are those at kernel entry */
	struct dump_thread thread;
	__u64 regs[DUMP_REGISTERS];
	__u64 stack_at;        /* address of the stack pointer's page */
	__u32 stack_bytes;     /* whole pages that could be read from there */
	/* TICK */
	__u32 n_frames;
	__u16 loss, _pad0;     /* enum loss: where the Python stack was cut */
	__u32 no_python;       /* the thread has no thread state */
	__u32 n_codes, _pad1;
	struct py_todo codes[DUMP_CODES]; /* addresses of the code objects, except those that a slot had before */
	struct py_out python __attribute__((aligned(4096)));
	__u8 stack[DUMP_STACK_BYTES] __attribute__((aligned(4096)));
};
