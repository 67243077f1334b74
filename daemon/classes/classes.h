/* SPDX-License-Identifier: MIT */
/* Classes: in which class of time a sample is, by its innermost frames. Pure functions; docs/classes.md is the written form.
 *
 * The frames up to and with the innermost Python frame decide, and, of those further out, whether an import goes on. What
 * a frame is to this is said once for each function (its trait); a sample's class follows from the traits alone.
 *
 * Memory: none; strings in results are those that came in, or live for ever. Threads: any. Errors: none.
 */
#ifndef CPROFD_CLASSES_CLASSES_H
#define CPROFD_CLASSES_CLASSES_H

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
	X(WAITING, "waiting") /* in wall mode: on no CPU; never of a tick (wait/wait.h) */ \
	X(READY, "ready") \
	X(WITHOUT_GIL, "without the GIL") /* a tick of a thread without it, in sessions that ask for its holders alone */

#define CLASS_ENUM(id, name) CLASS_##id,
enum class_kind { CPROFD_CLASSES(CLASS_ENUM) CLASS_COUNT };
#undef CLASS_ENUM

const char *class__name(enum class_kind kind);

/* What made a function; as enum function_kind of events.h. */
enum class_origin {
	ORIGIN_PYTHON, ORIGIN_NATIVE, ORIGIN_KERNEL, ORIGIN_NOTE, ORIGIN_JIT, ORIGIN_INTERPRETER, ORIGIN_CALL,
};

enum trait_kind {
	TRAIT_NONE,        /* not asked for yet */
	TRAIT_PYTHON,
	TRAIT_IMPORT,      /* a Python function of importlib: `detail` is enum import_phase */
	TRAIT_NOTE,        /* something is missing here */
	TRAIT_NOWHERE,     /* native code of nobody knows whom */
	TRAIT_INTERPRETER, /* the interpreter's own */
	TRAIT_EVAL,        /* ... its eval loop */
	TRAIT_GC,          /* ... its collector */
	TRAIT_SYSTEM,      /* the C library: part of who calls it */
	TRAIT_BRIDGE,      /* ctypes, libffi: part of what they call */
	TRAIT_NATIVE,
	TRAIT_JIT,
	TRAIT_RULE,        /* `detail`: which rule */
	TRAIT_KERNEL,
	TRAIT_CALL,        /* what an instruction called, by its name */
	TRAIT_FORWARDS,    /* ... and that called what it was given */
};

struct trait {
	uint8_t kind;      /* enum trait_kind */
	uint8_t detail;
};

/* `name`, `module`, `file`: "" where there is none. */
struct trait class__trait(enum class_origin origin, const char *name, const char *module, const char *file);

/* Does what has this name call what it was given? Some are of interest (partial, map), others but the way to call
 * (a bound method). */
enum class_forwards { FORWARDS_NOT, FORWARDS_SHOWN, FORWARDS_SILENTLY };
enum class_forwards class__forwards(const char *callee);

/* --- imports: a context of all frames further in --- */

#define IMPORT_PHASES(X) \
	X(NO, "") X(FIND, "find") X(READ, "read") X(UNMARSHAL, "unmarshal") X(COMPILE, "compile") \
	X(LOAD, "load") X(EXECUTE, "execute")
#define IMPORT_ENUM(id, name) IMPORT_##id,
enum import_phase { IMPORT_PHASES(IMPORT_ENUM) };
#undef IMPORT_ENUM

/* Of a frame whose caller's phase is `outer`. */
enum import_phase class__import(enum import_phase outer, struct trait frame);

/* --- a sample --- */

enum class_kernel {
	KERNEL_NO,      /* the tick met the thread in user space */
	KERNEL_CALL,    /* in a system call */
	KERNEL_FAULT,   /* at an instruction that is none: a page fault, an interrupt */
	KERNEL_NUMBERED, /* + n: in system call n */
};

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
	const char *name; /* what of the class: the callee, the compiler, the system call, the phase; "" */
};

void class__of(const struct class_input *in, struct class_result *ret);

#endif
