/* SPDX-License-Identifier: MIT */
/* A share and its uncertainty: pure statistics.
 *
 * A recording is divided into cells of equal time. In cell c a row has x[c] ns, and all rows together t[c]; the
 * row's share is sum(x) / sum(t). Samples that are near in time are alike (a compile runs one pass after another),
 * so cells are not independent, and the variance of single cells would be too small. Instead it is computed from
 * weighted sums of neighbouring cells under a sliding window (the spectrum at frequency 0; Welch, "The use of fast
 * Fourier transform for the estimation of power spectra", IEEE Trans. Audio Electroacoust. 15, 1967), on the
 * deviations x[c] - share * t[c]. The window is Hann's, so that the rhythm of a program that repeats itself is not
 * taken for noise. The method makes no assumption about sampling: noise of the ticks, slow changes and other load on
 * the machine are all included.
 *
 * Recordings of one side also differ from each other, which a single recording cannot show. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ESTIMATE_CELLS_MIN 32u /* with fewer the variance cannot be estimated */

struct estimate {
	double total, time; /* sums of x and of t, ns */
	double share;	    /* total / time; 0 where there is no time */
	double variance;    /* of the share; < 0: not known */
	double freedom;	    /* degrees of freedom of the variance */
};

/* The estimate of one recording. x[c] and t[c] as above, for n cells; n is at most DIFF_CELLS. O(n * n / 8). */
struct estimate estimate__share(const float *x, const double *t, uint32_t n);
/* The estimate of a side with n recordings. ret_between: with the variance from the differences between recordings
 * only (< 0: one recording). */
struct estimate estimate__join(const struct estimate *recordings, uint32_t n,
			       struct estimate *ret_between);

struct comparison {
	double before, after;  /* shares */
	double change, margin; /* after - before, with its confidence interval: change - margin to change + margin.
				  margin < 0: unknown */
	bool differs;	       /* the interval does not contain 0 */
};
/* `level`: such as 0.999. `least`: a lower bound for the variance of the difference. */
struct comparison estimate__compare(const struct estimate *before, const struct estimate *after,
				    const struct estimate *between_before,
				    const struct estimate *between_after, double least,
				    double level);

/* The interval of the change, limited to what is possible: a share cannot fall below 0, nor, if `most` is not 0,
 * rise above `most` (1: all time). The margin must be known. */
void comparison__range(const struct comparison *comparison, double most, double *ret_low, double *ret_high);

/* The change of a row relative to everything else, per compile, if both sides compile the same.
 *
 * A machine that is slow for a while (a neighbour that uses its caches, a lower clock rate) makes recordings of the
 * same work differ by 10 % and more, and native code by another factor than the interpreter, so even shares differ
 * somewhat. Recordings of one side show how a row's time follows the time of the rest: it is the slope of log(row)
 * against log(rest), each side about its own mean (analysis of covariance; Fisher, "Statistical Methods for Research
 * Workers", section 49.1). The sides are compared by what this does not explain. The rest excludes the row itself,
 * so that a row that changes alone does not move its own reference. The variance is that between recordings,
 * including the uncertainty of the slope; blocks within recordings are not used. */
struct beside {
	double row, rest; /* ns per compile */
	bool after;
};
#define ESTIMATE_BESIDE_MIN 4 /* recordings per side; with three the interval would be twice as wide */

struct rest_change {
	bool known, differs; /* known: enough recordings, and both have time in each */
	double ratio, low, high;
};
/* `least`: a lower bound for the variance of log(ratio). */
struct rest_change estimate__beside(const struct beside *of, uint32_t n, double least, double level);

/* The quantile of Student's t distribution for probability p (0.5 to 1); freedom > 0. */
double student__quantile(double p, double freedom);
