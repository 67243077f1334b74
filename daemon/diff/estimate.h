/* SPDX-License-Identifier: MIT */
/* A share, and how sure it is: pure statistics, of numbers alone.
 *
 * A recording is cut into cells of equal time. In cell c a row has x[c] ns and all rows together
 * t[c]; its share is sum(x) / sum(t). Samples near in time are alike (a compile goes through its
 * passes one after another), so that cells do not spread as independent ones would. The variance is
 * that of sums of neighbours under a window, at every place (the spectrum at frequency 0; Welch,
 * "The use of fast Fourier transform for the estimation of power spectra", IEEE Trans. Audio
 * Electroacoust. 15, 1967), on what cells are off: x[c] - share * t[c]. The window is Hann's, so
 * that the rhythm of a program that does the same in turn is not taken for noise. It knows nothing
 * of sampling: noise of the ticks, slow changes and a neighbour's load are all in it.
 *
 * Several recordings of one side also differ from each other, which one alone cannot show. */
#ifndef CPROFD_DIFF_ESTIMATE_H
#define CPROFD_DIFF_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#define ESTIMATE_CELLS_MIN 32u /* fewer tell nothing of how they spread */

struct estimate {
	double total, time; /* sums of x and of t, ns */
	double share;	    /* total / time; 0 where there is no time */
	double variance;    /* of the share; < 0: not known */
	double freedom;	    /* degrees of freedom of the variance */
};

/* Of one recording. */
struct estimate estimate__share(const float *x, const double *t, uint32_t n);
/* Of the recordings of one side; in `ret_between` what their spread alone says (variance < 0: one
 * recording). */
struct estimate estimate__join(const struct estimate *recordings, uint32_t n,
			       struct estimate *ret_between);

struct comparison {
	double before, after;  /* shares */
	double change, margin; /* after - before, and to either side of it at the level asked for;
				  margin < 0: not known */
	bool differs;	       /* surely: the margin does not reach 0 */
};
/* `level`: 0.999. `least`: the variance of the difference is at least this. */
struct comparison estimate__compare(const struct estimate *before, const struct estimate *after,
				    const struct estimate *between_before,
				    const struct estimate *between_after, double least,
				    double level);

/* Where the change surely is, within what is possible: a share cannot fall by more than there is of it, nor, where `most`
 * is not 0, grow beyond that (1: the whole). The margin must be known. */
void comparison__range(const struct comparison *comparison, double most, double *ret_low, double *ret_high);

/* What a row took for each compile against what all else took, where both sides compile the same: in one recording.
 *
 * A machine that is slow for a while (a neighbour in its caches, a lower clock) makes recordings of the same work differ by a
 * 10th and more, and native code by another part than the interpreter: so a row's share differs, too, if less. How much a row
 * goes with the rest, recordings of one side tell: it is the slope of the one's logarithm against the other's, of both sides
 * each about its mean (the analysis of covariance; Fisher, "Statistical Methods for Research Workers", section 49.1). What is
 * left is what sides are compared by. The rest has no part of the row, so that a row that changes alone does not move what it
 * is measured against. The variance is that of the recordings, with how well the slope is known; blocks have no part in it. */
struct beside {
	double row, rest; /* ns a compile */
	bool after;
};
#define ESTIMATE_BESIDE_MIN 4 /* recordings a side; with three the interval is twice as wide */

struct rest_change {
	bool known, differs; /* known: enough recordings, in each of which there is time of both */
	double ratio, low, high;
};
/* `least`: the variance of the ratio's logarithm is at least this. */
struct rest_change estimate__beside(const struct beside *of, uint32_t n, double least, double level);

/* The t that a value of Student's distribution lies below with probability p (0.5 to 1); freedom >
 * 0. */
double student__quantile(double p, double freedom);

#endif
