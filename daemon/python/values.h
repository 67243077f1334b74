/* SPDX-License-Identifier: MIT */
/* Values: what a variable of the target holds, read from its memory and turned into text.
 *
 *    source `self.func_id.func_qualname`, word 0x7f12... (the local `self`)   ->   "foo"
 *    source `args.*`, a tuple (int64, array(float64, 1d, C))                 ->   "int64, array(float64, 1d, C)"
 *
 * No code of the target is called: an attribute is what the instance's dict has, in each of CPython's layouts
 * (split, managed, inline values), or what its class and the bases have. The target runs meanwhile, so the bytes may
 * be torn or freed. Each object is checked before use: types by their flags, sizes bounded, at most VALUES_READS
 * reads for one value.
 *
 * Callers: units/read.c, for the values that name compiles and phases; serve/. Pure over a reader; one thread at a
 * time. */
#pragma once

#include "base/buf.h"
#include "cprofd/host.h"
#include "cprofd/pylayout.h"
#include "cprofd/record.h"
#include "rules/rules.h"

#define VALUES_READS 4000u
#define VALUES_TEXT_MAX 4096u /* bytes of one name or signature */
#define VALUES_ITEMS_MAX 256u /* of a container; "…" follows */

/* A cache of attributes found in classes. It is valid as long as the class has the same tp_version_tag: CPython changes
 * that number whenever the class or a base changes, and no two classes have the same (Objects/typeobject.c; its own
 * method cache relies on it). Zero-filled is empty. */
#define CLASS_MEMO_ROWS 64u
struct class_memo {
	struct class_memo_row {
		uint64_t process, type, at; /* at: address of the object, or offset in the instance */
		const char *name;           /* compared by pointer; it outlives the cache */
		uint32_t version;           /* 0: free */
		uint8_t kind;               /* object.c */
	} rows[CLASS_MEMO_ROWS];
};

/* One question's context. Set reads to 0 before each value: it counts up to VALUES_READS. */
struct values {
	struct host_reader *memory;
	const struct py_layout *layout;
	uint32_t reads;
	struct class_memo *classes; /* or NULL */
	/* How the next object was reached by attributes, for the tick (cprofd/py/path.h); NULL: nobody asks */
	struct py_path *path;
	/* part of the key of `classes`: differs for each process and each program that it executes */
	uint64_t process;
};

/* Follows steps[1..n) from the object at `address` and appends the result as text. -ENODATA: there is no such
 * attribute; -EFAULT: memory cannot be read; -E2BIG: too many reads; -ENOTSUP: objects of this CPython cannot be read.
 * */
int values__text(struct values *values, uint64_t address, const struct source *source, struct buf *ret);
/* The same; `ret_path`, but for its key: how the tick gets there. n 0: it cannot, as with `.*`, or what a class has. */
int values__text_and_path(struct values *values, uint64_t address, const struct source *source, struct buf *ret, struct py_path *ret_path);
/* The str at `address`, without a look at its type. */
int values__put_text(struct values *values, uint64_t address, struct buf *ret);
/* values__modules(): sys.modules of the first interpreter of _PyRuntime. values__ufunc(): the name of the ufunc that
 * `owner.attribute` is, if the global `owner` is NumPy; owner NULL: that the global `attribute` is.
 * -ENODATA: it is none, or not always the same. */
int values__modules(struct values *values, uint64_t runtime, uint64_t *ret);
int values__ufunc(struct values *values, uint64_t modules, const char *owner, const char *attribute, char *ret, size_t size);
/* File and line at which the code object that the steps lead to is defined. */
int values__defined(struct values *values, uint64_t address, const struct source *source, struct buf *ret_file,
		    uint32_t *ret_line);
