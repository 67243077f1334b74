/* SPDX-License-Identifier: MIT */
/* Callables: the C functions of a module that Python code can call, and their Python names.
 *
 * An extension module, and the interpreter itself, registers its C functions with CPython by tables in its data:
 * methods (PyMethodDef), types (PyTypeObject, PyType_Spec with their slots), modules (PyModuleDef). The tables exist
 * whether or not the file has symbols, and hold the names that a user knows: "list.sort", "math.sin", "int.__add__".
 * They are recognised by their form: a word that points to a string, one that points to code, and so on.
 * docs/classes.md.
 *
 * Left out: functions that many types share (PyObject_GenericGetAttr), and slots that no expression names (dealloc,
 * traverse, getattro). These are helpers of the interpreter.
 *
 * Example: PyMethodDef {"append", list_append, METH_O, doc} in a table that PyTypeObject "list" points to
 *          -> row {start list_append, name "list.append", kind CALLABLE_METHOD}
 *
 * Used by codemap/find.c (which callable is at a pc) and profile/callee.c (which one the Python code called).
 *
 * All bytes are the target's. Errors: -errno; -ENOENT: the module does not use Python's C API. Threads: none kept.
 * Sources: CPython Include/methodobject.h, Include/cpython/object.h, Include/typeslots.h, Include/moduleobject.h.
 */
#pragma once

#include "base/arena.h"
#include "base/kept.h"
#include "base/range.h"
#include "unwind/unwind.h"

/* Names that are found in one file at most. An interpreter has up to 2,600. */
#define CALLABLES_MAX 65536u
/* Names of rows that no Python code calls. They are compared by kind; the names are shown in stacks ("(GC)") or not
 * at all. */
#define CALLABLE_COLLECTOR_NAME "(GC)"
#define CALLABLE_MACHINERY_NAME "(call)"
#define CALLABLE_ENTRY_NAME "(entry)"
#define CALLABLE_SWITCHER_NAME "(switch)"
#define CALLABLE_DEALLOC_NAME "(dealloc)"

enum callable_kind {
	CALLABLE_METHOD, /* of a PyMethodDef */
	CALLABLE_NEW,    /* tp_new, tp_init: the name is the type's */
	CALLABLE_SLOT,   /* "type.__op__" */
	CALLABLE_INSTANCE, /* "type.__call__": in no table; each object has a pointer to it (instances.c) */
	CALLABLE_MACHINERY, /* of the C API: calls the object that it is given (PyObject_Vectorcall) */
	CALLABLE_ENTRY,  /* of the C API: enters a Python function */
	/* of the interpreter: takes or releases the GIL, in a C function or between two instructions */
	CALLABLE_SWITCHER,
	/* of the interpreter: the garbage collector, which gc.collect() calls; no Python code calls it itself */
	CALLABLE_COLLECTOR,
	CALLABLE_DISPATCHER, /* of the interpreter or an extension, without a name: jumps to what it was given */
	CALLABLE_DEALLOC, /* of the interpreter: frees an object. No instruction called what runs below it */
	CALLABLE_KINDS
};

struct callables;
/* One function of the file, under its best name. A row for range__find(). */
struct callable {
	uint64_t start, end; /* vaddrs of its code; end: by its call frame information, or start + 1 */
	const struct callables *of;
	const char *name;    /* NULL: no table has it, but functions in `candidates` end with a jump to it */
	uint8_t kind;        /* enum callable_kind */
	uint8_t forwards;    /* enum class_forwards (classes.h) */
	bool exported;       /* only without a name: other files may call it */
	bool shared;         /* only without a name: code other than its candidates leads to it (bodies.c) */
	bool pointed;        /* the same, and a pointer does */
	bool dispatches;     /* jumps to what it was given (dispatchers.c) */
	bool dispatched;     /* a function that dispatches leads there by itself, too */
	uint32_t first, n;   /* its candidates: all its own names, and those of functions that jump to it */
};

#define CANDIDATE_CALLED 9u
/* One name that a row's frame could stand for; see candidates.c. Sorted by `start`: each row has a part of them. */
struct candidate {
	uint64_t start;
	const char *name;
	uint8_t kind;
	uint8_t deep;        /* number of jumps from the named function; CANDIDATE_CALLED: a slot calls it */
};

struct callables {
	struct callable *rows; /* sorted by address */
	uint32_t n, capacity;
	struct candidate *candidates;
	uint32_t n_candidates, candidates_capacity;
	bool builtins;         /* this file is the interpreter: it has the module `builtins` */
	struct arena names;
};

/* "union" of "set.union". */
static inline const char *callable__last_part(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

/* Searches the file. Takes some 40 ms for an interpreter, less for extensions. -ENOENT: the file does not use
 * Python's C API. On error *ret is empty. */
int callables__find(const struct elf_bytes *elf, struct callables *ret);
/* The callables of the file `fd`, from the cache in directory `folder` (< 0: no cache) if they were found before. Only
 * this process may write to that directory. *ret must not be moved: its rows point to it. */
int callables__open(int fd, int folder, struct callables *ret);
void callables__free(struct callables *callables);
/* The callable whose code contains vaddr, or NULL; *within as range__find(). */
static inline const struct callable *callables__at(const struct callables *callables, uint64_t vaddr, struct range *within)
{
	return range__find(callables->rows, callables->n, sizeof(*callables->rows), vaddr, within);
}

/* The name of a builtin function or type; NULL: there is none of this name. Takes 10 us. */
const char *callables__named(const struct callables *callables, const char *name);
/* The qualified name of the method `name` ("append" -> "list.append"); without the type if several types have one. */
const char *callables__method(const struct callables *callables, const char *name);
