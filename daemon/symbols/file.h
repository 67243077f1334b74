/* What a symbol_file holds. */
#ifndef CPROFD_SYMBOLS_FILE_H
#define CPROFD_SYMBOLS_FILE_H

#include "symbols/image.h"
#include "symbols/lines.h"
#include "symbols/table.h"

struct symbol_file {
	struct elf_bytes bytes;   /* of the file; of the kernel: its names */
	struct elf_image image;
	struct code_ranges ranges;
	/* Its own, by source; those without rows are not there. */
	struct symbol_table tables[SYMBOL_SOURCE_COUNT];
	struct symbol_file *debug, *debugdata; /* owned */
	bool debug_sought;        /* it was looked for, found or not */
	const struct symbol_opener *opener; /* borrowed; or NULL */
	char *path;               /* or NULL */
	struct lines *lines;      /* NULL: not opened yet */
	int lines_error;          /* why not */
	bool kernel;
};

/* Looks for the separate debug file, once. 0, or why there is none. */
int symbol_file__seek_debug(struct symbol_file *file);

#endif
