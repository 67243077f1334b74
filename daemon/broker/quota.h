/* SPDX-License-Identifier: MIT */
/* Who holds how much (limit.h says how much they may). A charge is what one engine or one session holds: it is given back as a whole, so that nothing
 * stays counted. Threads: the broker's one. */
#ifndef CPROFD_BROKER_QUOTA_H
#define CPROFD_BROKER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/limit.h"

struct quota_user;

struct charge {
	struct quota_user *user;     /* NULL: nobody is charged */
	uint64_t taken[LIMIT_COUNT];
	bool refused;
	struct limit_met met;        /* then: why */
};

/* NULL: there are no limits. Descriptors: those of the process are kept in mind, too. */
void quota__set(const struct broker_limits *limits);
/* Of this user. -ENOMEM. */
int charge__begin(struct charge *charge, uid_t payer);
/* Of the same user as another one. */
void charge__begin_like(struct charge *charge, const struct charge *other);
/* -EDQUOT: `met` is filled. */
int charge__take(struct charge *charge, enum broker_limit limit, uint64_t amount);
/* Half of what the user has left; *ret 0: there is no limit. -EDQUOT: it is less than `least`. */
int charge__take_half(struct charge *charge, enum broker_limit limit, uint64_t least, uint64_t *ret);
void charge__give(struct charge *charge, enum broker_limit limit, uint64_t amount);
/* Gives all back. One that never began is fine. */
void charge__end(struct charge *charge);

#endif
