/* SPDX-License-Identifier: MIT */
/* Division of waiting time among workers (shares.h): a list of rows for each caller. */
#include "units/shares.h"

#include <errno.h>

/* a sample is most often of the same kind as one of the last few: only these rows are searched */
#define ROWS_CHECKED 8u

int shares__add(struct shares *shares, uint32_t caller, uint64_t of, uint64_t cpu)
{
	const struct share fresh = {of, cpu};
	struct buf *rows = buf__at(&shares->callers, sizeof(*rows), caller);
	uint32_t i, n, first;

	if (!rows)
		return -ENOMEM;
	n = LENGTH(*rows, struct share);
	first = n > ROWS_CHECKED ? n - ROWS_CHECKED : 0;
	for (i = n; i-- > first;)
		if (ITEM(*rows, struct share, i).of == of) {
			ITEM(*rows, struct share, i).cpu += cpu;
			return 0;
		}
	if (shares->n == SHARES_MAX)
		return 0;
	shares->n++;
	return buf__append(rows, &fresh, sizeof(fresh));
}

const struct share *shares__divide(struct shares *shares, uint32_t caller, uint64_t time, uint32_t *ret_n)
{
	struct buf *rows = caller < LENGTH(shares->callers, struct buf) ? &ITEM(shares->callers, struct buf, caller) : NULL;
	uint64_t all = 0, given = 0, sum = 0, part;
	struct share *share;

	*ret_n = 0;
	if (!rows || !rows->len)
		return NULL;
	buf__free(&shares->divided);
	shares->divided = *rows;
	*rows = (struct buf){};
	share = (struct share *)shares->divided.data;
	*ret_n = LENGTH(shares->divided, struct share);
	shares->n -= *ret_n;
	for (uint32_t i = 0; i < *ret_n; i++)
		all += share[i].cpu;
	time = time < all ? time : all;
	/* Round the running sum, not each part: the parts then add up to `time` exactly. */
	for (uint32_t i = 0; i < *ret_n; i++) {
		sum += share[i].cpu;
		/* 128 bits: ns times ns overflows 64 after some seconds. */
		part = all ? (uint64_t)((__uint128_t)time * sum / all) : 0;
		share[i].cpu = part - given;
		given = part;
	}
	return share;
}

void shares__free(struct shares *shares)
{
	for (uint32_t i = 0; i < LENGTH(shares->callers, struct buf); i++)
		buf__free(&ITEM(shares->callers, struct buf, i));
	buf__free(&shares->callers);
	buf__free(&shares->divided);
	*shares = (struct shares){};
}
