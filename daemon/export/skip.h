/* SPDX-License-Identifier: MIT */
/* Which compiles are among the first N of their unit (--skip-first): known when all of a recording is read, so that it is
 * read once more before it is read. Private to this folder.
 *
 * A unit is what `report --by=repeat` takes for the same one: compiler, function, place of its definition and signature, in
 * one process. Its compiles are counted in the order in which they began. One whose name is not known is the first of its
 * own. What is in a compile that is skipped is skipped with it, whatever it is, and counted as any other.
 * Zero-initialised is empty. Errors: -errno; -ESPIPE: it cannot be read twice. */
#ifndef CPROFD_EXPORT_SKIP_H
#define CPROFD_EXPORT_SKIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct skip {
	struct buf rows;   /* bool: this one is skipped; by its number among all rows of `units` of the recording */
	uint32_t compiles; /* that the recording has */
};

/* Reads on from where the fd is, and leaves it there. */
int skip__find(struct skip *skip, int recording_fd, uint32_t first);
void skip__free(struct skip *skip);

#endif
