/* SPDX-License-Identifier: MIT */
/* Numba's mangling (numba/core/itanium_mangler.py, 0.56 to 0.68): C++'s, with
 * Python's names as namespaces, Numba's types as template names, and "_xx" for
 * characters that have no place in a symbol.
 *
 * It loses information: see docs/symbols.md. What was lost is not invented; the
 * text is Numba's own spelling otherwise: "__main__.foo(array(float64, 1d, C))".
 *
 * Pure functions without state: any thread may call them. tests/live/numba_names.sh compares with Numba's own text. */
#pragma once

#include "base/buf.h"

/* X(id, words): what Numba makes of a function beside the function. */
#define NUMBA_KINDS(X) \
	X(FUNCTION, "") \
	X(CPYTHON, "cpython wrapper") \
	X(CFUNC, "cfunc wrapper") \
	X(UFUNC, "ufunc loop") \
	X(GUFUNC, "gufunc loop") \
	X(KERNEL, "parallel kernel") \
	X(FINALIZER, "generator finalizer")
#define NUMBA_KIND_ENUM(id, words) NUMBA_##id,
enum numba_kind { NUMBA_KINDS(NUMBA_KIND_ENUM) NUMBA_KIND_COUNT };
#undef NUMBA_KIND_ENUM
const char *numba_kind__words(enum numba_kind kind);

struct numba_name {
	struct buf function;  /* "module.qualname"; not terminated */
	struct buf signature; /* "int64, array(float64, 2d, C)"; not terminated */
	uint32_t version;     /* which compile of the function, from 1; 0: unknown */
	enum numba_kind kind;
	bool lossy;           /* the signature is not how Numba would print it */
};
void numba_name__free(struct numba_name *name);

/* -ENOENT: no name of Numba's. `jit`: the symbol is of a JIT's object; elsewhere a name
 * must carry Numba's version and flags tags, or it may be C++'s. Not terminated
 * input. -ENOMEM. */
int numba__decode(const char *name, size_t len, bool jit, struct numba_name *ret);
