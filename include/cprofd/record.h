/* SPDX-License-Identifier: MIT */
/* The record format: what the sampler (bpf/) writes into the ring buffers and collect reads. A record is a struct
 * record_header, then a fixed part of its kind; samples and code objects continue with typed, length-prefixed parts,
 * so that new data becomes a new part and not a new format. A reader skips parts and records that it does not know,
 * and trusts no length.
 *
 * Byte order and alignment are the machine's; all sizes are multiples of 8. Times: `time` is CLOCK_MONOTONIC ns
 * (bpf_ktime_get_ns); `*_start` are CLOCK_BOOTTIME ns, as in /proc/PID/stat but finer. */
#pragma once

#include "host.h"
#include "loss.h"

enum record_kind {
	RECORD_SAMPLE = 1,  /* a tick on a thread of the target */
	RECORD_CODE = 2,    /* a code object, copied at first sight */
	RECORD_FORK = 3,    /* a new process (thread group) below the target */
	RECORD_EXEC = 4,    /* a process got a new image */
	RECORD_EXIT = 5,    /* a thread ended */
	RECORD_CLONE = 6,   /* a new thread of a process of the target */
	RECORD_MAP = 7,     /* new memory was mapped: only if native stacks are requested */
	RECORD_WAIT = 8,    /* off-CPU time of a thread: sums of one place (wall mode), or of a thread that compiles, since it left its CPU */
	RECORD_WAKE = 9,    /* struct record_wake: asks the engine to read the samples soon */
	RECORD_FREED = 10,  /* an exited thread is gone: its final CPU time, of which RECORD_EXIT has only a part */
	RECORD_SLEEPS = 11, /* struct record_wake: a thread that left its CPU has new values */
	RECORD_LOST = 12,   /* the client is no longer authorised for a thread, since some time after its last record */
	RECORD_STARTED = 13, /* struct record_started: some process of the host called exec (sessions of a host) */
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

/* The first words of a header. */
struct record_wake {
	__u32 size;
	__u16 kind;
	__u16 cpu;
};

struct record_part {
	__u16 kind;         /* enum record_part_kind */
	__u16 loss;         /* enum loss: why this part is incomplete, or 0 */
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
	PART_VALUES = 18, /* struct part_values: locals that rules select; innermost frame first */
	PART_STACK = 19, /* struct part_stack */
	PART_WAIT = 20, /* struct part_wait: with SAMPLE_OFF_CPU, and last */
	PART_OBJECT = 21, /* struct part_object: any number of them follow PART_VALUES */
};

/* struct record_sample.flags */
#define SAMPLE_GIL 16u        /* a tick while this thread held the GIL; only if requested, and in wall mode */
#define SAMPLE_IN_KERNEL 1u   /* the tick interrupted the thread in the kernel */
#define SAMPLE_NO_PYTHON 2u   /* this thread has no thread state */
#define SAMPLE_OFF_CPU 4u     /* no tick: the stack of a thread that left its CPU; it has no weight of its own */
#define SAMPLE_ASLEEP 8u      /* ... before the session began: registers only (part_stack without bytes).
			       * cpu_time is its number of timeslices (third number of /proc/TID/schedstat) */

#define SAMPLE_OF_CPU 32u      /* a tick of the CPU's clock, not of the thread's own: comes at any time of its life */
#define SAMPLE_EXITING 64u     /* the thread is exiting, in the kernel: no frames */
#define SAMPLE_FOLDED 128u     /* all behind struct record_sample is folded (fold.h): no parts before it is unfolded */

/* The period (ns) tells the sampler's clocks apart: an odd one is a CPU's. */
#define CLOCK_OF_CPU 1ull
#define CLOCK_OF_SWITCH 1ull /* the whole period: not a tick, the thread leaves its CPU (mode cpu) */

struct record_sample {
	struct record_header header;
	__u64 cpu_time;     /* task->se.sum_exec_runtime, ns: exact, but updated only by the
			     * scheduler (each HZ tick and each switch) */
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
			__s32 offset; /* bytes into the bytecode; < 0: entered, nothing executed yet */
			__u32 flags;
		};
		__u64 place; /* both, for one store: offset is the lower half */
	};
};
#define PY_FRAME_ENTRY 1u     /* native frames are between this frame and the next (outer) one */
#define PY_FRAME_TSTATE 2u    /* first (innermost) frame of a further thread state of this thread */
#define PY_FRAME_GENERATOR 4u /* owned by a generator or coroutine */
#define PY_FRAME_DYING 8u     /* being cleared while the sample was taken */
/* 3.11, 3.12: the innermost one, and it does not lie in the newest piece of the thread's data stack, or is not the one that the thread state leads to. */
#define PY_FRAME_UNSURE 16u
/* 3.12+: eval loops without a Python frame, because the contents of their last frame are being destroyed: how many
 * are directly inside of this frame, and, for the outermost frame of a thread state, directly outside. At most 255. */
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

/* The native stack by the unwind tables, after the Python part. pc[i] is the program counter of frame i as found on
 * the stack: a return address, which is behind its call; or, with NATIVE_EXACT, an interrupted instruction: that of
 * the innermost frame (for a tick in the kernel: the one behind the system call), and that of the frame below a
 * signal frame. */
struct part_native_frames {
	struct record_part part; /* loss != 0: why the walk stopped before the thread's entry function, at pc[n - 1] */
	__u32 n;
	__u32 flags;             /* NATIVE_WHOLE */
	__u64 pc[];
};
#define NATIVE_WHOLE 1u          /* the last frame is the thread's entry function */
#define NATIVE_EXACT (1ull << 63)
/* A byte of the instruction that a pc of such a part refers to: at the return address itself another function may
 * begin. */
static inline __u64 native_address(__u64 pc)
{
	return pc & NATIVE_EXACT ? pc & ~NATIVE_EXACT : pc - 1;
}

/* After native frames that end in LOSS_NATIVE_PENDING or LOSS_NATIVE_MAPPING, if the ring has room: a copy of the
 * stack, so that it can be walked later with more tables. No page is faulted in, so the copy may be incomplete; the
 * depth of the stack is not known. */
struct part_stack {
	struct record_part part;
	__u64 regs[17];          /* by DWARF number, as the thread had them in user space, at pc[0] */
	__u64 sp;                /* address of bytes[0]: up to 135 below regs[7] (the red zone) */
	__u32 size;              /* valid bytes; the rest of the part is padding */
	__u32 _pad;
	__u8 bytes[];
};
_Static_assert(sizeof(struct part_stack) == 160, "part_stack");

/* The kernel stack of a tick in the kernel, from the interrupted instruction to the kernel's entry; it is inside of
 * all other frames. pc[0] is an instruction, the others are return addresses. */
struct part_kernel_frames {
	struct record_part part; /* loss != 0: no stack */
	__u32 n;
	__u32 _pad;
	__u64 pc[];
};

/* Locals of Python frames whose code has an entry in struct locals_captures. In a record, words that were not
 * requested are left out: an entry is FRAME_VALUES_HEAD + 8 * n bytes long. */
#define FRAME_VALUES_WORDS 4u
struct frame_values {
	__u16 frame;        /* index in part_py_frames.frames */
	__u8 unread;        /* a bit for each word that could not be read */
	__u8 n;             /* words */
	__u8 slots[FRAME_VALUES_WORDS];  /* as in the locals_capture: the first n, then VALUE_SLOT_NONE */
	__u64 address;      /* of the frame: with its code it identifies the call while it runs */
	__u64 words[FRAME_VALUES_WORDS]; /* PyObject *, 0: unset. From 3.14 on the low bits are a tag */
};
_Static_assert(sizeof(struct frame_values) == 48, "frame_values");
#define FRAME_VALUES_HEAD 16u
/* Which locals a locals_capture requests: index into the frame's locals, which are co_varnames, co_cellvars,
 * co_freevars, or co_localsplusnames from 3.11. */
#define VALUE_SLOT_CELL 0x80u /* read the contents of the cell there */
#define VALUE_SLOT_NONE 0xffu
struct part_values {
	struct record_part part;
	__u32 n;
	__u32 flags;        /* VALUES_CUT */
	__u64 own;          /* the thread's pthread_self(), by which its thread state is found */
	/* struct frame_values */
};
_Static_assert(sizeof(struct part_values) == 24, "part_values");
#define VALUES_CUT 1u          /* there are more such frames, further out */
#define VALUES_OBJECTS_CUT 2u  /* there are more objects to copy, of frames further out */
#define VALUES_ASLEEP 4u       /* made in user space: the thread slept, so what attributes lead to is what its frames have */

/* A copy of an object that one of these words refers to, if its locals_capture requests it: an object that is made for a call is
 * freed with it, and the next call's object mostly lies where it lay. A text is there whole, of any other object its begin. */
#define OBJECT_HEAD 112u  /* a function's qualified name is behind it, in 3.8; a multiple of 8 */
#define OBJECT_TEXT 4096u /* bytes of characters; more are cut off */
struct part_object {
	struct record_part part;
	__u64 address;      /* the word without its tag; of bytes[0] */
	__u64 apart;        /* 0, or, of a text whose characters are not behind its head: their address, of bytes[begin] */
	__u16 begin, end;   /* of the bytes that make its value: characters, digits, else the type */
	__u32 flags;        /* OBJECT_IS_TEXT */
	__u8 bytes[OBJECT_HEAD + OBJECT_TEXT];
};
#define OBJECT_FIXED 32u  /* before bytes */
_Static_assert(offsetof(struct part_object, bytes) == OBJECT_FIXED && sizeof(struct part_object) % 8 == 0, "part_object");
#define OBJECT_IS_TEXT 1u
/* It is no local's own: path `path` of the frame_values whose `frame` this is led to it (struct py_path). */
#define OBJECT_OF_PATH 2u
#define OBJECT_PATH_SHIFT 8
#define OBJECT_FRAME_SHIFT 16
#define object_of_path(path, frame) (OBJECT_OF_PATH | (__u32)(path) << OBJECT_PATH_SHIFT | (__u32)(frame) << OBJECT_FRAME_SHIFT)
#define SAMPLE_OBJECTS_MAX 16u   /* of one sample */
#define SAMPLE_OBJECTS_BYTES (4 * sizeof(struct part_object)) /* one begins only where there is room for any */

/* A code object. The same key may come again (from another CPU, after an eviction, or in pieces), always with the
 * same content. */
struct record_code {
	struct record_header header;
	__u64 key;
	__u64 address;
	__u32 first_line;
	__u32 code_size;    /* bytes of bytecode */
	__u32 code_flags;   /* co_flags */
	__u32 arg_count;
	__u32 lines_total;  /* bytes of the whole line table, which comes in pieces as PART_LINES */
	__u32 parts;
	/* parts */
};
_Static_assert(sizeof(struct record_code) == 104, "record_code");

/* A Python string as it is in memory. */
struct part_string {
	struct record_part part;
	__u32 length;       /* code points in the whole string */
	__u8 kind;          /* bytes per code point: 1, 2, 4 */
	__u8 ascii;
	__u16 variable;     /* for a variable's name: VARIABLE_... */
	__u8 data[];        /* part.size - sizeof: padded to 8; may hold less than length * kind */
};

struct part_bytes {
	struct record_part part;
	__u32 offset;       /* of this piece in the whole */
	__u32 length;       /* bytes in this piece; the rest is padding */
	__u8 data[];
};

#define VARIABLE_CELL 1u /* the frame holds a cell, shared with functions inside of this one or around it */
#define VARIABLE_ARGUMENT 2u /* of a cell, 3.11+: before it is made, an argument of whatever kind lies there itself */
/* Names of variables, in the order of a frame's locals: `n` strings back to back, each a struct part_string. */
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

#define EVENT_SETTLES 1u /* EXIT: a RECORD_FREED follows, some 30 ms after the task was reaped */
#define EVENT_LOST 2u    /* EXEC: not authorised for the new image; EXIT: nor for the thread: no cpu_time, exit_code */
/* EXEC: the kernel took all its perf events away, as the program is setuid or may not be read (begin_new_exec, fs/exec.c). */
#define EVENT_UNTIMED 4u

struct record_event {  /* RECORD_EXEC, RECORD_EXIT, RECORD_CLONE, RECORD_FREED, RECORD_LOST */
	struct record_header header;
	__u64 cpu_time;     /* EXIT: sum_exec_runtime as last updated; EXEC: or a better estimate; FREED: final */
	__u32 group_dead;   /* EXIT: the last thread of its process */
	__s32 exit_code;
	__u32 old_tid;      /* EXEC: tid of the calling thread, 0: not known; CLONE: of the thread that made this one */
	__u32 flags;        /* EVENT_* */
};

struct record_started {
	struct record_header header;
	__u64 cpu_time;     /* as of RECORD_EXEC */
	__u64 inode;        /* of its program: of a script its interpreter */
	__u32 device;       /* s_dev, as the kernel has it */
	__u32 _pad;
};

/* --- waiting (bpf/offcpu.h; docs/waits.md) --- */

/* Where a thread left its CPU. A place is identified by its key: the stack of a later wait at the same place is
 * taken again only after a period of the sampler's clock. */
struct part_wait {
	struct record_part part;
	__u64 key;
	__u64 args[3];      /* of the system call */
	__s32 syscall;      /* its number; -1: none (an interrupt, a page fault) */
	__u32 state;        /* task->__state: 0 runnable, 1 sleeping, 2 ... uninterruptibly, 4, 8 stopped */
	__u32 fd_mode;      /* st_mode of the file of the first argument, if that can be a descriptor; 0: not known */
	__u32 flags;        /* WAIT_* */
	/* With WAIT_FOR_GIL, the holder: WAIT_TID and its tid; or pthread_self(), before 3.11 and in a PID namespace
	 * below cprofd's, where Python's native thread ids are other ones; 0: nobody, or unknown. own: this thread's
	 * pthread_self(). */
	__u64 holder, own;
};
_Static_assert(sizeof(struct part_wait) == 72, "part_wait");
#define WAIT_FOR_GIL 1u     /* the futex is part of the GIL's state */
#define WAIT_TID (1ull << 63)
#define WAIT_SEEN 2u        /* with WAIT_KEY_BEFORE: there is a stack nevertheless */
#define WAIT_FOUND 4u       /* with WAIT_KEY_ASLEEP: it is not known where the thread slept before */
#define WAIT_KEY_BEFORE 1u  /* it slept before the session began: no stack */
#define WAIT_KEY_RAN 2u     /* preempted, anywhere */
#define WAIT_KEY_ASLEEP 3u  /* in CPU time sessions: wherever a thread that compiles leaves its CPU */
#define WAIT_KEY_LOST 4u    /* made in user space only: the client was not authorised for it meanwhile */

/* Sums of a thread's waits at one place since its last such record, exact to the ns. */
struct record_wait {
	struct record_header header; /* time: end of the last wait, or of the thread, or now */
	__u64 key;          /* part_wait.key */
	__u64 waited;       /* ns until it was woken */
	__u64 ready;        /* ns from then, or from its preemption, until it ran */
	__u64 begin;        /* of the last wait */
	__u32 count;
	__u32 waker;        /* tid of the last waker; 0: unknown, or an interrupt of an idle CPU */
	__u64 arg;          /* arg, syscall, state: as in part_wait, known even without a stack */
	__s32 syscall;
	__u32 state;
	__u32 args[2];      /* the second and the third argument, of the first wait */
};
_Static_assert(sizeof(struct record_wait) == 128, "record_wait");

/* A mapping is about to be made in this range, where nothing is mapped at that time. */
struct record_map {
	struct record_header header;
	__u64 start, end;
};

/* Bounds of one record. */
#define RECORD_PY_FRAMES_MAX 8192u   /* frames of one sample */
#define RECORD_NATIVE_FRAMES_MAX 16384u /* CPython 3.8 to 3.10 have three per Python frame */
#define RECORD_STACK_MAX 65536u      /* bytes of a stack: LLVM has frames of some KB, up to 60 KB together */
#define RECORD_KERNEL_FRAMES_MAX 127u /* PERF_MAX_STACK_DEPTH: the kernel gives no more */
#define VALUES_FRAMES_MAX 64u        /* frames of one sample that have values */
#define RECORD_STRING_MAX 1024u      /* bytes kept of one string */
#define RECORD_LINES_MAX 16384u      /* bytes of line table in one record */
#define RECORD_VARIABLES_MAX 64u     /* names of variables kept of one code object */
#define RECORD_VARIABLE_MAX 64u      /* bytes kept of one variable's name */
#define RECORD_CODES_PER_TICK 64u    /* captures in one tick; further ones are left to the next */

/* --- the ring of samples of one CPU (map `samples`, mmapped by the engine) --- */

#define SAMPLE_RING_BYTES (1u << 20)
#define SAMPLE_RECORD_MAX \
	(96u + RECORD_PY_FRAMES_MAX * 16u + 16u + RECORD_NATIVE_FRAMES_MAX * 8u + 16u + RECORD_KERNEL_FRAMES_MAX * 8u + \
	 160u + RECORD_STACK_MAX + 24u + VALUES_FRAMES_MAX * 48u + 72u + SAMPLE_OBJECTS_BYTES)

#define SAMPLER_LOSSES 48u
_Static_assert(LOSS_COUNT <= SAMPLER_LOSSES, "a counter for each loss");

/* Counters that the sampler keeps, for each CPU. */
struct sampler_counts {
	__u64 ticks;        /* runs of the sampler */
	__u64 samples;      /* records written */
	__u64 bytes;
	__u64 captures;
	__u64 losses[SAMPLER_LOSSES]; /* by enum loss */
};

/* A code object for which the sampler copies locals. The engine writes it first, and then its bit. If it is
 * overwritten while the sampler reads it, one sample has the wrong locals; their `slots` show which. */
struct locals_capture {
	__u64 key;          /* record_code.key; 0: free */
	__u8 slots[FRAME_VALUES_WORDS]; /* the locals to copy */
	/* A bit for each of them whose object is copied, too (struct part_object); then for each path of attributes
	 * (capture_path) the number of the local, from 1 on, that it begins with, 0: none */
	__u16 copies;
	__u16 wakes;        /* CAPTURE_WAKES_*: do values wake the engine, so that what they point to is read soon? */
};
#define CAPTURE_WAKES_NEVER 0u /* nothing is read: the record has all of it */
#define CAPTURE_WAKES_ONCE 1u  /* words that were not seen before: what they point to lives as long as the program */
#define CAPTURE_WAKES_CALLS 2u /* words that were not seen lately at this address */
#define CAPTURE_PATHS 4u
#define capture_path_shift(path) (FRAME_VALUES_WORDS + 3 * (path))
#define capture_path(copies, path) ((copies) >> capture_path_shift(path) & 7)
_Static_assert(capture_path_shift(CAPTURE_PATHS) == 16 && FRAME_VALUES_WORDS < 8, "locals_capture.copies");

/* How the tick gets from the object that a local holds to the one that a path of attributes leads to (`kernel.name`): loads,
 * and checks that the objects are still made like those of which user space found the way, as it read them. It is about
 * classes, not about objects: other objects of the class take the same way. There are two registers: `a` begins as the address of
 * the object and ends as that of the result. */
#define PY_PATH_STEPS 16u
struct py_path_step {
	__u64 value;        /* of a check */
	__s32 offset;       /* of the word to read, from the register's address */
	__u8 flags;         /* PY_PATH_* */
	__u8 shift;         /* bits of a check that do not count, at the upper end */
	__u8 tag;           /* the lowest three bits that a word must have to be loaded */
	__u8 _pad;
};
#define PY_PATH_FROM_B 1u /* by register b, not a */
#define PY_PATH_TO_B 2u   /* the word goes to register b */
#define PY_PATH_CHECK 4u  /* it must be `value`, and goes nowhere else */
struct py_path {
	__u64 key;          /* py_path_key(); 0: free */
	__u32 written;      /* odd: it is being written; changes each time */
	__u32 n;
	struct py_path_step steps[PY_PATH_STEPS];
};
_Static_assert(sizeof(struct py_path_step) == 16, "py_path_step");
#define PY_PATHS_SETS 64u
#define PY_PATHS_WAYS 4u
/* `code`: locals_capture.key; `type`: of the object that the local holds. */
HOST_INLINE __u64 py_path_key(__u64 code, __u32 path, __u64 type)
{
	return ((code ^ type) * 0x9e3779b97f4a7c15ull + path * 0xbf58476d1ce4e5b9ull) | 1;
}
HOST_INLINE __u32 py_path_set(__u64 key)
{
	return (__u32)(key >> 40) & (PY_PATHS_SETS - 1);
}

#define LOCALS_CAPTURE_BITS 4096u
#define LOCALS_CAPTURE_SETS 64u
#define LOCALS_CAPTURE_WAYS 4u
struct locals_captures {
	__u64 active;       /* 0: nothing below is read */
	/* Generation number: the engine increments it after each change of the maps, which invalidates the sampler's
	 * caches. In this cache line, as each tick reads it. */
	__u64 maps;
	/* Generation number: the engine increments it before it forgets code objects. The sampler then sends those that it samples once more. */
	__u64 codes;
	__u64 next_path;    /* which way of a set is overwritten next; only the engine's */
	__u64 _pad[4];
	__u64 bits[LOCALS_CAPTURE_BITS / 64]; /* Bloom filter (locals_capture_bit): few frames are searched below */
	struct locals_capture captured_locals[LOCALS_CAPTURE_SETS * LOCALS_CAPTURE_WAYS];
	struct py_path paths[PY_PATHS_SETS * PY_PATHS_WAYS]; /* of one key there may be several: all are tried */
};
HOST_INLINE __u32 locals_capture_bit(__u64 key)
{
	return (__u32)(key >> 32) & (LOCALS_CAPTURE_BITS - 1);
}
HOST_INLINE __u32 locals_capture_set(__u64 key)
{
	return (__u32)(key >> 24) & (LOCALS_CAPTURE_SETS - 1);
}

/* head and tail count bytes and never wrap. A record begins at data[count % SAMPLE_RING_BYTES] and is contiguous:
 * the last one extends past the ring's end. The writer moves head once the record is complete; the reader moves tail
 * once it has copied it. */
struct sample_ring {
	__u64 head;         /* in one cache line with the counters of each tick */
	struct sampler_counts counts;
	__u64 _pad0[3];
	__u64 tail;
	__u64 polled;       /* when the engine had last read everything, CLOCK_MONOTONIC ns */
	__u64 _pad1[6];
	struct locals_captures captured_locals; /* written by the engine, the same in each CPU's ring */
	__u8 data[SAMPLE_RING_BYTES + SAMPLE_RECORD_MAX];
};

_Static_assert(offsetof(struct sample_ring, tail) % 64 == 0, "two writers, two lines");

/* --- maps that the engine writes --- */

/* Identifies the image that a process runs: the same in a forked child, new after exec. */
struct image_key {
	__u64 arg_start;    /* mm->arg_start (/proc/PID/stat 48): randomised by each exec, kept by fork */
	__u64 start_data;   /* mm->start_data (/proc/PID/stat 45): both are in one cache line */
};

/* Selects the list of unwind tables (map `processes`: native_key -> struct unwind_process of unwind.h). With tgid 0:
 * for all processes of an image without an entry of their own, i.e. children that were just forked. */
struct native_key {
	struct image_key image;
	__u64 tgid;
};

struct image;               /* bpf/sampler.bpf.c's `images` map: image_key -> struct image */
#include "pylayout.h"
struct image {
	__u64 runtime;      /* address of _PyRuntime, 0: not a Python process (samples without Python frames) */
	__u64 code_type;    /* address of PyCode_Type */
	struct py_layout layout;
	__u64 runtime_size; /* bytes of _PyRuntime; 0: not known. Not used by the sampler */
	__u64 gil;          /* address of the GIL's state; 0: not known, or there is none */
};
