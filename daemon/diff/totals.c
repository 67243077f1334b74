/* SPDX-License-Identifier: MIT */
/* The totals: how much time there was, how many compiles, how long they took; and which rows only one side has.
 * Means of recordings are compared by how recordings of a side differ (Welch's test; Biometrika 34, 1947); with one
 * recording per side there is no interval. */
#include <math.h>

#include "diff/internal.h"

/* The mean of one side. */
struct mean {
	double mean, variance; /* of the mean; 0: one recording */
	uint32_t n;
};

static double value_of(const struct diff_recording *recording, enum diff_total_kind kind)
{
	switch (kind) {
	case DIFF_TOTAL_TIME:
		return (double)recording->time;
	case DIFF_TOTAL_SPAN:
		return (double)recording->span;
	case DIFF_TOTAL_COMPILES:
		return (double)recording->compiles;
	default:
		return (double)recording->compiling;
	}
}

/* In one pass (Welford): mean and sum of squares are corrected with each value. */
static struct mean mean_of(const struct diff *diff, enum diff_total_kind kind, bool after)
{
	struct mean ret = {};
	double squares = 0, value;

	for (uint32_t i = 0; i < diff->read; i++) {
		if (diff->recordings[i].after != after)
			continue;
		value = value_of(&diff->recordings[i], kind);
		ret.n++;
		squares += (value - ret.mean) * (value - ret.mean) * (ret.n - 1) / ret.n;
		ret.mean += (value - ret.mean) / ret.n;
	}
	if (ret.n > 1)
		ret.variance = squares / (ret.n - 1) / ret.n;
	return ret;
}

/* Welch's approximation. Not both variances may be 0. */
static double freedom_of(const struct mean *a, const struct mean *b)
{
	double sum = a->variance + b->variance;

	return sum * sum / (a->variance * a->variance / (a->n - 1) + b->variance * b->variance / (b->n - 1));
}

struct comparison diff__total(const struct diff *diff, enum diff_total_kind kind)
{
	struct mean before = mean_of(diff, kind, false), after = mean_of(diff, kind, true);
	struct comparison ret = {.before = before.mean, .after = after.mean, .change = after.mean - before.mean, .margin = -1};
	double variance = before.variance + after.variance;

	/* The spread of one recording is not known. */
	if (before.n < 2 || after.n < 2)
		return ret;
	ret.margin = variance > 0 ? sqrt(variance) * student__quantile((1 + diff->options->level) / 2, freedom_of(&before, &after)) : 0;
	ret.differs = fabs(ret.change) > ret.margin;
	return ret;
}

const struct diff_total_name diff_total_names[DIFF_TOTALS] = {
	[DIFF_TOTAL_TIME] = {"time", "total", NULL},
	[DIFF_TOTAL_SPAN] = {"span", "elapsed", "from begin to end"},
	[DIFF_TOTAL_COMPILES] = {"compiles", "compiles", "outermost compiles"},
	[DIFF_TOTAL_COMPILING] = {"compiling", "compiling", "... their time"},
};

const char *diff__total_words(const struct diff *diff, enum diff_total_kind kind)
{
	return diff_total_names[kind].words ?: diff->wall ? "wall time of its threads" : "CPU time";
}

/* --- rows --- */

static const struct series *series_of(const struct diff_recording *recording, uint32_t row)
{
	const struct buf *all = &recording->measures[DIFF_SHARE].series[SERIES_ROW];

	return row < all->len / sizeof(struct series) ? &ITEM(*all, struct series, row) : NULL;
}

double diff__mean_time(const struct diff *diff, uint32_t row, bool after)
{
	double sum = 0;
	uint32_t i, n = 0;

	for (i = 0; i < diff->read; i++) {
		const struct series *series = series_of(&diff->recordings[i], row);

		if (diff->recordings[i].after != after)
			continue;
		sum += series ? (double)series->total : 0;
		n++;
	}
	return n ? sum / n : 0;
}

/* How many samples of the row the other side should have, judged by the recording of this side with the lowest rate;
 * 0: not all recordings of this side have the row, or one of the other side has it. */
static double expected_samples(const struct diff *diff, uint32_t row, bool after, uint32_t *ret_least)
{
	double rate = INFINITY, time = 0;
	uint32_t i, n[2] = {};

	*ret_least = 0;
	for (i = 0; i < diff->read; i++) {
		const struct diff_recording *recording = &diff->recordings[i];
		const struct series *series = series_of(recording, row);
		double samples = series ? (double)series->samples : 0;

		n[recording->after]++;
		if (!recording->time || (recording->after != after) != !samples)
			return 0;
		if (recording->after == after)
			/* The lowest rate of this side is the cautious one: it predicts the fewest samples
			 * for the other side. */
			rate = fmin(rate, samples / (double)recording->time);
		else
			time += (double)recording->time;
	}
	*ret_least = n[0] < n[1] ? n[0] : n[1];
	return *ret_least ? rate * time : 0;
}

enum diff_only diff__only(const struct diff *diff, uint32_t row)
{
	/* If this many samples are expected, having none by chance has the probability 1 - level. Poisson:
	 * exp(-expected) is the probability of no sample at all. 6.9 expected samples for 99.9 %. */
	double enough = -log(1 - diff->options->level);
	uint32_t after, least;

	for (after = 0; after < 2; after++) {
		if (expected_samples(diff, row, after, &least) < enough)
			continue;
		/* With one recording per side, only a compile counts: other things may happen in one run by chance. */
		if (least > 1 || diff__key(diff, row).by == REPORT_UNIT)
			return after ? DIFF_ONLY_AFTER : DIFF_ONLY_BEFORE;
	}
	return DIFF_ONLY_NOT;
}
