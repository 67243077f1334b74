/* Both sides' series -> rows of tables: what differs surely first. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "diff/internal.h"

#define ITEM(buf, type, i) (((type *)(buf).data)[i])
/* Below so many samples the noise of the ticks is told from their number: cells that hardly ever have one say less. */
#define SAMPLES_FEW 2000u

static const struct series *series_of(const struct diff_recording *recording, uint32_t row)
{
	return row < recording->rows.len / sizeof(struct series) ? &ITEM(recording->rows, struct series, row) : NULL;
}

static uint64_t samples_of(const struct diff *diff, uint32_t row)
{
	uint64_t samples = 0;
	uint32_t i;

	for (i = 0; i < diff->read; i++)
		if (series_of(&diff->recordings[i], row))
			samples += series_of(&diff->recordings[i], row)->samples;
	return samples;
}

static struct estimate of_recording(const struct diff_recording *recording, uint32_t row, bool too_few)
{
	const struct series *series = series_of(recording, row);
	float cells[DIFF_CELLS] = {};
	struct estimate ret = {.variance = -1};
	uint32_t i;

	if (!too_few) {
		if (series)
			series__spread(series, cells);
		return estimate__share(cells, recording->time, recording->n_cells);
	}
	ret.total = series ? (double)series->total : 0;
	for (i = 0; i < recording->n_cells; i++)
		ret.time += recording->time[i];
	ret.share = ret.time > 0 ? ret.total / ret.time : 0;
	return ret;
}

struct side {
	struct estimate all, between;
	uint64_t samples;
};

static int of_side(const struct diff *diff, uint32_t row, bool after, bool too_few, struct side *ret)
{
	_cleanup_free_ struct estimate *recordings = calloc(diff->read + 1, sizeof(*recordings));
	uint32_t i, n = 0;

	*ret = (struct side){};
	if (!recordings)
		return -ENOMEM;
	for (i = 0; i < diff->read; i++) {
		const struct diff_recording *recording = &diff->recordings[i];

		if (recording->after != after)
			continue;
		recordings[n++] = of_recording(recording, row, too_few);
		ret->samples += series_of(recording, row) ? series_of(recording, row)->samples : 0;
	}
	ret->all = estimate__join(recordings, n, &ret->between);
	return 0;
}

/* What ticks alone, were they random, would make of a share that is the same on both sides. */
static double tick_variance(const struct side *before, const struct side *after)
{
	double samples = (double)(before->samples + after->samples), total = before->all.total + after->all.total;
	double time = before->all.time + after->all.time, share = time > 0 ? total / time : 0;

	if (samples > SAMPLES_FEW || !samples || before->all.time <= 0 || after->all.time <= 0)
		return 0;
	return total / samples * share * (1 - share) * (1 / before->all.time + 1 / after->all.time);
}

static int compare_row(const struct diff *diff, uint32_t row, struct diff_row *ret)
{
	struct side before, after;
	int err;

	*ret = (struct diff_row){.row = row, .samples = samples_of(diff, row)};
	ret->too_few = ret->samples < DIFF_SAMPLES_MIN;
	err = of_side(diff, row, false, ret->too_few, &before) ?: of_side(diff, row, true, ret->too_few, &after);
	if (err)
		return err;
	ret->comparison = estimate__compare(&before.all, &after.all, &before.between, &after.between,
					    tick_variance(&before, &after), diff->options->level);
	if (ret->too_few) {
		ret->comparison.margin = -1;
		ret->comparison.differs = false;
	}
	return 0;
}

static int order(const void *left, const void *right)
{
	const struct diff_row *a = left, *b = right;
	const struct comparison *p = &a->comparison, *q = &b->comparison;
	double x = p->differs ? fabs(p->change) : p->before + p->after, y = q->differs ? fabs(q->change) : q->before + q->after;

	if (p->differs != q->differs)
		return p->differs ? -1 : 1;
	if (x != y)
		return x > y ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

static int compare_table(struct diff *diff, enum report_by by)
{
	struct diff_table *table = &diff->tables[by];
	uint32_t row;
	int err = 0;

	table->rows = calloc(diff->keys.n + 1, sizeof(*table->rows));
	if (!table->rows)
		return -ENOMEM;
	for (row = 0; row < diff->keys.n && !err; row++) {
		if (diff__key(diff, row).by != by || !samples_of(diff, row))
			continue;
		err = compare_row(diff, row, &table->rows[table->n_rows]);
		table->n_differ += table->rows[table->n_rows].comparison.differs;
		table->n_too_few += table->rows[table->n_rows].too_few;
		table->n_rows++;
	}
	qsort(table->rows, table->n_rows, sizeof(*table->rows), order);
	return err;
}

/* Python functions that are on one side, and none of them on the other. */
static bool nothing_in_common(const struct diff *diff)
{
	size_t i, sides[4] = {};

	for (i = 0; i < diff->sides.len; i++)
		sides[diff->sides.data[i] & 3]++;
	return sides[1] && sides[2] && !sides[3];
}

int diff__finish(struct diff *diff)
{
	int err = 0, by;

	if (nothing_in_common(diff))
		return -ENODATA;
	for (by = 0; by < REPORT_BY_COUNT && !err; by++)
		if (diff__wants(diff, (enum report_by)by))
			err = compare_table(diff, (enum report_by)by);
	return err;
}
