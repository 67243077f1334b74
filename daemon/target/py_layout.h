/* SPDX-License-Identifier: MIT */
/* Which struct py_layout fits a CPython?
 *
 * An unknown version is refused, never guessed. The tables have final releases only: one row for each minor version,
 * with and without the GIL, generated from CPython's own headers (tools/offsets). 3.13 and later also publish offsets
 * in _Py_DebugOffsets; these take precedence, and the table supplies the rest.
 *
 * Pure functions of their arguments; nothing is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/pylayout.h"

/* Bytes that py_layout__from_debug_offsets needs at most, of any version. */
#define PY_DEBUG_OFFSETS_MAX 1024u

/* The layout of a release, from the tables.
 * version_hex: PY_VERSION_HEX, 0x030b07f0 for 3.11.7 final.
 * 0, or -ENOENT: no table serves that version (a pre-release, a newer minor);
 * *ret is untouched then. */
int py_layout__from_table(uint32_t version_hex, bool free_threaded, struct py_layout *ret);

/* The layout that a target of 3.13+ publishes.
 * buf: what the target has at the address of _PyRuntime, which begins with its
 *   _Py_DebugOffsets (Include/internal/pycore_debug_offsets.h; in 3.13
 *   pycore_runtime.h). The bytes are the target's and may be anything.
 * 0; -ENOEXEC: these are no debug offsets, or fewer than the version has;
 * -ENOTSUP: of a version that no table serves; -ERANGE: an offset that cannot
 * be true. *ret is untouched unless 0. */
int py_layout__from_debug_offsets(const void *buf, size_t len, struct py_layout *ret);
