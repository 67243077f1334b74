/* SPDX-License-Identifier: MIT */
#include "cli/self_limit.h"


#define AIM 0.8       /* of the limit: what a lower rate should take */
#define CALM 20u      /* measurements: five minutes */
#define CALM_SHARE 0.4 /* of the limit: twice the rate stays below it */

bool self_limit__is_due(struct self_limit *limit, uint64_t now_ms)
{
	const bool first = !limit->asked_at; /* what the start took, reading symbols above all, does not count */

	if (limit->share <= 0 || (!first && now_ms - limit->asked_at < SELF_LIMIT_MS))
		return false;
	limit->asked_at = now_ms;
	return !first;
}

static void lower(struct self_limit *limit)
{
	double rate = limit->rate * limit->share / limit->used * AIM;

	limit->rate = rate < 1 ? 1 : (uint32_t)rate;
}

static void raise(struct self_limit *limit)
{
	limit->rate = limit->rate > limit->asked / 2 ? limit->asked : 2 * limit->rate;
	limit->calm = 0;
}

bool self_limit__measured(struct self_limit *limit, uint64_t now, uint64_t cpu)
{
	const uint64_t at = limit->at, before = limit->cpu;
	const uint32_t rate = limit->rate;
	const bool least = limit->least;

	limit->at = now;
	limit->cpu = cpu;
	/* Less than before: another engine answers. */
	if (!at || now <= at || cpu < before)
		return false;
	limit->used = (double)(cpu - before) / (double)(now - at);
	limit->calm = limit->used < limit->share * CALM_SHARE ? limit->calm + 1 : 0;
	limit->least = rate == 1 && limit->used > limit->share;
	if (limit->used > limit->share)
		lower(limit);
	else if (limit->calm >= CALM && rate < limit->asked)
		raise(limit);
	if (limit->rate != rate)
		limit->at = 0; /* what the change itself costs does not count */
	return limit->rate != rate || (limit->least && !least);
}
