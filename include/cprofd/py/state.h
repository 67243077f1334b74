/* SPDX-License-Identifier: MIT */
/* A walk: what goes in, what comes out, what is remembered, and how raw bytes are read. Of the walker of
 * ../pywalk.h; not for others. */
#pragma once

#include "../arch.h"
#include "../host.h"
#include "../loss.h"
#include "../pylayout.h"
#include "../record.h"

#define PY_TSTATES_MAX 4u       /* thread states of one OS thread that are followed */
#define PY_INTERPRETERS_MAX 256u
#define PY_THREADS_MAX 65536u   /* thread states searched for ours */
#define PY_REGISTERS UNWIND_GENERAL
#define PY_RAW_FRAME 128u
#define PY_RAW_CODE 192u
#define PY_RAW_TSTATE 320u
#define PY_CFRAMES 1024u        /* bytes of the C stack from one _PyCFrame to the next, read at once */

#define PY_WINDOW 8192u         /* bytes of the data stack, read at once */
#define PY_STACK_WORDS 64u      /* locals and stack of a frame that a repair searches */
#define PY_SHIMS 4096u          /* bytes of the C stack, read at once for the shims of 3.12+ */
#define PY_ROUND 24u            /* frames in a round of the loop */
#define PY_SETS 1024u           /* of four slots: a compile of Numba's is at work on some 1,500 code objects */
#define PY_TENANTS 2048u        /* addresses of code objects */
#define PY_RECENT 512u          /* slots by place: a place is 64 bytes of the data stack */
#define PY_PROOF_NS (1ull << 27) /* 134 ms */
#define PY_HINT_NS (1ull << 25) /* 34 ms */

struct py_todo {                /* a code object to capture */
	__u64 code;             /* address */
	__u64 key;
};

/* The last proof of a code object. `word` is its address mixed with its frame's globals and the process (40 bits),
 * PY_EACH_SIGHT, its age, and until when it holds (18 bits, in units of PY_PROOF_NS / 8, modulo). Up to PY_SIGHTS the age counts
 * proofs, and none holds: the code is young, and the last field says when it was seen first. The next three ages hold for a quarter and half of
 * PY_PROOF_NS, and for all of it. */
struct py_slot {
	__u64 word;
	__u64 key;              /* 0: an empty slot */
};
#define PY_TAG_SHIFT 24
#define PY_TAG_MASK ((1ull << 40) - 1)
#define PY_EACH_SIGHT (1ull << 23)
#define PY_AGE_SHIFT 18
#define PY_AGE_MASK 31u
#define PY_SIGHTS 24u           /* fewer are sampled again and again by samples in step with a program */
#define PY_AGES (PY_SIGHTS + 3)
#define PY_UNTIL_MASK ((1ull << PY_AGE_SHIFT) - 1)
#define PY_UNTIL_SHIFT 24

/* Where frames go: the record that is sent, so that nothing is copied. */
struct py_out {
	__u64 head[12];         /* struct record_sample and struct part_py_frames */
	struct py_frame frames[RECORD_PY_FRAMES_MAX + PY_ROUND]; /* the last round may begin anywhere, for the verifier */
};

/* A thread state of the thread that is walked. */
struct py_tstate {
	__u64 address;
	__u64 frame;            /* its innermost */
	/* Where the newest piece of its data stack begins (0: not known), and its first free byte. */
	__u64 chunk, top;
	__u64 cframe;           /* 3.11, 3.12: the _PyCFrame in front */
	__u64 caller;           /* 3.11, 3.12: the _PyCFrame of the eval loop that called this one */
	__u64 linked;           /* what that one runs, 0: not read */
};

/* A proof by the place of a frame: `word` is the code's address mixed with the globals (py_code_of), the process and the time (py_recent_mix), so
 * that all of them are void when its turn is over. Of code that is PY_AGES old. */
struct py_recent {
	__u64 word;
	__u64 key;
};
#define PY_RECENT_SHIFT 26      /* ns: 67 ms */

struct py_walk {
	/* The window, room for a frame that sticks out of it, and a frame read by itself. It comes first: a
	 * copy between places that are aligned alike takes half the time, and chunks begin with a page. */
	__u8 memory[PY_WINDOW + PY_RAW_FRAME + PY_SHIMS + PY_RAW_FRAME];
#define PY_AT_SHIMS (PY_WINDOW + PY_RAW_FRAME)
#define PY_AT_MAX (PY_AT_SHIMS + PY_SHIMS) /* where a frame may begin */
	__u8 raw[PY_RAW_TSTATE + 64]; /* py_raw() */
	__u8 cframes[PY_CFRAMES];
	/* in */
	__u64 thread_pointer;
	__u64 hint;             /* thread state found for this thread before, or 0 */
	__u64 hint_until;       /* ns: till then the process has one interpreter */
	__u64 hint_cframe, hint_caller; /* of it */
	__u64 hint_shim;        /* the outermost shim of its last walk, or 0 */
	__u64 now;              /* CLOCK_MONOTONIC ns */
	__u64 salt;             /* of the process: equal addresses of two processes differ */
	__u64 round;            /* mixed into proofs: those of another round are void */
	/* The sampler's own, with objects[]: what goes with the values (bpf/values.h). */
	__u32 n_objects, objects_size, objects_read;
	/* state and out */
	__u64 frame;            /* next frame, 0: none */
	__u64 chunk, top, caller, linked; /* of the thread state that is walked */
	__u64 called;           /* 3.11, 3.12: the innermost frame, if it has run nothing (3.11: and is no entry), else 0 */
	__u64 entered_from;     /* py_walk_hot: where the next entry frame must go back to */
	__u64 window;           /* address of memory[0], 0: nothing read */
	__u64 shims;            /* address of memory[PY_AT_SHIMS] */
	__u64 shim;             /* passed last, or 0 */
	__u64 proven;           /* what an address is mixed with in recent[] */
	__u32 window_end;       /* a frame that begins before this offset is there whole */
	__u32 shims_end;
	__u32 n;                /* frames found */
	__u32 n_todo;
	__u32 flags;            /* PY_FRAME_* for the next frame */
	__u32 n_tstates;
	__u32 first;            /* which of tstates[] comes first */
	__u32 which;            /* the one whose chain is walked */
	__u16 loss;             /* enum loss: where the walk was cut */
	__u16 loss_before;      /* ... before py_repair_link(): here, and not on the stack, of which kernels give 512 bytes */
	__u8 closed;            /* the last frame was an entry: the chain may end */
	__u8 code_of_file;      /* of the code object proven last */
	__u8 several;           /* the process has several interpreters: py_code_prove */
	__u8 repairs;           /* in: who walks has the registers, and calls py_walk_repair() where a walk is cut */
	__u32 searched;         /* thread states searched */
	__u8 at_root;           /* 3.11, 3.12: nothing runs by the _PyCFrame in front and the thread's first one: py_uncall */
	struct py_tstate tstates[PY_TSTATES_MAX];
	__u64 interp;
	__u64 candidate;        /* search */
	__u64 fault;            /* address that was not readable */
	__u64 leaf;             /* what py_repair knows of the innermost link */
	struct py_recent recent[PY_RECENT]; /* by the place of the frame: the codes of the last walk, in a row */
	__u8 code[PY_RAW_CODE];
	__u64 objects[2 * SAMPLE_OBJECTS_MAX];
	__u64 object_codes[2 * SAMPLE_OBJECTS_MAX]; /* where object_of[] is a path: the key of the frame's code */
	__u32 object_of[2 * SAMPLE_OBJECTS_MAX];    /* 0, or object_of_path() */
	__u64 registers[PY_REGISTERS]; /* of the thread, for py_repair */
	__u64 words[PY_STACK_WORDS]; /* of a frame's stack, for py_repair; of a string, for py_code_deep */
	struct py_todo todo[RECORD_CODES_PER_TICK];
	struct py_slot slots[PY_SETS * 4];
	__u64 tenants[PY_TENANTS]; /* py_code_moves_in */
	__u64 places[RECORD_PY_FRAMES_MAX + PY_ROUND]; /* address of each frame of the walk */
};

struct py_walk_context {
	struct py_walk *walk;
	const struct image *image;
	struct py_out *out;
};


#if !defined(__bpf__) && !defined(PY_SEEN)
HOST_INLINE int py_seen(__u64 key)
{
	return 0;
}
#endif

#ifndef PY_STACK
HOST_INLINE const struct host_window *py_stack(void)
{
	return NULL;
}
#endif

/* The first bytes of an object that may be shorter, and the last of an arena behind which nothing is mapped: then up to the end of its
 * page, and 0. */
HOST_INLINE long py_read_object(void *to, __u32 size, __u64 address)
{
	__u32 left = 4096 - ((__u32)address & 4095);

	if (!host_read(to, size, address))
		return 0;
	host_barrier(left);
	if (left >= size)
		return 1;
#if !defined(__bpf__) /* there a read that fails leaves 0 */
	memset(to, 0, size);
#endif
	return host_read(to, left, address);
}

HOST_INLINE __u64 py_mix(__u64 h, __u64 word)
{
	h ^= word;
	h *= 0x9e3779b97f4a7c15ull;
	h ^= h >> 32;
	return h;
}

/* Words of raw bytes: a hostile target's frames lie at any address. The verifier allows such loads where
 * the machine does; clang would take them apart if told. */
#if defined(__bpf__)
typedef __u64 py_word64;
typedef __u32 py_word32;
#else
typedef __u64 __attribute__((aligned(1), may_alias)) py_word64;
typedef __u32 __attribute__((aligned(1), may_alias)) py_word32;
#endif

/* Fields of raw bytes at offsets that only the layout knows. */
HOST_INLINE __u64 py_u64(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 8)
		return 0;
	return *(const py_word64 *)(raw + offset);
}

HOST_INLINE __u32 py_u32(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 4)
		return 0;
	return *(const py_word32 *)(raw + offset);
}

HOST_INLINE __u8 py_u8(const __u8 *raw, __u32 size, __u32 offset)
{
	if (offset > size - 1)
		return 0;
	return raw[offset];
}

HOST_INLINE long py_read64(struct py_walk *walk, __u64 address, __u64 *ret)
{
	long err = host_read(ret, sizeof(*ret), address);

	if (err)
		walk->fault = address;
	return err;
}
