/* SPDX-License-Identifier: MIT */
/* The version of a Python older than 3.11, which has no symbol for it: the text that Py_GetVersion() made at start,
 * "3.8.18 (default, ...) \n[GCC 12.2.0]", in a static buffer. Pure. */
#pragma once

#include <stdbool.h>
#include "cprofd/host.h"

/* Finds that text in `data`: *ret_hex as PY_VERSION_HEX (0x030812f0). false: not there. */
bool version__find(const char *data, size_t len, uint32_t *ret_hex);
/* "3.8.18", "3.15.0a2", "3.14.0t". */
void version__format(uint32_t hex, bool free_threaded, char ret[32]);

/* --- data_scan.c --- */
/* Finds a Python without symbols by its data. A program that embeds Python as a static library exports none of its
 * names; but since 3.13 the runtime begins with a cookie for this very case, and type objects can be recognised by
 * their form.
 *
 * Pure over a copy of the module's writable memory, which may be forged. */
struct data_area {
	const char *bytes;     /* 8-byte aligned */
	size_t len;
	uint64_t address;      /* of bytes[0], a multiple of 8 */
};

/* The address of _PyRuntime, by the cookie of _Py_DebugOffsets followed by a possible version. 0: none. */
uint64_t data_scan__runtime(const struct data_area *area);

/* The address of a static type object: the ob_type of `type` points to itself, that of all other types points to
 * `type`, and tp_name follows the object's head.
 *  type_offset: of ob_type in PyObject (pylayout's object_type)
 *  name_offset: of tp_name in PyTypeObject, size of PyVarObject
 * 0: not found. Names are read through `reader`. */
uint64_t data_scan__type(const struct data_area *area, struct host_reader *reader,
			 uint32_t type_offset, uint32_t name_offset, const char *name);
