/* SPDX-License-Identifier: MIT */
/* Did a row change only because everything did? Fits the logarithm of the row's time per compile to that of
 * all other rows, over the recordings of both sides (estimate.h).
 *
 *     log(row)                        x: recordings before, o: after
 *       |            o o              the slope is common to both sides, each about its own mean;
 *       |      x  o                   `change` is how far apart the two lines are
 *       |   x x
 *       +------------- log(rest)
 *
 * In logarithms, a machine that is 10 % slower shifts row and rest by the same step. */
#include <math.h>

#include "diff/estimate.h"

struct sums {
	double n, x, y; /* number of recordings; means of log(rest) and log(row) */
};

static struct sums means(const struct beside *of, uint32_t n, bool after)
{
	struct sums ret = {};

	for (uint32_t i = 0; i < n; i++) {
		if (of[i].after != after)
			continue;
		ret.n++;
		ret.x += log(of[i].rest);
		ret.y += log(of[i].row);
	}
	if (ret.n > 0) {
		ret.x /= ret.n;
		ret.y /= ret.n;
	}
	return ret;
}

struct rest_change estimate__beside(const struct beside *of, uint32_t n, double least, double level)
{
	struct sums before, after;
	double xx = 0, xy = 0, yy = 0, slope, apart, freedom, variance, change, margin;

	for (uint32_t i = 0; i < n; i++)
		/* Has no logarithm. */
		if (of[i].row <= 0 || of[i].rest <= 0)
			return (struct rest_change){};
	before = means(of, n, false);
	after = means(of, n, true);
	if (before.n < ESTIMATE_BESIDE_MIN || after.n < ESTIMATE_BESIDE_MIN)
		return (struct rest_change){};
	for (uint32_t i = 0; i < n; i++) {
		const struct sums *side = of[i].after ? &after : &before;
		double x = log(of[i].rest) - side->x, y = log(of[i].row) - side->y;

		/* Sums of squares and products about the mean of the own side. */
		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	/* The rest never changed: then there is nothing to follow. */
	slope = xx > 0 ? xy / xx : 0;
	apart = after.x - before.x;
	/* Two means and one slope were fitted. */
	freedom = before.n + after.n - 3;
	change = after.y - before.y - slope * apart;
	/* What the line leaves unexplained, times the uncertainty of both means and of the slope over the
	 * distance between the sides. */
	variance = fmax(0, yy - slope * xy) / freedom * (1 / before.n + 1 / after.n + (xx > 0 ? apart * apart / xx : 0));
	margin = student__quantile(0.5 + level / 2, freedom) * sqrt(fmax(variance, least));
	/* Back from logarithms: a ratio and its interval. */
	return (struct rest_change){true, fabs(change) > margin, exp(change), exp(change - margin), exp(change + margin)};
}
