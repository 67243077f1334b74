/* SPDX-License-Identifier: MIT */
/* The slots of a type: where its functions are, and their Python names. Example: the function at offset 0 of the
 * PyNumberMethods table is "__add__". Private to this folder. Sources: CPython Include/cpython/object.h
 * (PyTypeObject and the tables it points to; these parts are the same in 3.8 to 3.15), Include/typeslots.h (numbers
 * that never change: a part of the stable ABI). */
#pragma once

#include <stdint.h>

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
