/* file:line from DWARF, by libdw: the one place where it is seen in this stage.
 *
 * libdw keeps what it decoded, some five times a unit's size; so after units of
 * LINES_KB_MAX it is begun anew (who has many addresses asks in their order). It opens other files (dwz's, split DWARF) by itself when asked for what is
 * in them: the first is given to it through the opener, what would lead to the
 * second is not asked. */
#ifndef CPROFD_SYMBOLS_LINES_H
#define CPROFD_SYMBOLS_LINES_H

#include "symbols/image.h"

#define LINES_KB_MAX 2048u

struct lines;
/* `image` is borrowed. -ENOENT: no .debug_line in it; -EFBIG, -EBADMSG. */
int lines__open(const struct elf_image *image, const char *path,
		const struct symbol_opener *opener, struct lines **ret);
struct lines *lines__free(struct lines *lines); /* NULL */
/* As symbol_file__lines(). */
int lines__find(struct lines *lines, uint64_t vaddr, const struct source_line **ret_lines,
		size_t *ret_n);

#endif
