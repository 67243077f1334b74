/* SPDX-License-Identifier: MIT */
/* Rows of a table and the time of each: the one place that says what "exclusive" and "inclusive" mean.
 *
 * Exclusive: time of stacks whose innermost frame (compile, phase ...) is the row's. Inclusive: time of all stacks that it is
 * in; a stack that it is in several times (recursion) counts once. For that each stack has a stamp, and each row that of
 * the stack that it was counted for last: rows__stack(), then rows__inclusive() for each frame.
 *
 * A row is a key: bytes that no other row has; their meaning is up to the table. Its times stand in columns: a report has one for each
 * recording, the live view one for each turn.
 *
 * Zero-initialised, with the number of columns, is empty. Rows keep the order of first sight. Threading: none. Errors: -ENOMEM. */
#ifndef CPROFD_AGGREGATE_ROWS_H
#define CPROFD_AGGREGATE_ROWS_H

#include <stdbool.h>

#include "aggregate/times.h"
#include "base/intern.h"

struct row_times {
	struct times exclusive, inclusive;
	uint64_t calls; /* of compiles, phases, passes: how many there were */
	uint64_t begun; /* ... when the first of them began, ns since the recording's start, + 1; 0: there was none */
};

struct rows {
	uint32_t columns;
	struct intern keys;
	struct buf times;    /* struct row_times [row * columns + column] */
	struct buf marks;    /* uint32_t by row: stamp of the stack it was counted for last; 0: none yet */
	struct buf of_frame; /* uint32_t by frame: row + 1; 0: not known yet */
	uint32_t stamp;
};

int rows__row(struct rows *rows, const void *key, size_t len, uint32_t *ret);
static inline uint32_t rows__n(const struct rows *rows)
{
	return rows->keys.n;
}
/* Valid until the next new row. */
const void *rows__key(const struct rows *rows, uint32_t row);
struct row_times *rows__times(const struct rows *rows, uint32_t row, uint32_t column);

/* A new stack: each row counts once for it. */
void rows__stack(struct rows *rows);
/* Has the row had no time of this stack yet? Not so the second time. */
bool rows__first(struct rows *rows, uint32_t row);
/* Inclusive time, unless the row has had it for this stack: false. */
bool rows__inclusive(struct rows *rows, uint32_t row, uint32_t column, const struct times *times);
void rows__exclusive(struct rows *rows, uint32_t row, uint32_t column, const struct times *times);

/* Which row a frame is in is found once: the memory of it, row + 1, 0 at first. NULL: out of memory. */
uint32_t *rows__of_frame(struct rows *rows, uint32_t frame);
/* Numbers of frames mean others from now on. */
void rows__forget_frames(struct rows *rows);
void rows__free(struct rows *rows);

#endif
