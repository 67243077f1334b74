/* file:line from DWARF: which unit has an address, which of its functions, and what its line table says. Of a file
 * is held where the code of its units lies (16 bytes a piece); of the unit that was asked last, more (dwarf.h). */
#ifndef CPROFD_SYMBOLS_LINES_H
#define CPROFD_SYMBOLS_LINES_H

#include "symbols/image.h"

#define LINES_RANGES_MAX (1u << 18) /* pieces of code of units: files that have more are refused */

struct lines;
struct line_spans;
/* `image` is borrowed. `known` (or NULL): what was kept of an earlier session, taken if this returns 0; then no unit is read
 * before an address is asked that it does not know. -ENOENT: no lines in it; -EFBIG, -EBADMSG. */
int lines__open(const struct elf_image *image, struct line_spans *known, struct lines **ret);
/* What is known by now; NULL: nothing. Borrowed, until the next lines__find(). */
struct line_spans *lines__known(const struct lines *lines);
struct lines *lines__free(struct lines *lines); /* NULL */
/* Gives back what can be had again. */
void lines__rest(struct lines *lines);
/* As symbol_file__line(). */
int lines__find(struct lines *lines, uint64_t vaddr, struct source_line *ret);

#endif
