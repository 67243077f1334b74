/* SPDX-License-Identifier: MIT */
/* What a symbol_file holds: one ELF file with up to two helpers, each a symbol_file that has one table only.
 *
 *    libfoo.so   tables[SYMTAB, DYNSYM, PLT, VTABLE, FRAMES]
 *      debug        tables[DEBUG_FILE]   /usr/lib/debug/.build-id/ab/cdef.debug, if .symtab is missing
 *      debugdata    tables[DEBUGDATA]    unpacked .gnu_debugdata, if the debug file is missing, too
 *
 * Lines are separate from symbols: a file with its own .symtab may have its lines in a debug file (line_source).
 * Inside daemon/symbols/ only. */
#pragma once

#include "symbols/lines.h"
#include "symbols/table.h"

/* Another file that has the lines, when this one has symbols of its own but no debug information. */
struct line_source {
	struct elf_bytes bytes;
	struct elf_image image;
};
void line_source__free(struct line_source *source); /* or NULL */

struct symbol_file {
	struct elf_bytes bytes;   /* of the file; of the kernel: its names */
	struct elf_image image;
	struct code_ranges ranges;
	/* Its own, by source; those without rows are not there. */
	struct symbol_table tables[SYMBOL_SOURCE_COUNT];
	struct symbol_file *debug, *debugdata; /* owned */
	bool debug_sought;        /* the search was done, with or without success */
	const struct symbol_opener *opener; /* borrowed; or NULL */
	char *path;               /* or NULL */
	struct lines *lines;      /* NULL: not opened yet */
	/* Set by the first open_lines() and kept: a module without lines is not tried again. */
	int lines_error;          /* why not */
	struct line_source *line_source; /* owned; or NULL */
	bool line_source_sought;
	const struct elf_bytes *lines_bytes; /* of the file that has the lines; NULL: not opened */
	uint64_t store_due;       /* CLOCK_MONOTONIC ns: from then on lines are stored when they are closed; 0: not known yet */
	int folder;               /* the opener's; 0: nothing is kept */
	bool kernel;
};

/* What of the lines earlier sessions did not store. Failures are silent: the next session reads debug information again. */
void symbol_file__store_lines(const struct symbol_file *file);

/* Looks for the separate debug file, once. 0, or why there is none. */
int symbol_file__seek_debug(struct symbol_file *file);
