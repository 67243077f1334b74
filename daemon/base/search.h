/* SPDX-License-Identifier: MIT */
/* Binary search in sorted items. */
#pragma once

/* How many of `n` items come before what is searched? `before` is an expression of the index `i`, true for these items
 * and false for all behind them: SEARCH(i, n, starts[i] <= at). So it is also the index of the first item that does
 * not. O(log n). */
#define SEARCH(i, n, before)                                                                                           \
	({                                                                                                             \
		__typeof__((n) + 0u) i, low_ = 0, high_ = (n);                                                         \
		while (low_ < high_) {                                                                                 \
			i = low_ + (high_ - low_) / 2;                                                                 \
			if (before)                                                                                    \
				low_ = i + 1;                                                                          \
			else                                                                                           \
				high_ = i;                                                                             \
		}                                                                                                      \
		low_;                                                                                                  \
	})
