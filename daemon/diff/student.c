/* SPDX-License-Identifier: MIT */
/* Student's t: the inverse of the regularised incomplete beta function (Abramowitz and Stegun 26.5.8,
 * 26.7.1), by its continued fraction (Lentz) and bisection. A thousand rows need a thousand quantiles at
 * most, so it need not be fast.
 *
 *     student__quantile(0.975, 10) = 2.228        student__quantile(0.9995, 1000) = 3.300 */
#include <math.h>

#include "diff/estimate.h"

/* Lentz's algorithm in its modified form: a denominator of 0 becomes 1e-300, whose inverse cannot overflow. */
static double fraction(double a, double b, double x)
{
	double c = 1, d = 1 - (a + b) * x / (a + 1), h;

	d = fabs(d) < 1e-300 ? 1e300 : 1 / d;
	h = d;
	for (int m = 1; m < 300; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;

		d = 1 + even * d;
		d = fabs(d) < 1e-300 ? 1e300 : 1 / d;
		c = 1 + even / c;
		h *= d * c;
		d = 1 + odd * d;
		d = fabs(d) < 1e-300 ? 1e300 : 1 / d;
		c = 1 + odd / c;
		step = d * c;
		h *= step;
		if (fabs(step - 1) < 1e-14)
			break;
	}
	return h;
}

/* I_x(a, b). The fraction converges fast only for x below the mean; above it, I_x(a, b) = 1 - I_(1-x)(b, a). */
static double beta(double a, double b, double x)
{
	double front;

	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a
					 : 1 - front * fraction(b, a, 1 - x) / b;
}

double student__quantile(double p, double freedom)
{
	double low = 0, high = 1, tail = 2 * (1 - p), mid;

	if (p <= 0.5)
		return 0;
	/* A bound above the quantile: doubling. */
	while (high < 1e9 && beta(freedom / 2, 0.5, freedom / (freedom + high * high)) > tail)
		high *= 2;
	for (int i = 0; i < 100 && high - low > 1e-10 * high; i++) {
		mid = (low + high) / 2;
		if (beta(freedom / 2, 0.5, freedom / (freedom + mid * mid)) > tail)
			low = mid;
		else
			high = mid;
	}
	return high;
}
