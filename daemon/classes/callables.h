/* SPDX-License-Identifier: MIT */
/* Callables: which functions of a module Python code can call, and what it calls them.
 *
 * An extension module, and the interpreter itself, tells CPython of its C functions by tables in its data:
 * methods (PyMethodDef), types (PyTypeObject, PyType_Spec with their slots), modules (PyModuleDef). They are there whether
 * or not the file has symbols, and hold the names that a user knows: "list.sort", "math.sin", "int.__add__". They are found
 * by their form. docs/classes.md.
 *
 * Not told: what a type shares with many others (PyObject_GenericGetAttr), and slots that no expression names (dealloc,
 * traverse, getattro): these are the interpreter's helpers.
 *
 * All bytes are the target's. Errors: -errno; -ENOENT: the module does not use Python's C interface. Threads: none kept.
 * Sources: CPython Include/methodobject.h, Include/cpython/object.h, Include/typeslots.h, Include/moduleobject.h.
 */
#ifndef CPROFD_CLASSES_CALLABLES_H
#define CPROFD_CLASSES_CALLABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/kept.h"
#include "unwind/unwind.h"

#define CALLABLES_MAX 65536u
#define CALLABLE_COLLECTOR_NAME "(GC)"
#define CALLABLE_MACHINERY_NAME "(call)"
#define CALLABLE_ENTRY_NAME "(entry)"
#define CALLABLE_SWITCHER_NAME "(switch)"
#define CALLABLE_DEALLOC_NAME "(dealloc)"

enum callable_kind {
	CALLABLE_METHOD, /* of a PyMethodDef */
	CALLABLE_NEW,    /* makes or fills an object: the name is the type's */
	CALLABLE_SLOT,   /* "type.__op__" */
	CALLABLE_INSTANCE, /* "type.__call__": of no table; objects of the type have it (instances.c) */
	CALLABLE_MACHINERY, /* of the C interface: calls whatever it is given (PyObject_Vectorcall) */
	CALLABLE_ENTRY,  /* ... enters a Python function */
	CALLABLE_SWITCHER, /* of the interpreter: takes the GIL or gives it away, in a C function or between two instructions */
	CALLABLE_COLLECTOR, /* of the interpreter: what gc.collect() calls. No Python code calls it */
	CALLABLE_DEALLOC, /* of the interpreter: an object ends. What runs below it, no instruction called */
	CALLABLE_KINDS
};

struct callables;
struct callable {
	const struct callables *of;
	uint64_t start, end; /* vaddr of its code; end: where its call frame information ends, or start + 1 */
	const char *name;    /* NULL: no table has it, but those of `candidates` end with a jump to it */
	uint8_t kind;        /* enum callable_kind */
	uint8_t forwards;    /* enum class_forwards (classes.h) */
	bool exported;       /* of no name: others may call it as well */
	bool shared;         /* of no name: code that is of none of its candidates leads to it */
	bool pointed;        /* ... by a pointer */
	uint32_t first, n;   /* candidates: all names that it has, or that jump to it */
};

#define CANDIDATE_CALLED 9u
struct candidate {
	uint64_t start;
	const char *name;
	uint8_t kind;
	uint8_t deep;        /* by how many jumps; CANDIDATE_CALLED: a slot calls it */
};

struct callables {
	struct callable *rows; /* by address */
	uint32_t n, capacity;
	struct candidate *candidates;
	uint32_t n_candidates, candidates_capacity;
	bool builtins;         /* those of the module `builtins` are among them */
	struct arena names;
};

/* Takes 2 to 10 ms for an interpreter. */
int callables__find(const struct elf_bytes *elf, struct callables *ret);
/* Of the file `fd`, from `folder` (< 0: nowhere) if they were found before: a folder that this process alone may write to. *ret
 * stays where it is. */
int callables__open(int fd, int folder, struct callables *ret);
void callables__free(struct callables *callables);
/* Whose code is at vaddr; NULL: of none. */
const struct callable *callables__at(const struct callables *callables, uint64_t vaddr);
/* Narrows [*from, *to), vaddr in it, to where that is the same. */
void callables__range(const struct callables *callables, uint64_t vaddr, uint64_t *from, uint64_t *to);

/* What Python calls the function of `builtins`, or the type, of this name; or the method, without its type if several have
 * one of that name. NULL: none. Takes 10 us. */
const char *callables__named(const struct callables *callables, const char *name);
const char *callables__method(const struct callables *callables, const char *name);

#endif
