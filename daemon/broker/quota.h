/* SPDX-License-Identifier: MIT */
/* Accounts of what each user holds; limit.h says how much is allowed. A charge is what one engine or one session
 * holds. It is released as a whole, so nothing stays counted by mistake. Threads: the broker's only one. */
#pragma once

#include <sys/types.h>

#include "broker/limit.h"

struct quota_user;

/* What one engine or session holds of its user's limits. */
struct charge {
	struct quota_user *user;     /* NULL: nothing is counted */
	uint64_t taken[LIMIT_COUNT];
	bool refused;
	struct limit_reached reached;        /* why, if `refused` */
};

/* NULL: no limits. The limit on descriptors is at most half of the broker's RLIMIT_NOFILE. */
void quota__set(const struct broker_limits *limits);
/* Starts an empty charge of this user. -ENOMEM. */
int charge__begin(struct charge *charge, uid_t payer);
/* Starts an empty charge of the same user as `other`. */
void charge__begin_like(struct charge *charge, const struct charge *other);
/* -EDQUOT: over the limit, and `reached` says which. */
int charge__take(struct charge *charge, enum broker_limit limit, uint64_t amount);
/* Takes half of what the user has left. *ret 0: there is no limit. -EDQUOT: the half is less than `least`. */
int charge__take_half(struct charge *charge, enum broker_limit limit, uint64_t least, uint64_t *ret);
void charge__give(struct charge *charge, enum broker_limit limit, uint64_t amount);
/* Releases everything. A zeroed charge, never begun, is fine. */
void charge__end(struct charge *charge);
