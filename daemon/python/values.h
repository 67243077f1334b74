/* SPDX-License-Identifier: MIT */
/* Values: what a variable of the target holds, read from its memory.
 *
 * Everything is looked at as it lies there, nothing is called: an attribute is what the instance's dictionary has, in each
 * of CPython's layouts (split, values beside or inside of the object, managed), or its class's and those above it.
 * The target runs on: what is read may be torn or freed. Each address is only read, never believed: types by their
 * flags, sizes bounded; all reads of one value VALUES_READS at most. Pure over a reader; one thread at a time.
 */
#ifndef CPROFD_PYTHON_VALUES_H
#define CPROFD_PYTHON_VALUES_H

#include "base/buf.h"
#include "cprofd/host.h"
#include "cprofd/pylayout.h"
#include "rules/rules.h"

#define VALUES_READS 4000u
#define VALUES_TEXT_MAX 4096u /* bytes of one name or signature */
#define VALUES_ITEMS_MAX 256u /* of a tuple */

/* What classes have, as it was found last. A class that still has the same version still has it: CPython's own cache of methods
 * rests on that (tp_version_tag, Objects/typeobject.c: another number whenever the class, or one above it, changes; no two
 * classes have the same). Zero-filled is empty. */
#define CLASS_MEMO_ROWS 64u
struct class_memo {
	struct class_memo_row {
		uint64_t process, type, at; /* at: of the object, or in the instance */
		const char *name;           /* by its place, which lives as long as this */
		uint32_t version;           /* 0: free */
		uint8_t kind;               /* object.c */
	} rows[CLASS_MEMO_ROWS];
};

struct values {
	struct host_reader *memory;
	const struct py_layout *layout;
	uint32_t reads;
	struct class_memo *classes; /* or NULL */
	uint64_t process;           /* of `classes`: no two processes have the same, nor two programs of one */
};

/* What follows steps[1..n) from the object at `address`, as text, appended. 0; -ENODATA: there is no such thing;
 * -EFAULT: memory that cannot be read; -E2BIG: too many reads; -ENOTSUP: of this CPython nothing is known. */
int values__text(struct values *values, uint64_t address, const struct source *source, struct buf *ret);
/* The dictionary of all modules, of the first interpreter of _PyRuntime. And the name of the ufunc that
 * a global `owner`, if that is NumPy, has by this attribute's name; owner NULL: that is called by the name of this global.
 * -ENODATA: there is none, or it may be another at times. */
int values__modules(struct values *values, uint64_t runtime, uint64_t *ret);
int values__ufunc(struct values *values, uint64_t modules, const char *owner, const char *attribute, char *ret, size_t size);
/* Where the code object that they lead to is defined. */
int values__defined(struct values *values, uint64_t address, const struct source *source, struct buf *ret_file,
		    uint32_t *ret_line);

#endif
