/* SPDX-License-Identifier: MIT */
/* Rows of a table and their times: the one file that defines "exclusive" and "inclusive".
 *
 * Exclusive: time of stacks whose innermost frame (compile, phase ...) is the row's. Inclusive: time of all stacks
 * that contain the row; a stack that contains it several times (recursion) counts once. So for each stack call
 * rows__stack(), then rows__inclusive() for each frame:
 *
 *   main > fib > fib > fib, 5 ms: adds 5 ms to the inclusive time of main and fib, and to the exclusive time of fib
 *
 * A row is identified by a key, bytes whose meaning is up to the table. Its times have columns: a report has one per
 * recording, the live view one per turn.
 *
 * Zero-initialised, with the number of columns, is empty. Rows are in the order of appearance. Threading: none.
 * Errors: -ENOMEM. */
#pragma once

#include "aggregate/times.h"
#include "base/intern.h"

/* The times of one row in one column. */
struct row_times {
	struct times exclusive, inclusive;
	uint64_t calls; /* number of compiles, phases or passes */
	uint64_t begun; /* when the first of these began, ns since the recording's start + 1; 0: there was none */
};

struct rows {
	/* set by the owner before the first row, then constant */
	uint32_t columns;
	struct intern keys;
	struct buf times;    /* struct row_times [row * columns + column] */
	struct buf stamps;   /* uint32_t by row: stamp of the stack that it was last counted for; 0: none yet */
	struct buf of_frame; /* uint32_t by frame: row + 1; 0: not known yet */
	uint32_t stamp;
};

/* Finds or adds the row with this key, which is copied. The key needs its length, as it may contain NULs.
 * Expected O(len). */
int rows__row(struct rows *rows, const void *key, size_t len, uint32_t *ret);
static inline uint32_t rows__n(const struct rows *rows)
{
	return rows->keys.n;
}
/* Valid until a row is added. */
const void *rows__key(const struct rows *rows, uint32_t row);
struct row_times *rows__times(const struct rows *rows, uint32_t row, uint32_t column);

/* Starts a new stack: each row counts once for it. */
void rows__stack(struct rows *rows);
/* True at the first call for this row and stack, then false. */
bool rows__first(struct rows *rows, uint32_t row);
/* Adds inclusive time at the first call for this row and stack; else returns false. */
bool rows__inclusive(struct rows *rows, uint32_t row, uint32_t column, const struct times *times);
/* Call it once per stack: it does not test for recursion, as a stack has one leaf. */
void rows__exclusive(struct rows *rows, uint32_t row, uint32_t column, const struct times *times);

/* A cache for the row of each frame: row + 1, at first 0. NULL: out of memory. */
uint32_t *rows__of_frame(struct rows *rows, uint32_t frame);
/* Clears that cache, when ids of frames change. */
void rows__clear_frames(struct rows *rows);
void rows__free(struct rows *rows);
