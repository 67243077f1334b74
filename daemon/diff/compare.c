/* SPDX-License-Identifier: MIT */
/* Compares the series of both sides, and turns them into rows of tables, those that differ first.
 *
 *     of_recording()   the row's share in one recording, and its variance         (estimate__share)
 *     of_side()        the recordings of a side joined; and how they differ       (estimate__join)
 *     diff__compare()  both sides: change, margin, "differs"                      (estimate__compare)
 *
 * A row has a series in each recording (read.c); a row without one in a recording has no time there, which is
 * a share of 0 and not a missing value. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "diff/internal.h"

/* Up to this many samples, the variance is at least what random ticks would cause (tick_variance()): a row with few
 * samples is 0 in nearly all cells, which would make it look steady. */
#define SAMPLES_FEW 2000u

/* Which of the two measures is used. Cells of whole compiles vary less than cells of equal time, which cut compiles
 * in two. So if there are enough compiles, shares are computed over them, too. */
struct measure *diff__measure(const struct diff *diff, struct diff_recording *recording)
{
	bool whole = recording->compiles >= ESTIMATE_CELLS_MIN;

	return &recording->measures[diff->per == DIFF_COMPILE || whole ? DIFF_COMPILE : DIFF_SHARE];
}

/* NULL: it has no time in that recording. */
static const struct series *series_of(const struct diff *diff, uint32_t recording, enum series_kind kind, uint32_t what)
{
	const struct buf *all = &diff__measure(diff, &diff->recordings[recording])->series[kind];

	return what < all->len / sizeof(struct series) ? &ITEM(*all, struct series, what) : NULL;
}

static uint64_t samples_of(const struct diff *diff, enum series_kind kind, uint32_t what)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < diff->read; i++)
		if (series_of(diff, i, kind, what))
			samples += series_of(diff, i, kind, what)->samples;
	return samples;
}

static bool is_collector(const struct diff *diff, enum series_kind kind, uint32_t what)
{
	struct diff_key key;

	if (kind != SERIES_ROW)
		return false;
	key = diff__key(diff, what);
	return key.by == REPORT_CLASS && !strcmp(key.name, CLASS_COLLECTOR);
}

static struct estimate of_recording(const struct diff *diff, uint32_t recording, enum series_kind kind, uint32_t what)
{
	const struct measure *measure = diff__measure(diff, &diff->recordings[recording]);
	const struct series *series = series_of(diff, recording, kind, what);
	bool collector = is_collector(diff, kind, what);
	float cells[DIFF_CELLS] = {};
	/* Per compile: compiles begun in each cell. As a share: the time of all rows together in each cell. */
	double against[DIFF_CELLS];

	if (series)
		series__spread(series, cells);
	for (uint32_t i = 0; i < DIFF_CELLS; i++)
		against[i] = diff->per == DIFF_COMPILE
				     ? measure->against[i]
				     : measure->time[i] + (collector ? measure->collector[i] : 0);
	return estimate__share(cells, against, measure->n_cells);
}

/* A side's estimate, with the variance from blocks of its recordings; `between`: the same with the variance
 * from how its recordings differ. */
struct side {
	struct estimate all, between;
	uint64_t samples;
};

static int of_side(const struct diff *diff, enum series_kind kind, uint32_t what, bool after, struct side *ret)
{
	_cleanup_free_ struct estimate *recordings = calloc(diff->read + 1, sizeof(*recordings));
	uint32_t i, n = 0;

	*ret = (struct side){};
	if (!recordings)
		return -ENOMEM;
	for (i = 0; i < diff->read; i++) {
		const struct series *series = series_of(diff, i, kind, what);

		if (diff->recordings[i].after != after)
			continue;
		recordings[n++] = of_recording(diff, i, kind, what);
		ret->samples += series ? series->samples : 0;
	}
	ret->all = estimate__join(recordings, n, &ret->between);
	return 0;
}

/* The variance of the difference that would come from randomly placed ticks alone, if the share were the same
 * on both sides. Each sample stands for total / samples ns. Of n random ticks,
 * a row with the share p gets n p, with the variance n p (1 - p). */
static double tick_variance(const struct side *before, const struct side *after, enum diff_per per)
{
	double samples = (double)(before->samples + after->samples),
	       total = before->all.total + after->all.total;
	double time = before->all.time + after->all.time, share = time > 0 ? total / time : 0;

	if (samples > SAMPLES_FEW || !samples || before->all.time <= 0 || after->all.time <= 0)
		return 0;
	return total / samples * share * (per == DIFF_SHARE ? 1 - share : 1) *
	       (1 / before->all.time + 1 / after->all.time);
}

int diff__compare(const struct diff *diff, enum series_kind kind, uint32_t what, struct diff_row *ret)
{
	struct side before, after;
	int err;

	*ret = (struct diff_row){.row = what, .samples = samples_of(diff, kind, what)};
	ret->too_few = ret->samples < DIFF_SAMPLES_MIN;
	err = of_side(diff, kind, what, false, &before) ?: of_side(diff, kind, what, true, &after);
	if (err)
		return err;
	/* How fast the machine is, is the same for a whole recording, which no block of it shows; a share hardly depends on it. So
	 * times per compile are as sure as recordings agree, as totals are. */
	if (diff->per == DIFF_COMPILE && before.between.variance >= 0 && after.between.variance >= 0)
		before.all.variance = -1;
	ret->comparison =
		estimate__compare(&before.all, &after.all, &before.between, &after.between,
				  tick_variance(&before, &after, diff->per), diff->options->level);
	if (ret->too_few) {
		/* The values stay, for the table; only the verdict is withheld. */
		ret->comparison.margin = -1;
		ret->comparison.differs = false;
	}
	return 0;
}

/* A row with nearly all of the time cannot be compared with the rest. */
#define REST_LEAST 0.05

/* ns of everything but the row. The garbage collector counts only for compiles, which include it. */
static double rest_of(const struct diff *diff, const struct measure *measure, uint32_t row, double own)
{
	enum report_by by = diff__key(diff, row).by;
	bool collector = is_collector(diff, SERIES_ROW, row);
	double all = 0;

	for (uint32_t i = 0; i < measure->n_cells; i++)
		all += measure->time[i] + (by == REPORT_UNIT ? measure->collector[i] : 0);
	if (collector)
		return all;
	return all - own >= REST_LEAST * all ? all - own : 0;
}

static int compare_rest(const struct diff *diff, uint32_t row, struct rest_change *ret)
{
	_cleanup_free_ struct beside *recordings = calloc(diff->read + 1, sizeof(*recordings));
	double samples[2] = {};

	*ret = (struct rest_change){};
	if (!recordings)
		return -ENOMEM;
	for (uint32_t i = 0; i < diff->read; i++) {
		const struct measure *measure = &diff->recordings[i].measures[DIFF_COMPILE];
		const struct series *series = series_of(diff, i, SERIES_ROW, row);
		double own = series ? (double)series->total : 0;

		/* The logarithm of the row's time is needed in each recording. */
		if (!series || !measure->counted)
			return 0;
		recordings[i] = (struct beside){own / (double)measure->counted, rest_of(diff, measure, row, own) / (double)measure->counted,
						diff->recordings[i].after};
		samples[diff->recordings[i].after] += (double)series->samples;
	}
	*ret = estimate__beside(recordings, diff->read, samples[0] + samples[1] > SAMPLES_FEW ? 0 : 1 / samples[0] + 1 / samples[1],
				diff->options->level);
	return 0;
}

const char *const diff_per_names[DIFF_PER_COUNT] = {"share", "compile"};

/* Rows that differ by the size of the change, the others by their weight. By id where equal, so that the
 * output is the same in each run. */
static int order(const void *left, const void *right)
{
	const struct diff_row *a = left, *b = right;
	const struct comparison *p = &a->comparison, *q = &b->comparison;
	bool first = row__differs(a), second = row__differs(b);
	double x = first ? fabs(p->change) : p->before + p->after,
	       y = second ? fabs(q->change) : q->before + q->after;

	if (first != second)
		return first ? -1 : 1;
	return ORDER(y, x) ?: ORDER(a->row, b->row);
}

/* The row "(outside of compiles)" of recordings without compiles: always 100 %. */
static bool says_nothing(const struct diff *diff, const struct diff_key *key)
{
	for (uint32_t i = 0; i < diff->read; i++)
		if (diff->recordings[i].compiles)
			return false;
	return key->by == REPORT_UNIT && !strcmp(key->name, REPORT_OUTSIDE);
}

static int compare_table(struct diff *diff, enum report_by by)
{
	struct diff_table *table = &diff->tables[by];
	struct diff_row *it;
	int err = 0;

	table->rows = calloc(diff->keys.n + 1, sizeof(*table->rows));
	if (!table->rows)
		return -ENOMEM;
	for (uint32_t row = 0; row < diff->keys.n && !err; row++) {
		struct diff_key key = diff__key(diff, row);

		if (key.by != by || !samples_of(diff, SERIES_ROW, row) || says_nothing(diff, &key))
			continue;
		/* In the order of ids; sorted below. */
		it = &table->rows[table->n_rows++];
		err = diff__compare(diff, SERIES_ROW, row, it);
		if (!err && diff->per == DIFF_COMPILE && !it->too_few)
			err = compare_rest(diff, row, &it->rest);
		it->only = err ? DIFF_ONLY_NOT : diff__only(diff, row);
		table->n_only[it->only]++;
		table->n_differ += it->comparison.differs;
		table->n_too_few += it->too_few;
		table->n_rest += it->rest.known;
		table->n_rest_differ += it->rest.differs;
		table->n_either += row__differs(it);
	}
	qsort(table->rows, table->n_rows, sizeof(*table->rows), order);
	return err;
}

/* True if both sides have Python functions, but none in common. `sides` has a bit for each side: 3 is a
 * function of both. */
static bool nothing_in_common(const struct diff *diff)
{
	size_t i, sides[4] = {};

	for (i = 0; i < diff->sides.len; i++)
		sides[diff->sides.data[i] & 3]++;
	return sides[1] && sides[2] && !sides[3];
}

/* Do both sides compile the same functions, in similar proportions? Measured as half the sum of absolute differences
 * of the proportions (total variation distance). */
#define MIX_DIFFERS 0.1

static bool compiles_alike(const struct diff *diff)
{
	const uint64_t *counts = (const uint64_t *)diff->counts.data;
	double sums[2] = {}, off = 0;

	for (uint32_t i = 0; i < 2 * diff->compiles.n; i++)
		sums[i % 2] += (double)counts[i];
	if (sums[0] <= 0 || sums[1] <= 0)
		return false;
	for (uint32_t i = 0; i < diff->compiles.n; i++)
		off += fabs((double)counts[2 * i] / sums[0] - (double)counts[2 * i + 1] / sums[1]) /
		       2;
	return off <= MIX_DIFFERS;
}

int diff__finish(struct diff *diff)
{
	int err = 0, by;

	if (nothing_in_common(diff))
		return -ENODATA;
	/* Only now: while reading, both measures are filled in. */
	diff->per = diff->options->per;
	if (diff->per == DIFF_COMPILE && !compiles_alike(diff))
		return -EDOM;
	for (by = 0; by < REPORT_BY_COUNT && !err; by++)
		if (diff__wants(diff, (enum report_by)by))
			err = compare_table(diff, (enum report_by)by);
	if (!err && diff->options->flame)
		err = flame__finish(diff);
	return err;
}

uint32_t diff__compared(const struct diff *diff)
{
	uint32_t n = 0;

	for (int by = 0; by < REPORT_BY_COUNT; by++)
		n += diff->tables[by].n_rows - diff->tables[by].n_too_few;
	return n;
}
