/* SPDX-License-Identifier: MIT */
/* The search for a module's callables, in steps; each file of this folder has one. Private to this folder.
 *   members.c     functions in tables: methods, slots of types
 *   collector.c   the garbage collector
 *   candidates.c  the call machinery; which names end in a jump to which function
 *   switchers.c   functions that take or release the GIL
 *   instances.c   functions that each object has a pointer to (vectorcall)
 *   bodies.c      unnamed functions to which named ones jump
 *   dispatchers.c functions that jump to what they were given
 * callables.c runs them in this order and makes the rows before the last two.
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
/* dispatchers.c: adds rows. */
int search__dispatchers(struct search *search, const struct code_frames *frames);

/* --- jumps.c --- */
/* Where a function of a module leads: the functions to which its code jumps or calls. Private to this folder.
 * Example: of math_sin(), which ends with a jump to math_1(): {math_1}. */
#define JUMPS_FROM 64u
#define JUMPS_DEEP 3u /* jumps in a row that are followed */

/* The functions that the one at `at` jumps to the begin of (`calls`: or calls), in the first 4 KB of it; how many.
 * Bytes are tried as instructions wherever they could be one: a false one meets the begin of a function by chance
 * only. */
uint32_t jumps__from(const struct data *data, const struct code_frames *frames, uint64_t at, bool calls,
		     uint64_t ret[JUMPS_FROM]);

/* --- slots.c --- */
/* The slots of a type: where its functions are, and their Python names. Example: the function at offset 0 of the
 * PyNumberMethods table is "__add__". Private to this folder. Sources: CPython Include/cpython/object.h
 * (PyTypeObject and the tables it points to; these parts are the same in 3.8 to 3.15), Include/typeslots.h (numbers
 * that never change: a part of the stable ABI). */
/* Offsets in PyTypeObject, of builds with a GIL; a free-threaded one's are 16 more. */
#define TYPE_NAME 24u
#define TYPE_BASICSIZE 32u
#define TYPE_ITEMSIZE 40u
#define TYPE_VECTORCALL_OFFSET 56u
#define TYPE_NEW 312u
#define TYPE_NUMBER 96u
#define TYPE_SEQUENCE 104u
#define TYPE_MAPPING 112u
#define TYPE_FLAGS 168u
#define TYPE_HAS_VECTORCALL 0x800u /* Py_TPFLAGS_HAVE_VECTORCALL */
#define TYPE_METHODS 232u

#define SLOT_METHODS 64u /* Py_tp_methods */
#define SLOT_NEW 65u     /* Py_tp_new */
#define SLOT_MEMBERS 72u /* Py_tp_members */
#define MEMBER_BYTES 40u /* PyMemberDef: name, int type, offset, int flags, doc */
#define MEMBERS_MAX 64u
#define SLOT_LAST 100u   /* bound for a valid number: the last one is 81 in 3.13, and the list grows */

/* The table that a slot is in. */
enum slot_table { SLOT_TYPE, SLOT_NUMBER, SLOT_SEQUENCE, SLOT_MAPPING };

struct slot {
	uint8_t number;     /* number in Include/typeslots.h; 0: it has none */
	uint8_t table;      /* enum slot_table */
	uint16_t offset;    /* in that table */
	const char *name;   /* "__add__"; "": the type itself is called; NULL: it ends an object, and is called by nobody */
};

extern const struct slot slots_of_types[];
extern const uint32_t n_slots_of_types;
