/* SPDX-License-Identifier: MIT */
/* Classes of time: is a sample interpreter work, a C call, compiler work, GC ...? Pure functions; docs/classes.md has
 * the rules in words.
 *
 * The frames up to the innermost Python frame decide, that frame included; the ones further out only say whether an
 * import is in progress. Each function gets a trait once (class__trait); the class of a sample follows from traits
 * alone. Example: frames ins1 (interpreter), list.append (call), f (Python) are class "C call" with the name
 * list.append.
 *
 * Caller: profile/classify.c, for each sample once its CPU time is known. Traits are stored with the functions' rows
 * (profile/tables.h), so that no string is compared for a sample.
 *
 * Memory: none; strings in results are those of the input, or constants. Threads: any. Errors: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(id, name): in order of precedence; 0 is "not determined". Names are those of the `classes` event. */
#define CPROFD_CLASSES(X) \
	X(NONE, "") \
	X(KERNEL, "kernel") \
	X(GC, "GC") \
	X(COMPILER, "compiler native") \
	X(JIT, "JIT code") \
	X(DISPATCH, "JIT dispatch") \
	X(IMPORT, "import") \
	X(CALL, "C call") \
	X(INTERPRETER, "interpreter") \
	X(UNKNOWN, "unknown") \
	X(WAITING, "waiting") /* wall mode: off-CPU; never at a tick (wait/wait.h) */ \
	X(READY, "ready") \
	X(WITHOUT_GIL, "without the GIL") /* with --gil: a tick of a thread that does not hold the GIL */

#define CLASS_ENUM(id, name) CLASS_##id,
enum class_kind { CPROFD_CLASSES(CLASS_ENUM) CLASS_COUNT };
#undef CLASS_ENUM

/* The name as in the `classes` event and in tables; "" for NONE and for what is out of range. */
const char *class__name(enum class_kind kind);

/* The kind of a function's row: who made the code, and how it came into the stack. Same order as enum function_kind
 * of events.h, so that one is cast to the other. NOTE: a frame that says something, such as "(unknown native code)".
 * INTERPRETER: native code of libpython or of the python program. CALL: a callee that was put between a Python frame
 * and native ones. */
enum class_origin {
	ORIGIN_PYTHON, ORIGIN_NATIVE, ORIGIN_KERNEL, ORIGIN_NOTE, ORIGIN_JIT, ORIGIN_INTERPRETER, ORIGIN_CALL,
};

/* What a function means to the class of a sample that has it in its stack. Stored in eight bits, per function. */
enum trait_kind {
	TRAIT_NONE,        /* not determined yet */
	TRAIT_PYTHON,
	TRAIT_IMPORT,      /* a Python function of importlib: `detail` is enum import_phase */
	TRAIT_NOTE,        /* frames are missing here */
	TRAIT_NOWHERE,     /* native code in no known mapping */
	TRAIT_INTERPRETER, /* a C function of the interpreter */
	TRAIT_EVAL,        /* its eval loop */
	TRAIT_GC,          /* its garbage collector */
	TRAIT_SYSTEM,      /* the C library and the like: counts for its caller */
	TRAIT_BRIDGE,      /* ctypes, libffi: count for what they call */
	TRAIT_NATIVE,
	TRAIT_JIT,
	TRAIT_RULE,        /* `detail`: index into class_rules */
	TRAIT_KERNEL,
	TRAIT_CALL,        /* a callable that an instruction called, by its Python name */
	TRAIT_FORWARDS,    /* a callable that calls its argument (functools.partial) */
};

struct trait {
	uint8_t kind;      /* enum trait_kind */
	uint8_t detail;
};

/* Called once for each function. `name`: as shown (demangled; the Python name of a callee). `module`: the file's
 * base name. `file`: the source file, of Python functions. "" where there is none; never NULL. */
struct trait class__trait(enum class_origin origin, const char *name, const char *module, const char *file);

/* Does the callable of this name call one of its arguments? Some are of interest themselves (partial, map), others are
 * only a way to call (a bound method). */
enum class_forwards { FORWARDS_NOT, FORWARDS_SHOWN, FORWARDS_SILENTLY };
enum class_forwards class__forwards(const char *callee);

/* --- imports: the phase holds for all frames further in --- */

#define IMPORT_PHASES(X) \
	X(NO, "") X(FIND, "find") X(READ, "read") X(UNMARSHAL, "unmarshal") X(COMPILE, "compile") \
	X(LOAD, "load") X(EXECUTE, "execute")
#define IMPORT_ENUM(id, name) IMPORT_##id,
enum import_phase { IMPORT_PHASES(IMPORT_ENUM) };
#undef IMPORT_ENUM

/* The phase of a frame whose caller's phase is `outer`. Apply it from the outermost frame inwards; IMPORT_NO: no
 * import is in progress. A Python function that the import machinery calls is the module's body: IMPORT_EXECUTE. */
enum import_phase class__import(enum import_phase outer, struct trait frame);

/* --- a sample --- */

enum class_kernel {
	KERNEL_NO,      /* the thread was in user space */
	KERNEL_CALL,    /* in a system call */
	KERNEL_FAULT,   /* in the kernel, but not at a `syscall` instruction: a page fault, an interrupt */
	KERNEL_NUMBERED, /* KERNEL_NUMBERED + n: in system call n */
};

/* One frame of the innermost run. The strings are those of the function's row, and live as long as the tables. */
struct class_frame {
	struct trait trait;
	const char *name, *module;
};

struct class_input {
	const struct class_frame *frames; /* innermost first, up to the first Python one */
	uint32_t n;
	enum import_phase import;         /* of the innermost frame */
	uint32_t kernel;                  /* enum class_kernel */
};

struct class_result {
	enum class_kind kind;
	const char *name; /* detail of the class: callee, compiler, system call or import phase; "" */
};

/* The class of one sample, by the precedence of docs/classes.md. Always sets *ret. O(n) in the frames of the
 * innermost run. */
void class__of(const struct class_input *in, struct class_result *ret);
