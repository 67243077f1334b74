/* SPDX-License-Identifier: MIT */
/* Which compiles are among the first N of their unit (--skip-first). That is known only at the end of a recording,
 * so it is read twice. Private to this directory.
 *
 * As in `report --by=repeat`, a unit is identified by compiler, function, definition line and signature, in one
 * process. Its compiles are counted in the order of their begin. A compile whose name is unknown counts as a unit of
 * its own. Everything inside a skipped compile is skipped with it, but counts like any other compile.
 * Zero-initialised is empty. Errors: -errno; -ESPIPE: the fd cannot be read twice. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct skip {
	struct buf rows;   /* bool by index among all rows of `units` in the recording: skipped */
	uint32_t compiles; /* in the recording */
};

/* Reads from the fd's position, and restores it. */
int skip__find(struct skip *skip, int recording_fd, uint32_t first);
void skip__free(struct skip *skip);
