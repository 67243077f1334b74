/* SPDX-License-Identifier: MIT */
/* A row's time by cell. The number of cells is limited: if a recording is longer, pairs of neighbours are added up,
 * and cells are twice as long. */

#include "diff/internal.h"

int series__add(struct series *series, uint32_t cell, uint64_t ns)
{
	return series__add_samples(series, cell, ns, 1);
}

int series__add_samples(struct series *series, uint32_t cell, uint64_t ns, uint64_t samples)
{
	size_t n = series->points.len / sizeof(struct series_point);
	struct series_point *last =
		n ? (struct series_point *)series->points.data + n - 1 : NULL;
	const struct series_point next = {cell, (float)ns};

	series->total += ns;
	series->samples += samples;
	/* Samples of several threads may be slightly out of order: count this one in the last cell. Points
	 * stay sorted by cell. */
	if (last && last->cell >= cell) {
		last->ns += (float)ns;
		return 0;
	}
	return buf__append(&series->points, &next, sizeof(next));
}

void series__halve(struct series *series)
{
	struct series_point *points = (struct series_point *)series->points.data;
	size_t n = series->points.len / sizeof(*points), i, kept = 0;

	for (i = 0; i < n; i++) {
		uint32_t cell = points[i].cell / 2;

		/* In place: `kept` never overtakes i. */
		if (kept && points[kept - 1].cell == cell)
			points[kept - 1].ns += points[i].ns;
		else
			points[kept++] = (struct series_point){cell, points[i].ns};
	}
	series->points.len = kept * sizeof(*points);
}

void series__spread(const struct series *series, float *ret_cells)
{
	const struct series_point *points = (const struct series_point *)series->points.data;
	size_t n = series->points.len / sizeof(*points), i;

	for (i = 0; i < n; i++)
		ret_cells[points[i].cell] += points[i].ns;
}

/* Over an array of all cells: simple, and fast enough, as it happens once per node or branch. */
int series__join(struct series *to, const struct series *from)
{
	float cells[DIFF_CELLS] = {};
	int err = 0;

	series__spread(to, cells);
	series__spread(from, cells);
	buf__clear(&to->points);
	for (uint32_t i = 0; i < DIFF_CELLS && !err; i++) {
		const struct series_point point = {i, cells[i]};

		if (cells[i] > 0)
			err = buf__append(&to->points, &point, sizeof(point));
	}
	to->total += from->total;
	to->samples += from->samples;
	return err;
}

void series__free(struct series *series)
{
	buf__free(&series->points);
}

struct series *series__at(struct buf *all, uint32_t i)
{
	return buf__at(all, sizeof(struct series), i);
}
