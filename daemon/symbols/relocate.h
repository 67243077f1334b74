/* SPDX-License-Identifier: MIT */
/* Relocations of debug information in a relocatable object that was placed: what a debugger does with the images
 * that a JIT compiler registers, whose sections have their final addresses, and whose DWARF is as the compiler
 * left it. x86-64 psABI 4.4.1. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RELOCATE_MAX (4u << 20) /* relocations of one image */

/* Applies them to the sections `.debug_*`. 0 (also where nothing is to do, or the object is no ET_REL), -EBADMSG:
 * no ELF file that fits together; what was changed until then stays. Hostile bytes. */
int elf_relocate_debug(uint8_t *image, size_t len);
