/* SPDX-License-Identifier: MIT */
/* The times of a row lie behind each other, one per column. "Once per stack" needs no set: each row stores the stamp
 * of the stack that it was last counted for. */
#include "aggregate/rows.h"

#include "base/stamps.h"

int rows__row(struct rows *rows, const void *key, size_t len, uint32_t *ret)
{
	int err = intern__id(&rows->keys, key, len, ret);

	/* New rows begin at zero; for a known row nothing is done. */
	err = err ?: buf__lengthen(&rows->times, (size_t)rows->keys.n * rows->columns * sizeof(struct row_times));
	return err ?: buf__lengthen(&rows->stamps, rows->keys.n * sizeof(uint32_t));
}

const void *rows__key(const struct rows *rows, uint32_t row)
{
	size_t len;

	return intern__key(&rows->keys, row, &len);
}

struct row_times *rows__times(const struct rows *rows, uint32_t row, uint32_t column)
{
	return &ITEM(rows->times, struct row_times, (size_t)row * rows->columns + column);
}

void rows__stack(struct rows *rows)
{
	stamps__next(&rows->stamps, &rows->stamp);
}

bool rows__first(struct rows *rows, uint32_t row)
{
	uint32_t *stamp = &ITEM(rows->stamps, uint32_t, row);
	const bool first = *stamp != rows->stamp;

	*stamp = rows->stamp;
	return first;
}

bool rows__inclusive(struct rows *rows, uint32_t row, uint32_t column, const struct times *times)
{
	if (!rows__first(rows, row))
		return false;
	times__add(&rows__times(rows, row, column)->inclusive, times);
	return true;
}

void rows__exclusive(struct rows *rows, uint32_t row, uint32_t column, const struct times *times)
{
	times__add(&rows__times(rows, row, column)->exclusive, times);
}

uint32_t *rows__of_frame(struct rows *rows, uint32_t frame)
{
	return buf__at(&rows->of_frame, sizeof(uint32_t), frame);
}

void rows__clear_frames(struct rows *rows)
{
	buf__clear(&rows->of_frame);
}

void rows__free(struct rows *rows)
{
	intern__free(&rows->keys);
	buf__free(&rows->times);
	buf__free(&rows->stamps);
	buf__free(&rows->of_frame);
}
