/* SPDX-License-Identifier: MIT */
/* Division of waiting time among workers (shares.h): a list of rows, and one pass over it for each division. */
#include "units/shares.h"

#include <stdlib.h>

#include "base/array.h"

/* a sample is most often of the same kind as one of the last few: only these rows are searched */
#define ROWS_CHECKED 8u

int shares__add(struct shares *shares, uint32_t caller, uint64_t of, uint64_t cpu)
{
	uint32_t i, first = shares->n > ROWS_CHECKED ? shares->n - ROWS_CHECKED : 0;
	int err;

	for (i = shares->n; i-- > first;)
		/* A full table takes no new rows: the time goes to a recent row of the caller, whatever that
		 * is for, or is dropped. */
		if (shares->rows[i].caller == caller && (shares->rows[i].of == of || shares->n == SHARES_MAX)) {
			shares->rows[i].cpu += cpu;
			return 0;
		}
	if (shares->n == SHARES_MAX)
		return 0;
	err = array__reserve((void **)&shares->rows, sizeof(*shares->rows), shares->n, &shares->capacity);
	if (!err)
		shares->rows[shares->n++] = (struct share){caller, of, cpu};
	return err;
}

const struct share *shares__divide(struct shares *shares, uint32_t caller, uint64_t time, uint32_t *ret_n)
{
	uint64_t all = 0, given = 0, sum = 0, part;
	uint32_t i, kept = 0, end = shares->n;
	struct share row;

	*ret_n = 0;
	for (i = 0; i < shares->n; i++)
		all += shares->rows[i].caller == caller ? shares->rows[i].cpu : 0;
	if (!all)
		return NULL;
	time = time < all ? time : all;
	/* Partition: the caller's rows move behind all others. */
	for (i = 0; i < end;) {
		if (shares->rows[i].caller != caller) {
			i++;
			continue;
		}
		row = shares->rows[i];
		shares->rows[i] = shares->rows[--end];
		shares->rows[end] = row;
	}
	kept = end;
	/* Round the running sum, not each part: the parts then add up to `time` exactly. */
	for (i = kept; i < shares->n; i++) {
		sum += shares->rows[i].cpu;
		/* 128 bits: ns times ns overflows 64 after some seconds. */
		part = (uint64_t)((__uint128_t)time * sum / all);
		shares->rows[i].cpu = part - given;
		given = part;
	}
	*ret_n = shares->n - kept;
	shares->n = kept;
	return shares->rows + kept;
}

void shares__free(struct shares *shares)
{
	free(shares->rows);
	*shares = (struct shares){};
}
