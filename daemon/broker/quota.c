/* SPDX-License-Identifier: MIT */
/* One row for each user who holds something, with the sums of all of that user's charges; a row goes away with its
 * last charge. Who has no row (root, or anybody while there are no limits) is not counted. */
#include "broker/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

struct quota_user {
	struct quota_user *next;
	uid_t uid;
	/* Charges that exist for this user; with the last one, the row goes. */
	unsigned charges;
	uint64_t used[LIMIT_COUNT];
};

/* All of the accounts. `on` false: there are no limits, and no user has a row. */
static struct {
	bool on;
	struct broker_limits limits;
	struct quota_user *users;
	uint64_t used[LIMIT_COUNT];
} quota;

/* Leaves half of the process's descriptors for what is not counted: engines, connections, and root's sessions. */
static void bound_descriptors(struct broker_limits *limits)
{
	struct rlimit limit;
	uint64_t most;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return;
	most = limit.rlim_cur / 2;
	if (!limits->all[LIMIT_DESCRIPTORS] || limits->all[LIMIT_DESCRIPTORS] > most)
		limits->all[LIMIT_DESCRIPTORS] = most;
	if (!limits->user[LIMIT_DESCRIPTORS] || limits->user[LIMIT_DESCRIPTORS] > most / 2)
		limits->user[LIMIT_DESCRIPTORS] = most / 2;
}

void quota__set(const struct broker_limits *limits)
{
	quota.on = limits;
	if (!limits)
		return;
	quota.limits = *limits;
	bound_descriptors(&quota.limits);
}

int charge__begin(struct charge *charge, uid_t payer)
{
	struct quota_user *user = quota.users;

	*charge = (struct charge){};
	if (!quota.on)
		return 0;
	while (user && user->uid != payer)
		user = user->next;
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return -ENOMEM;
		user->uid = payer;
		user->next = quota.users;
		quota.users = user;
	}
	user->charges++;
	charge->user = user;
	return 0;
}

void charge__begin_like(struct charge *charge, const struct charge *other)
{
	*charge = (struct charge){.user = other->user};
	if (charge->user)
		charge->user->charges++;
}

static int refuse(struct charge *charge, enum broker_limit limit, bool all, uint64_t most, uint64_t used)
{
	charge->refused = true;
	charge->reached = (struct limit_reached){.limit = limit, .all = all, .most = most, .used = used};
	return -EDQUOT;
}

/* most 0: no limit. Written so that no sum can overflow: `amount` comes from requests. */
static bool is_over(uint64_t used, uint64_t amount, uint64_t most)
{
	return most && (used > most || amount > most - used);
}

/* Both limits are checked before anything is changed: on an error nothing is taken. */
int charge__take(struct charge *charge, enum broker_limit limit, uint64_t amount)
{
	const struct broker_limits *limits = &quota.limits;
	struct quota_user *user = charge->user;

	if (!user)
		return 0;
	if (is_over(user->used[limit], amount, limits->user[limit]))
		return refuse(charge, limit, false, limits->user[limit], user->used[limit]);
	if (is_over(quota.used[limit], amount, limits->all[limit]))
		return refuse(charge, limit, true, limits->all[limit], quota.used[limit]);
	user->used[limit] += amount;
	quota.used[limit] += amount;
	charge->taken[limit] += amount;
	return 0;
}

/* Half, so that a later engine of the same user has something left, too; it gets a quarter, and so on down to
 * `least`. */
int charge__take_half(struct charge *charge, enum broker_limit limit, uint64_t least, uint64_t *ret)
{
	struct quota_user *user = charge->user;
	uint64_t most = quota.limits.user[limit];

	*ret = 0;
	if (!user || !most)
		return 0;
	*ret = (most - user->used[limit]) / 2;
	return *ret < least ? refuse(charge, limit, false, most, user->used[limit]) : charge__take(charge, limit, *ret);
}

void charge__give(struct charge *charge, enum broker_limit limit, uint64_t amount)
{
	if (!charge->user)
		return;
	charge->taken[limit] -= amount;
	charge->user->used[limit] -= amount;
	quota.used[limit] -= amount;
}

static void remove_user(struct quota_user *user)
{
	struct quota_user **at = &quota.users;

	while (*at != user)
		at = &(*at)->next;
	*at = user->next;
	free(user);
}

/* May be called twice: the user is gone from it then. */
void charge__end(struct charge *charge)
{
	for (int i = 0; i < LIMIT_COUNT; i++)
		charge__give(charge, i, charge->taken[i]);
	if (charge->user && !--charge->user->charges)
		remove_user(charge->user);
	charge->user = NULL;
}
