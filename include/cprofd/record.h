/* SPDX-License-Identifier: MIT */
/* The record contract: what the sampler (bpf/) writes into the ring buffer and
 * collect reads. Every record is a struct record_header and then a fixed part
 * of its kind; samples and codes go on with typed, length-prefixed parts, so
 * that later work adds parts and not formats. A reader skips parts and records
 * that it does not know, and trusts no length.
 *
 * Byte order and alignment are the machine's; all sizes are multiples of 8.
 * Times: `time` is CLOCK_MONOTONIC ns (bpf_ktime_get_ns); `*_start` are
 * CLOCK_BOOTTIME ns, as in /proc/PID/stat but finer.
 */
#ifndef CPROFD_RECORD_H
#define CPROFD_RECORD_H

#include "host.h"
#include "loss.h"

enum record_kind {
	RECORD_SAMPLE = 1,  /* a tick on a thread of the target */
	RECORD_CODE = 2,    /* a code object, copied at first sight */
	RECORD_FORK = 3,    /* a new process (thread group) below the target */
	RECORD_EXEC = 4,    /* a process got a new image */
	RECORD_EXIT = 5,    /* a thread ended */
	RECORD_CLONE = 6,   /* a new thread of a process of the target */
	RECORD_MAP = 7,     /* something was mapped: only where native stacks are asked for */
	RECORD_WAIT = 8,    /* a thread was on no CPU: sums of one place (wall mode) */
	RECORD_WAKE = 9,    /* struct record_wake: samples have to be looked at soon */
	RECORD_FREED = 10,  /* a thread that ended is gone: all of its CPU time, which RECORD_EXIT has no more than a part of */
	RECORD_FORKED = 11, /* struct record_wake: a target made a process that is not followed, and may wait for it now */
	RECORD_LOST = 12,   /* the client is not authorised for a thread any more, since some time after the last record of it */
};

/* Identity. process = (tgid, process_start, exec); thread = (tid, thread_start). */
struct record_task {
	__u32 tgid, tid;
	__u64 process_start;
	__u64 thread_start;
	__u32 exec;         /* task->self_exec_id: counts execs, inherited by fork */
	__u32 _pad;
	char comm[16];      /* NUL-terminated unless 16 long */
};
_Static_assert(sizeof(struct record_task) == 48, "record_task");

struct record_header {
	__u32 size;         /* of the whole record */
	__u16 kind;         /* enum record_kind */
	__u16 cpu;
	__u64 time;
	struct record_task task;
};
_Static_assert(sizeof(struct record_header) == 64, "record_header");

/* How a header begins. */
struct record_wake {
	__u32 size;
	__u16 kind;
	__u16 cpu;
};

struct record_part {
	__u16 kind;         /* enum record_part_kind */
	__u16 loss;         /* enum loss: why this part is not whole, or 0 */
	__u32 size;         /* of the part, this header included */
};

enum record_part_kind {
	PART_PY_FRAMES = 1, /* struct part_py_frames; innermost frame first */
	PART_NAME = 2,      /* struct part_string */
	PART_QUALNAME = 3,
	PART_FILE = 4,
	PART_VARIABLES = 5, /* struct part_variables: names of locals */
	PART_LINES = 6,     /* struct part_bytes: a piece of the line table */
	PART_NATIVE_FRAMES = 16, /* struct part_native_frames; innermost frame first */
	PART_KERNEL_FRAMES = 17, /* struct part_kernel_frames; innermost frame first */
	PART_VALUES = 18, /* struct part_values: locals that rules name; innermost frame first */
	PART_STACK = 19, /* struct part_stack */
	PART_WAIT = 20, /* struct part_wait: with SAMPLE_OFF_CPU, and last */
	PART_OBJECT = 21, /* struct part_object: follows PART_VALUES */
};

/* struct record_sample.flags */
#define SAMPLE_GIL 16u        /* a tick, and this thread holds the GIL; only where that was asked for, and in wall mode */
#define SAMPLE_IN_KERNEL 1u   /* the tick met the thread in the kernel */
#define SAMPLE_NO_PYTHON 2u   /* this thread has no thread state */
#define SAMPLE_OFF_CPU 4u     /* no tick: the stack with which a thread left its CPU; it has no time of its own */
#define SAMPLE_ASLEEP 8u      /* ... before anyone looked: registers alone (a part_stack without bytes), for user space to walk from.
			       * cpu_time is how often it had got a CPU (third number of /proc/TID/schedstat) */

#define SAMPLE_OF_CPU 32u      /* a tick of the CPU's clock, and not of the thread's own: it may come at any time of a thread's life */
#define SAMPLE_EXITING 64u     /* the thread gives back what it had, in the kernel: no frames */
#define SAMPLE_FOLDED 128u     /* what follows struct record_sample is folded (fold.h): parts when it was unfolded, and not before */

/* The sampler's clocks, told apart by their period (ns): those of CPUs have an odd one. */
#define CLOCK_OF_CPU 1ull

struct record_sample {
	struct record_header header;
	__u64 cpu_time;     /* task->se.sum_exec_runtime, ns: exact, but brought up to date by the
			     * scheduler only (each HZ tick and each switch) */
	__u32 flags;
	__u16 loss;         /* enum loss of the sample as a whole, or 0 */
	__u16 parts;        /* count */
	/* parts */
};
_Static_assert(sizeof(struct record_sample) == 80, "record_sample");

struct py_frame {
	__u64 code;         /* capture key: equals record_code.key of that code object */
	union {
		struct {
			__s32 offset; /* bytes into the bytecode; < 0: entered, nothing run yet */
			__u32 flags;
		};
		__u64 place; /* both, written by one store: offset is the lower half */
	};
};
#define PY_FRAME_ENTRY 1u     /* native frames lie between this frame and the next (outer) one */
#define PY_FRAME_TSTATE 2u    /* first (innermost) frame of a further thread state of this thread */
#define PY_FRAME_GENERATOR 4u /* owned by a generator or coroutine */
#define PY_FRAME_DYING 8u     /* being cleared as the sample was taken */
/* 3.12+: eval loops that have no Python frame left, since the last one's contents are being destroyed: how many lie
 * directly inside of this frame, and, of the outermost frame of a thread state, directly outside. At most 255. */
#define PY_FRAME_LOOPS_INSIDE_SHIFT 8
#define PY_FRAME_LOOPS_OUTSIDE_SHIFT 16
#define py_frame_loops_inside(flags) ((flags) >> PY_FRAME_LOOPS_INSIDE_SHIFT & 255u)
#define py_frame_loops_outside(flags) ((flags) >> PY_FRAME_LOOPS_OUTSIDE_SHIFT & 255u)

struct part_py_frames {
	struct record_part part; /* loss != 0: cut at the outer end */
	__u32 n;
	__u32 _pad;
	struct py_frame frames[];
};

/* The thread's stack as the unwind tables tell it, after the Python part. pc[i] is the program counter of
 * frame i as it is on the stack: a return address, which lies behind its call; or, with NATIVE_EXACT, an
 * instruction that was interrupted: the innermost one (of a tick in the kernel: behind the system call), and
 * the one below a signal's frame. */
struct part_native_frames {
	struct record_part part; /* loss != 0: why the walk ended before the thread's entry, at pc[n - 1] */
	__u32 n;
	__u32 flags;             /* NATIVE_WHOLE */
	__u64 pc[];
};
#define NATIVE_WHOLE 1u          /* the last frame is where the thread began */
#define NATIVE_EXACT (1ull << 63)
/* A byte of the instruction that a pc of such a part is about: what lies at a return address may be of another function. */
static inline __u64 native_address(__u64 pc)
{
	return pc & NATIVE_EXACT ? pc & ~NATIVE_EXACT : pc - 1;
}

/* After native frames that end in LOSS_NATIVE_PENDING or LOSS_NATIVE_MAPPING (and only if the ring has room): what a
 * walk needs that has more tables, later. No page was waited for, so that the copy may end early; how deep the
 * stack is, is not known. */
struct part_stack {
	struct record_part part;
	__u64 regs[17];          /* by DWARF number, all as the thread had them in user space: where pc[0] is */
	__u64 sp;                /* address of bytes[0]: up to 135 below regs[7] (the red zone) */
	__u32 size;              /* bytes that are there; the rest of the part is padding */
	__u32 _pad;
	__u8 bytes[];
};
_Static_assert(sizeof(struct part_stack) == 160, "part_stack");

/* Of a tick in the kernel: its stack from what was interrupted to where the thread entered, above (inside of) all
 * other frames. pc[0] is an instruction, the others are return addresses. */
struct part_kernel_frames {
	struct record_part part; /* loss != 0: there is none */
	__u32 n;
	__u32 _pad;
	__u64 pc[];
};

/* Locals of Python frames whose code has a mark (struct locals_captures). In a record the words that are not asked for are not
 * there: an entry is FRAME_VALUES_HEAD and 8 for each of n bytes long. */
#define FRAME_VALUES_WORDS 4u
struct frame_values {
	__u16 frame;        /* index in part_py_frames.frames */
	__u8 unread;        /* a bit for each word that could not be read */
	__u8 n;             /* words */
	__u8 slots[FRAME_VALUES_WORDS];  /* as the mark had them: the first n, then VALUE_SLOT_NONE */
	__u64 address;      /* of the frame: with its code it tells one call from another, as long as it runs */
	__u64 words[FRAME_VALUES_WORDS]; /* PyObject *, 0: unset. From 3.14 on the low bits are a tag */
};
_Static_assert(sizeof(struct frame_values) == 48, "frame_values");
#define FRAME_VALUES_HEAD 16u
/* Which locals a mark asks for: index into the frame's locals, which are co_varnames, co_cellvars, co_freevars, or
 * co_localsplusnames from 3.11. */
#define VALUE_SLOT_CELL 0x80u /* what the cell there holds */
#define VALUE_SLOT_NONE 0xffu
struct part_values {
	struct record_part part;
	__u32 n;
	__u32 flags;        /* VALUES_CUT */
	__u64 own;          /* the thread's pthread_self(): its thread state is found by it */
	/* struct frame_values */
};
_Static_assert(sizeof(struct part_values) == 24, "part_values");
#define VALUES_CUT 1u          /* there are more such frames, outside of these */

/* The first bytes of one of these words' objects, of the innermost frame whose mark asks for it: for what does not live until
 * user space reads it. What is behind the bytes is not known. */
#define OBJECT_BYTES 1024u
struct part_object {
	struct record_part part;
	__u64 address;      /* the word without its tag */
	__u8 bytes[OBJECT_BYTES]; /* part.size - 16 of them */
};

/* A code object. The same key may come again (from another CPU, after an
 * eviction, or in pieces): the content of equal keys is equal. */
struct record_code {
	struct record_header header;
	__u64 key;
	__u64 address;
	__u32 first_line;
	__u32 code_size;    /* bytes of bytecode */
	__u32 code_flags;   /* co_flags */
	__u32 arg_count;
	__u32 lines_total;  /* bytes of the whole line table; pieces come as PART_LINES */
	__u32 parts;
	/* parts */
};
_Static_assert(sizeof(struct record_code) == 104, "record_code");

/* A Python string as it lies in memory. */
struct part_string {
	struct record_part part;
	__u32 length;       /* code points in the whole string */
	__u8 kind;          /* bytes per code point: 1, 2, 4 */
	__u8 ascii;
	__u16 variable;     /* of a variable's name: VARIABLE_CELL */
	__u8 data[];        /* part.size - sizeof: padded to 8; may hold less than length * kind */
};

struct part_bytes {
	struct record_part part;
	__u32 offset;       /* of this piece in the whole */
	__u32 length;       /* bytes in this piece; the rest is padding */
	__u8 data[];
};

#define VARIABLE_CELL 1u /* the frame holds a cell: functions inside of this one, or around it, have it too */
/* Names of variables, in the order in which frames hold them: `n` strings back to back, each a struct part_string. */
struct part_variables {
	struct record_part part;
	__u32 n;            /* in this record */
	__u32 total;        /* in the code object */
	/* struct part_string, each padded to 8 */
};

struct record_fork {
	struct record_header header; /* task: the child */
	__u32 parent_tgid;
	__u32 parent_exec;
	__u32 parent_tid;   /* the thread that forked */
	__u32 _pad;
};

#define EVENT_SETTLES 1u /* EXIT: a RECORD_FREED comes, some 30 ms after somebody waited for it */
#define EVENT_LOST 2u    /* EXEC: the client is not authorised for the new image; EXIT: nor was it for the thread, of whose end nothing else is told */

struct record_event {  /* RECORD_EXEC, RECORD_EXIT, RECORD_CLONE, RECORD_FREED, RECORD_LOST */
	struct record_header header;
	__u64 cpu_time;     /* EXIT: sum_exec_runtime so far, as the scheduler counted it last; EXEC: that, or what it ran until now; FREED: the final one */
	__u32 group_dead;   /* EXIT: the last thread of its process */
	__s32 exit_code;
	__u32 old_tid;      /* EXEC: the tid of the thread that called it, 0: not known; CLONE: of the one that made this one */
	__u32 flags;        /* EVENT_* */
};

/* --- waiting (bpf/offcpu.h; docs/waits.md) --- */

/* Where a thread left its CPU. A place is known by its key: the stack of a later stay at it is not taken anew before a period of
 * the sampler's clock is over. */
struct part_wait {
	struct record_part part;
	__u64 key;
	__u64 args[3];      /* of the system call */
	__s32 syscall;      /* its number; -1: it was in none (an interrupt, a page fault) */
	__u32 state;        /* task->__state: 0 it could run on, 1 it sleeps, 2 ... and no signal wakes it, 4, 8 it is stopped */
	__u32 fd_mode;      /* st_mode of the file of the first argument, if that can be a descriptor; 0: not known */
	__u32 flags;        /* WAIT_* */
	/* With WAIT_FOR_GIL, who has it: WAIT_TID and its tid, or (before 3.11, and in a PID namespace below cprofd's, as Python
	 * knows the tid that it has there) pthread_self(); 0: nobody, or not known. Own: this thread's pthread_self(). */
	__u64 holder, own;
};
_Static_assert(sizeof(struct part_wait) == 72, "part_wait");
#define WAIT_FOR_GIL 1u     /* the futex lies in the GIL's state */
#define WAIT_TID (1ull << 63)
#define WAIT_SEEN 2u        /* of WAIT_KEY_BEFORE: there is a stack, all the same */
#define WAIT_KEY_BEFORE 1u  /* it slept before anyone looked: no stack */
#define WAIT_KEY_RAN 2u     /* preempted, wherever it was */
#define WAIT_KEY_ASLEEP 3u  /* CPU time's sessions: found asleep from user space. args[0]: until when it was seen to be where it was before;
			     * args[1]: how often it had got a CPU */
#define WAIT_KEY_LOST 4u    /* in user space alone: the client was not authorised for it meanwhile */

/* A thread's stays at one place since this was told last: their time, to the ns. */
struct record_wait {
	struct record_header header; /* time: the end of the last one, or of the thread, or now */
	__u64 key;          /* part_wait.key */
	__u64 waited;       /* ns: until it was woken */
	__u64 ready;        /* ns: from then on, or since it was preempted, until it ran */
	__u64 begin;        /* of the last one */
	__u32 count;
	__u32 waker;        /* tid of who woke it last; 0: not known, or an interrupt of an idle CPU */
	__u64 arg;          /* as in part_wait: what is known without a stack */
	__s32 syscall;
	__u32 state;
	__u32 args[2];      /* the second and the third argument, of its first stay */
};
_Static_assert(sizeof(struct record_wait) == 128, "record_wait");

/* At that time nothing lay there, and something is about to. */
struct record_map {
	struct record_header header;
	__u64 start, end;
};

/* Bounds of one record. */
#define RECORD_PY_FRAMES_MAX 8192u   /* frames of one sample */
#define RECORD_NATIVE_FRAMES_MAX 16384u /* CPython 3.8 to 3.10 have three for a Python frame */
#define RECORD_STACK_MAX 65536u      /* bytes of a stack: LLVM has frames of some KB, and 60 KB of them */
#define RECORD_KERNEL_FRAMES_MAX 127u /* PERF_MAX_STACK_DEPTH: the kernel gives no more */
#define VALUES_FRAMES_MAX 64u        /* frames of one sample that have values */
#define RECORD_STRING_MAX 1024u      /* bytes kept of one string */
#define RECORD_LINES_MAX 16384u      /* bytes of line table in one record */
#define RECORD_VARIABLES_MAX 64u     /* names of variables kept of one code object */
#define RECORD_VARIABLE_MAX 64u      /* bytes kept of one variable's name */
#define RECORD_CODES_PER_TICK 64u    /* captures in one tick; further ones wait for the next */

/* --- the ring of samples of one CPU (map `samples`, mmapped by the engine) --- */

#define SAMPLE_RING_BYTES (1u << 20)
#define SAMPLE_RECORD_MAX \
	(96u + RECORD_PY_FRAMES_MAX * 16u + 16u + RECORD_NATIVE_FRAMES_MAX * 8u + 16u + RECORD_KERNEL_FRAMES_MAX * 8u + \
	 160u + RECORD_STACK_MAX + 24u + VALUES_FRAMES_MAX * 48u + 72u + 16u + OBJECT_BYTES)

#define SAMPLER_LOSSES 48u
_Static_assert(LOSS_COUNT <= SAMPLER_LOSSES, "a counter for each loss");

/* Counters that the sampler keeps, for each CPU. */
struct sampler_counts {
	__u64 ticks;        /* runs of the sampler */
	__u64 samples;      /* records that went out */
	__u64 bytes;
	__u64 captures;
	__u64 losses[SAMPLER_LOSSES]; /* by enum loss */
};

/* Of which code objects the sampler gives values. The engine writes it: a mark first, then its bit. A mark that is
 * written over while it is read gives the wrong locals of one sample: their `slots` tell. */
struct locals_capture {
	__u64 key;          /* record_code.key; 0: free */
	__u8 slots[FRAME_VALUES_WORDS]; /* the locals that are given */
	__u32 object;       /* of which of them, from 1, the object's bytes go with it (struct part_object); 0: none */
};
#define VALUES_AWAITED 2u
#define LOCALS_CAPTURE_BITS 4096u
#define LOCALS_CAPTURE_SETS 64u
#define LOCALS_CAPTURE_WAYS 4u
struct locals_captures {
	__u64 active;       /* 0: none; then nothing below is looked at. VALUES_AWAITED: a thread that has values may wait for others */
	/* Counts changes of the maps that the engine writes, each after it was made: what the sampler keeps of them is void. In
	 * this line, as each tick reads it. */
	__u64 maps;
	__u64 _pad[6];
	__u64 bits[LOCALS_CAPTURE_BITS / 64]; /* by locals_capture_bit(key): few frames have to be looked for below */
	struct locals_capture captured_locals[LOCALS_CAPTURE_SETS * LOCALS_CAPTURE_WAYS];
};
HOST_INLINE __u32 locals_capture_bit(__u64 key)
{
	return (__u32)(key >> 32) & (LOCALS_CAPTURE_BITS - 1);
}
HOST_INLINE __u32 locals_capture_set(__u64 key)
{
	return (__u32)(key >> 24) & (LOCALS_CAPTURE_SETS - 1);
}

/* head and tail count bytes and never wrap; a record begins at data[count % SAMPLE_RING_BYTES] and is
 * contiguous: the last one runs on past the ring's end. The writer moves head after the record is
 * whole, the reader moves tail after it has copied it. */
struct sample_ring {
	__u64 head;         /* with the counters of each tick: one line of cache */
	struct sampler_counts counts;
	__u64 _pad0[3];
	__u64 tail;
	__u64 polled;       /* when the engine had looked at all that the sampler had written: CLOCK_MONOTONIC ns */
	__u64 _pad1[6];
	struct locals_captures captured_locals; /* the engine writes them, of each CPU's ring the same */
	__u8 data[SAMPLE_RING_BYTES + SAMPLE_RECORD_MAX];
};

_Static_assert(offsetof(struct sample_ring, tail) % 64 == 0, "two writers, two lines");

/* --- maps that the engine writes --- */

/* Which image a process runs: the same in a forked child, new after exec. */
struct image_key {
	__u64 arg_start;    /* mm->arg_start (/proc/PID/stat 48): randomised by each exec, kept by fork */
	__u64 start_data;   /* mm->start_data (/proc/PID/stat 45): both lie in one cache line */
};

/* Whose lists of unwind tables (map `processes`: native_key -> struct unwind_process of unwind.h). With tgid 0:
 * what holds for all processes of an image that have no entry of their own, children that were just forked. */
struct native_key {
	struct image_key image;
	__u64 tgid;
};

struct image;               /* bpf/sampler.bpf.c's `images` map: image_key -> struct image */
#include "pylayout.h"
struct image {
	__u64 runtime;      /* address of _PyRuntime, 0: not a Python (samples without Python part) */
	__u64 code_type;    /* address of PyCode_Type */
	struct py_layout layout;
	__u64 runtime_size; /* bytes of _PyRuntime; 0: not known. The sampler has no use for it */
	__u64 gil;          /* address of the GIL's state; 0: not known, or there is none */
};

#endif
