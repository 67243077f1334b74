/* SPDX-License-Identifier: MIT */
/* Names of virtual functions that no symbol table has, from run-time type information and virtual tables (x86-64,
 * Itanium C++ ABI). All bytes are the target's: numbers are bounded, and what does not fit together names nothing. */
#pragma once

#include "symbols/function_frames.h"

/* `known`: the file's dynamic symbols; `frames`: where its functions end. The image stays the caller's, and is read
 * from when a name is asked for. -ENOENT: none; -ENOMEM. */
int symbol_table__load_virtuals(struct symbol_table *table, const struct elf_image *image, const struct code_ranges *ranges,
				const struct symbol_table *known, const struct function_frames *frames);
/* Appends "class::method(parameters)"; `row`: table_row.name of such a table. -ENOENT: it cannot be read or
 * demangled. */
int virtual_name__append(const struct symbol_table *table, uint32_t row, struct buf *ret);
