/* SPDX-License-Identifier: MIT */
/* The generated tables of CPython's layouts (py_tables.c). Internal to this
 * folder: use py_layout.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cprofd/pylayout.h"

/* One layout. Its offsets are its column in py_offsets. */
struct py_table {
	uint32_t first, last; /* PY_VERSION_HEX of the oldest and the newest version served */
	uint32_t debug_size;  /* sizeof(_Py_DebugOffsets), 0 before 3.13 */
	uint8_t frames, lasti, lines, flags; /* of struct py_layout */
};

#define PY_TABLES_MAX 16

/* A member of struct py_layout, and a number of it by layout: its value, -1 where that is PY_ABSENT; or its position in
 * _Py_DebugOffsets, where a u64 is, in bytes from the start; 0: it is not there. */
struct py_member {
	uint16_t at;   /* bytes from the start of struct py_layout */
	uint8_t width; /* 1, 2 or 4 */
	int16_t numbers[PY_TABLES_MAX];
};

/* For the tables. */
#define ROW(member, ...) {offsetof(struct py_layout, member), sizeof(((struct py_layout *)0)->member), {__VA_ARGS__}}

extern const struct py_table py_tables[];
extern const struct py_member py_offsets[], py_debug_offsets[];
extern const size_t py_tables_n, py_offsets_n, py_debug_offsets_n;

/* `version` is 0 in it: the caller knows the target's. */
void py_table__layout(const struct py_table *table, struct py_layout *ret);
