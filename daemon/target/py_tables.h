/* SPDX-License-Identifier: MIT */
/* The generated tables of CPython's layouts (py_tables.c). Internal to this
 * folder: use py_layout.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cprofd/pylayout.h"

/* One number in the target's _Py_DebugOffsets, and the member of struct
 * py_layout that it is a value for. */
struct py_debug_offset {
	uint16_t position; /* bytes from the start of _Py_DebugOffsets; a u64 is there */
	uint16_t member;   /* bytes from the start of struct py_layout */
	uint8_t width;     /* of the member: 2 or 4 */
};

/* For the tables: the offset at `position` is that of a member of 16, or 32, bits. */
#define READ16(position, member) {position, offsetof(struct py_layout, member), 2}
#define READ32(position, member) {position, offsetof(struct py_layout, member), 4}

/* One layout. `layout.version` is 0 here: the copy gets the target's. */
struct py_table {
	uint32_t first, last; /* PY_VERSION_HEX of the oldest and the newest version served */
	uint32_t debug_size;  /* sizeof(_Py_DebugOffsets), 0 before 3.13 */
	uint32_t n_debug_offsets;
	const struct py_debug_offset *debug_offsets;
	struct py_layout layout;
};

extern const struct py_table py_tables[];
extern const size_t py_tables_n;
