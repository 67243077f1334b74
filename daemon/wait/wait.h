/* SPDX-License-Identifier: MIT */
/* Waits: why was a thread off-CPU? Decided by its system call and its stack. Pure functions; docs/waits.md has the
 * rules in words.
 *
 * The system call with its arguments decides nearly all cases. A futex is the GIL if its address lies in the
 * interpreter's state (_PyRuntime), and a lock if a function that takes locks is in the stack.
 *
 * Example: read(3) of a socket -> WAIT_SOCKET, "socket I/O"; futex() at an address inside of _PyRuntime -> WAIT_GIL.
 * Caller: profile/waits.c, for each wait that the sampler reports (part_wait).
 *
 * Memory: none; strings are constants. Threads: any. Errors: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cprofd/record.h"

/* X(id, name): the numbers are those of the stream (samples, "cause"): new ones go to the end. The first is "not
 * determined". */
#define WAIT_CAUSES(X) \
	X(NONE, "") \
	X(READY, "ready")             /* it could run, but had no CPU, or was preempted */ \
	X(GIL, "GIL") \
	X(LOCK, "lock") \
	X(COMPILER_LOCK, "compiler lock") /* a lock of a compiler, by a rule */ \
	X(FUTEX, "futex")             /* other futexes: a condition, a barrier, the end of a thread */ \
	X(SLEEP, "sleep") \
	X(FILE, "file I/O") \
	X(PIPE, "pipe I/O") \
	X(SOCKET, "socket I/O") \
	X(POLL, "poll")               /* for several descriptors, of any kind */ \
	X(CHILD, "child process") \
	X(STOPPED, "stopped")         /* by a signal, or a debugger */ \
	X(SIGNAL, "signal") \
	X(MEMORY, "memory")           /* a page that had to be read, or freed */ \
	X(OTHER, "system call") \
	X(BEFORE, "since before the recording") \
	X(ASLEEP, "asleep")           /* sessions of CPU time: cause unknown */ \
	X(LOST, "not authorised")     /* the client lost its permission meanwhile: unknown whether it ran */

#define WAIT_ENUM(id, name) WAIT_##id,
enum wait_cause { WAIT_CAUSES(WAIT_ENUM) WAIT_CAUSE_COUNT };
#undef WAIT_ENUM

/* "GIL"; "" for NONE and for what is out of range. */
const char *wait__name(enum wait_cause cause);
/* As a frame: "(waiting: GIL)", "(ready)". */
const char *wait__frame(enum wait_cause cause);

/* A frame of the thread's stack as it went to sleep. Strings are borrowed for the call. */
struct wait_frame {
	const char *name, *file; /* file: "" of native code */
	bool python;
};

/* What is known of one wait: the kernel's record of it, and the stack for the cases that need one. */
struct wait_input {
	const struct part_wait *wait;
	uint64_t runtime, runtime_end; /* the interpreter's state (_PyRuntime); 0: not known */
	const struct wait_frame *frames; /* innermost first, with some Python frames at least */
	uint32_t n;
};

/* The cause, never WAIT_NONE. The order of the tests is the precedence in docs/waits.md. O(system calls + frames). */
enum wait_cause wait__cause(const struct wait_input *in);
