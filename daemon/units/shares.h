/* SPDX-License-Identifier: MIT */
/* Shares: the time that a thread waited for its workers, divided among what they did meanwhile, by their CPU time. So what a parallel
 * region did adds up to the time that it took; what it took of CPU time is told beside.
 *
 * In order of the stream: what workers did since the caller's last sample, then that sample. A caller that did not wait leaves them nothing:
 * it has had its time itself. Memory: SHARES_MAX rows; more count for the last one. Zero is empty. One thread. */
#ifndef CPROFD_UNITS_SHARES_H
#define CPROFD_UNITS_SHARES_H

#include <stdint.h>

#define SHARES_MAX 65536u

struct share {
	uint32_t caller;
	uint64_t of;  /* the reader's own word */
	uint64_t cpu; /* ns */
};
struct shares {
	struct share *rows;
	uint32_t n, capacity;
};

int shares__add(struct shares *shares, uint32_t caller, uint64_t of, uint64_t cpu);
/* Moves the caller's rows to the end, *ret_n of them: each one's part of `time` is its cpu then. They have no more than they ran: the rest
 * of `time` stays the caller's. The rows are forgotten with the next call of any function here. */
const struct share *shares__divide(struct shares *shares, uint32_t caller, uint64_t time, uint32_t *ret_n);
void shares__free(struct shares *shares);

#endif
