/* SPDX-License-Identifier: MIT */
/* Shares: divides the time that a thread waited for its workers among what the workers did meanwhile, by their CPU
 * time. So the parts of a parallel region add up to its wall time; its CPU time is shown beside.
 * Example: the caller waits 10 ms; workers run 30 ms of pass A and 10 ms of pass B. A gets 7.5 ms, B 2.5 ms.
 *
 * Call in order of the stream: shares__add() for what workers did since the caller's last sample, then
 * shares__divide() for that sample. If the caller did not wait, the workers get nothing: the caller used its time
 * itself. Memory: SHARES_MAX rows; further CPU time is added to the last row. All zeroes is empty. One thread. */
#ifndef CPROFD_UNITS_SHARES_H
#define CPROFD_UNITS_SHARES_H

#include <stdint.h>

#define SHARES_MAX 65536u

struct share {
	uint32_t caller;
	uint64_t of;  /* what the time is for: an id that the user of this header chooses */
	uint64_t cpu; /* ns */
};
/* Rows of all callers, in the order of arrival, of which shares__divide() may change. */
struct shares {
	struct share *rows;
	uint32_t n, capacity;
};

/* -ENOMEM. O(1). */
int shares__add(struct shares *shares, uint32_t caller, uint64_t of, uint64_t cpu);
/* Removes the caller's rows and returns them, *ret_n of them, with `cpu` replaced by the row's part of `time`. All
 * parts together are at most the CPU time that the rows had; the rest of `time` stays with the caller. The rows are
 * valid until the next call of any function here. */
const struct share *shares__divide(struct shares *shares, uint32_t caller, uint64_t time, uint32_t *ret_n);
void shares__free(struct shares *shares);

#endif
