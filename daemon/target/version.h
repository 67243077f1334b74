/* SPDX-License-Identifier: MIT */
/* The version of a Python older than 3.11, which has no symbol for it: the text that Py_GetVersion() made at start,
 * "3.8.18 (default, ...) \n[GCC 12.2.0]", in a static buffer. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds that text in `data`: *ret_hex as PY_VERSION_HEX (0x030812f0). false: not there. */
bool version__find(const char *data, size_t len, uint32_t *ret_hex);
/* "3.8.18", "3.15.0a2", "3.14.0t". */
void version__format(uint32_t hex, bool free_threaded, char ret[32]);
