/* SPDX-License-Identifier: MIT */
/* Shares: divides the time that a thread waited for its workers among what the workers did meanwhile, by their CPU
 * time. So the parts of a parallel region add up to its wall time; its CPU time is shown beside.
 * Example: the caller waits 10 ms; workers run 30 ms of pass A and 10 ms of pass B. A gets 7.5 ms, B 2.5 ms.
 *
 * Call in order of the stream: shares__add() for what workers did since the caller's last sample, then
 * shares__divide() for that sample. If the caller did not wait, the workers get nothing: the caller used its time
 * itself. Memory: SHARES_MAX rows of all callers, at most one for each sample of a worker. In a wait that needs more,
 * later work has no part: the time is divided among the earlier work. All zeroes is empty. One thread. */
#pragma once

#include "base/buf.h"

#define SHARES_MAX (1u << 20) /* a minute of 16 workers at 999 Hz */

struct share {
	uint64_t of;  /* what the time is for: an id that the user of this header chooses */
	uint64_t cpu; /* ns */
};
struct shares {
	struct buf callers; /* struct buf by caller: its struct share, in the order of arrival */
	struct buf divided; /* what shares__divide() returned last */
	uint32_t n;	    /* rows of all callers */
};

/* -ENOMEM. O(1). Callers are small numbers: memory is needed up to the largest. */
int shares__add(struct shares *shares, uint32_t caller, uint64_t of, uint64_t cpu);
/* Removes the caller's rows and returns them, *ret_n of them, with `cpu` replaced by the row's part of `time`. All
 * parts together are at most the CPU time that the rows had; the rest of `time` stays with the caller. The rows are
 * valid until the next call of any function here. */
const struct share *shares__divide(struct shares *shares, uint32_t caller, uint64_t time, uint32_t *ret_n);
void shares__free(struct shares *shares);
