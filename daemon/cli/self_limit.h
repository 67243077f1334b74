/* SPDX-License-Identifier: MIT */
/* --self-limit: a continuous recording whose own CPU time passes a share of one CPU goes on at a lower rate, from its next file on, which
 * begins then. When there was little to do for long, the rate rises again.
 *
 * No I/O here: the caller brings times, so that hours are tested in no time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SELF_LIMIT_MS 15000u /* between measurements */

struct self_limit {
	double share;        /* of one CPU; 0: no limit */
	uint32_t asked;      /* rates, Hz: of the command line, */
	uint32_t rate;       /* and now */
	uint64_t asked_at;   /* ms: the last measurement was asked for */
	uint64_t at, cpu;    /* ns: the last one; at 0: there was none */
	unsigned calm;       /* measurements in a row that would allow twice the rate */
	bool least;          /* the lowest rate is still too much */
	double used;         /* of one CPU, between the last two */
};

/* Is it time to measure? True once in SELF_LIMIT_MS. */
bool self_limit__is_due(struct self_limit *limit, uint64_t now_ms);
/* At `now` all of cprofd's processes have used `cpu`. True: limit->rate, or limit->least, is new. */
bool self_limit__measured(struct self_limit *limit, uint64_t now, uint64_t cpu);
