/* SPDX-License-Identifier: MIT */
/* .gnu_debugdata: a small ELF file with the symbols that strip took, compressed
 * with xz (Fedora's "MiniDebugInfo"). */
#pragma once

#include "elf/elf.h"

#define DEBUGDATA_PACKED_MAX (16u << 20)
#define DEBUGDATA_MAX (32u << 20)

/* The file, as malloc'd memory. -ENOENT: the image has none; -EBADMSG, -EFBIG. */
int debugdata__read(const struct elf_image *image, uint8_t **ret, size_t *ret_len);
int debugdata__unpack(const uint8_t *data, size_t len, uint8_t **ret, size_t *ret_len);
