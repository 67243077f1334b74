/* SPDX-License-Identifier: MIT */
/* Finding a separate debug file, the way GDB does: by build-id below
 * /usr/lib/debug, then by .gnu_debuglink beside the file, in .debug/, and below
 * /usr/lib/debug (also of another root, whose name the path begins with). What is found must prove that it
 * belongs to the file. */
#pragma once

#include "elf/elf.h"
#include "symbols/symbols.h"

#define DEBUG_PATH_MAX 4096u
#define DEBUG_CRC_MAX (512ull << 20) /* bytes of a file whose CRC is taken */

/* Finds the debug file of `image`, whose own path is `path` (NULL: unknown, only the build-id is tried). Returns an
 * fd, which the caller owns; -ENOENT: none, or none that belongs. */
int debug_file__find(const struct elf_image *image, const char *path,
		     const struct symbol_opener *opener);
/* Does `debug` hold the debug information of `image`? By build-id; without one
 * the CRC of .gnu_debuglink must be right. 0, -EINVAL: no. */
int debug_file__belongs(const struct elf_image *image, const struct elf_bytes *debug);
/* The CRC-32 of .gnu_debuglink (the one of gzip) of the whole file. */
int debug_file__crc(const struct elf_bytes *bytes, uint32_t *ret);
/* "/usr/lib/debug/.build-id/ab/cdef.debug" */
void debug_file__build_id_path(const uint8_t *id, size_t len, char ret[DEBUG_PATH_MAX]);
