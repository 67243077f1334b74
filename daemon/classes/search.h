/* SPDX-License-Identifier: MIT */
/* The search for a module's callables, in steps; each file of this folder has one. Private to this folder.
 *   members.c     functions in tables: methods, slots of types
 *   collector.c   the garbage collector
 *   candidates.c  the call machinery; which names end in a jump to which function
 *   switchers.c   functions that take or release the GIL
 *   instances.c   functions that each object has a pointer to (vectorcall)
 *   bodies.c      unnamed functions to which named ones jump
 * callables.c runs them in this order and makes the rows before the last one.
 *
 * Each step adds to search->found. Only exported functions of the C API are found by symbols, since most
 * interpreters and extensions are stripped. A search runs once for each file (callables_kept.c), on the thread that
 * opens the module's symbols. */
#pragma once

#include "classes/callables.h"
#include "classes/data.h"
#include "weave/frames.h"

/* A function that was found, under one name. Names are in out->names; `order`: the number of its discovery, which
 * decides between names that are equally good. */
struct found {
	uint64_t address;
	const char *name;
	uint32_t order;
	uint8_t kind;
};

/* A type whose objects each hold the function that a call of the object runs (tp_vectorcall_offset). */
#define SEARCH_INSTANCES 32u
struct search_instance {
	uint64_t offset; /* of the function pointer in an object */
	uint64_t at;    /* vaddr of the type; 0: it is made at run time, from a PyType_Spec */
	uint64_t maker; /* the type's tp_new; 0: it has none */
	char type[128];
};

/* One search over one file. All arrays are owned by callables__find(). tables[i] and owned[i] belong together. */
struct search {
	const struct data *data;
	struct callables *out;
	struct found *found;
	uint32_t n, capacity;
	uint64_t *tables; /* vaddrs of method tables, sorted */
	uint32_t n_tables, tables_capacity;
	uint8_t *owned;   /* for each table: its type or module is known */
	struct search_instance instances[SEARCH_INSTANCES];
	uint32_t n_instances;
};

/* Adds "owner.name"; the owner `builtins` is left out. */
int search__add(struct search *search, uint64_t address, const char *owner, const char *name, enum callable_kind kind);
/* members.c: all functions in tables. -E2BIG: more than CALLABLES_MAX, the first of which were added. */
int search__members(struct search *search);
/* instances.c: remembers such a type; then finds the functions of all that were remembered. */
void search__instance(struct search *search, uint64_t offset, uint64_t at, uint64_t maker, const char *type);
int search__instances(struct search *search, const struct code_frames *frames);
/* collector.c */
int search__collector(struct search *search, const struct code_frames *frames);
/* candidates.c */
int search__machinery(struct search *search, const struct code_frames *frames);
/* switchers.c */
int search__switchers(struct search *search, const struct code_frames *frames);
/* candidates.c: after search->found was sorted by address. */
int search__candidates(struct search *search, const struct code_frames *frames);
/* bodies.c: which code jumps to, calls or points to rows without a name. */
int search__bodies(struct search *search, const struct code_frames *frames);
