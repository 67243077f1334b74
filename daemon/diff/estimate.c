/* SPDX-License-Identifier: MIT */
/* The formulas of estimate.h, on arrays of numbers. No table here, no recording: tests feed it with numbers
 * of known distribution. */
#include "diff/estimate.h"

#include <math.h>

/* A window is an eighth of the recording: long compared to the periods of a compiler's work, but short enough that
 * there are many. If the program repeats itself 16 times or more in a recording, nothing of that rhythm is left;
 * with fewer repetitions the variance is overestimated. */
#define WINDOWS 8
/* Degrees of freedom of windows that overlap by all but one cell: 1.92 n / length (for Hann's window), minus 1 for
 * the mean. */
#define FREEDOM (1.92 * WINDOWS - 1)

/* The variance of the sum of n values `off`, whose mean is 0: from the mean square of all weighted sums under a
 * sliding window. */
static double window_variance(const double *off, uint32_t n)
{
	uint32_t length = n / WINDOWS, i, k;
	/* On the stack: n is at most DIFF_CELLS. */
	double weights[length], squares = 0, sum = 0, mean_square = 0;

	for (k = 0; k < length; k++) {
		/* Hann's window, sampled in the middle of each cell; scaled so that the sum of squares is 1,
		 * and independent cells keep their variance. */
		weights[k] = 0.5 - 0.5 * cos(2 * M_PI * (k + 0.5) / length);
		squares += weights[k] * weights[k];
	}
	for (k = 0; k < length; k++) {
		weights[k] /= sqrt(squares);
		sum += weights[k];
	}
	for (i = 0; i + length <= n; i++) {
		double window = 0;

		for (k = 0; k < length; k++)
			window += weights[k] * off[i + k];
		mean_square += window * window / (n - length + 1);
	}
	/* Correct for the mean, which was subtracted in all windows. */
	return n * mean_square / (1 - sum * sum / n);
}

struct estimate estimate__share(const float *x, const double *t, uint32_t n)
{
	struct estimate ret = {.variance = -1};
	double off[n + 1];

	for (uint32_t i = 0; i < n; i++) {
		ret.total += (double)x[i];
		ret.time += t[i];
	}
	if (ret.time <= 0)
		return ret;
	ret.share = ret.total / ret.time;
	/* A window would be shorter than four cells. */
	if (n < ESTIMATE_CELLS_MIN)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		/* The variance of a ratio, to first order, is that of the sum of these divided by the square
		 * of the time (Cochran, "Sampling Techniques", chapter 6: the ratio estimate). */
		off[i] = (double)x[i] - ret.share * t[i];
	ret.variance = window_variance(off, n) / (ret.time * ret.time);
	ret.freedom = FREEDOM;
	return ret;
}

/* The shares of the recordings, weighted by their time: the share of all time of the side. Degrees of freedom
 * as in add(). */
struct estimate estimate__join(const struct estimate *recordings, uint32_t n,
			       struct estimate *ret_between)
{
	struct estimate ret = {}, between = {.variance = -1};
	double spread = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		ret.total += recordings[i].total;
		ret.time += recordings[i].time;
	}
	ret.share = ret.time > 0 ? ret.total / ret.time : 0;
	for (uint32_t i = 0; i < n; i++) {
		double part = ret.time > 0 ? recordings[i].time / ret.time : 0,
		       off = recordings[i].share - ret.share;
		double variance = part * part * recordings[i].variance;

		spread += part * part * off * off;
		/* One recording that is too short leaves the variance of the side unknown. */
		if (recordings[i].variance < 0 || ret.variance < 0) {
			ret.variance = -1;
			continue;
		}
		ret.variance += variance;
		squares += variance * variance / recordings[i].freedom;
	}
	ret.freedom = squares > 0 ? ret.variance * ret.variance / squares : 0;
	if (n > 1) {
		between = ret;
		/* As if each recording were one draw. Exact for recordings of equal length. */
		between.variance = spread * n / (n - 1);
		between.freedom = n - 1;
	}
	*ret_between = between;
	return ret;
}

/* The sum of two variances, and its degrees of freedom (Welch and Satterthwaite). */
static struct estimate add(const struct estimate *a, const struct estimate *b)
{
	struct estimate ret = {.variance = a->variance + b->variance,
			       .freedom = a->freedom + b->freedom};
	double squares = 0;

	if (a->variance < 0 || b->variance < 0) {
		ret.variance = -1;
		return ret;
	}
	if (a->variance > 0)
		squares += a->variance * a->variance / a->freedom;
	if (b->variance > 0)
		squares += b->variance * b->variance / b->freedom;
	if (squares > 0)
		ret.freedom = ret.variance * ret.variance / squares;
	return ret;
}

/* The bound that chi-square / freedom stays below (sign 1; above: sign -1) in 999 of 1,000 cases (Wilson and
 * Hilferty's approximation). */
static double chance_bound(double freedom, int sign)
{
	double part = 2 / (9 * freedom), root = 1 - part + sign * 3.0902 * sqrt(part);

	return root > 0 ? root * root * root : 0;
}

/* Chooses between the variance within recordings and that between recordings of a side. They should agree. Where
 * they clearly do not, the one between recordings is right: either runs differ more than one recording can show
 * (memory layout, load of the machine), or the program does one thing after the other, so that its blocks differ but
 * its runs do not. */
static struct estimate choose(const struct estimate *within, const struct estimate *between)
{
	struct estimate ret = *within;

	if (within->variance < 0 ||
	    between->variance > within->variance * chance_bound(between->freedom, 1) ||
	    between->variance < within->variance * chance_bound(between->freedom, -1))
		return *between;
	if (between->variance > within->variance)
		ret.variance = between->variance;
	ret.freedom += between->freedom;
	return ret;
}

/* Two variances are available: within recordings and between them. The difference is divided by the root of
 * the one that choose() prefers, and compared with Student's distribution. */
struct comparison estimate__compare(const struct estimate *before, const struct estimate *after,
				    const struct estimate *between_before,
				    const struct estimate *between_after, double least,
				    double level)
{
	struct comparison ret = {.before = before->share,
				 .after = after->share,
				 .change = after->share - before->share,
				 .margin = -1};
	struct estimate within = add(before, after);
	struct estimate between = add(between_before, between_after), used = within;

	if (between_before->variance >= 0 && between_after->variance >= 0)
		used = choose(&within, &between);
	if (used.variance < 0)
		return ret;
	if (used.variance < least)
		used.variance = least;
	/* Satterthwaite's formula may give less than one. */
	if (used.freedom < 1)
		used.freedom = 1;
	ret.margin = student__quantile(0.5 + level / 2, used.freedom) * sqrt(used.variance);
	ret.differs = fabs(ret.change) > ret.margin;
	return ret;
}

void comparison__range(const struct comparison *comparison, double most, double *ret_low, double *ret_high)
{
	*ret_low = fmax(comparison->change - comparison->margin, -comparison->before);
	*ret_high = comparison->change + comparison->margin;
	if (most > 0)
		*ret_high = fmin(*ret_high, most - comparison->before);
}
