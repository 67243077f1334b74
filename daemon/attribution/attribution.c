/* SPDX-License-Identifier: MIT */
/* The rules of attribution.h, over one struct for each thread. Events come in order of time: a tick, a thread that
 * left its CPU, one that was woken, a fork. Each may end what was decided before. */
#include "attribution/attribution.h"

#include <stddef.h>

#define HANDS_MAX 8u /* times that work is passed from worker to worker */

const char *attribution__name(enum attribution_how how)
{
#define NAME(id, name) [ATTRIBUTION_##id] = name,
	static const char *const names[] = {ATTRIBUTION_HOWS(NAME)};
#undef NAME
	return (unsigned)how < ATTRIBUTION_HOW_COUNT ? names[how] : "";
}

/* The lead that was valid at `time`, or NULL. */
static struct attribution_lead *lead_at(struct attribution_thread *worker, uint64_t time)
{
	uint32_t i, n = worker->n_leads < ATTRIBUTION_LEADS ? worker->n_leads : ATTRIBUTION_LEADS;

	for (i = 1; i <= n; i++)
		if (worker->leads[(worker->n_leads - i) % ATTRIBUTION_LEADS].time <= time)
			return &worker->leads[(worker->n_leads - i) % ATTRIBUTION_LEADS];
	return NULL;
}

static void add_lead(struct attribution_thread *worker, const struct attribution_lead *lead, uint64_t time)
{
	struct attribution_lead *to = &worker->leads[worker->n_leads++ % ATTRIBUTION_LEADS];

	*to = *lead;
	to->time = time;
}

void attribution__woken(struct attribution_thread *worker, struct attribution_thread *by, uint64_t time)
{
	struct attribution_lead lead = {.how = ATTRIBUTION_WOKEN};

	if (by && by->python) {
		lead.caller = by;
		lead.call = by->seen.time >= time && by->seen.outside ? by->seen.call : 0;
	} else {
		lead.via = by;
	}
	add_lead(worker, &lead, time);
}

/* Work that a worker passes on is for the same caller: follows `via` from worker to worker. */
static void follow(struct attribution_lead *lead)
{
	const struct attribution_lead *from = lead;

	if (lead->via && lead->via->python) { /* it was sampled with Python frames since */
		lead->caller = lead->via;
		lead->via = NULL;
		return;
	}
	for (uint32_t i = 0; from && from->via && i < HANDS_MAX; i++)
		from = lead_at(from->via, from->time);
	if (from == lead || !from || !from->caller)
		return;
	lead->caller = from->caller;
	lead->call = from->call;
	lead->how = from->how;
	lead->via = NULL;
}

void attribution__answered(const struct attribution_thread *waiter, struct attribution_thread *worker, uint64_t time)
{
	const struct attribution_lead *lead = lead_at(worker, UINT64_MAX);

	if (lead && lead->caller == waiter && lead->time < time)
		add_lead(worker, &(struct attribution_lead){.caller = lead->caller, .how = ATTRIBUTION_LIKELY}, time);
}

/* Has it not been sampled for so long that it must be off-CPU? */
static bool is_quiet(const struct attribution_group *group, const struct attribution_seen *seen, uint64_t now)
{
	return (seen->state == ATTRIBUTION_RUNS || seen->over) && now > seen->time && now - seen->time > group->quiet;
}

static bool may_wait(const struct attribution_group *group, const struct attribution_seen *seen, uint64_t now)
{
	return seen->call && seen->outside && ((seen->state == ATTRIBUTION_WAITS && !seen->over) || is_quiet(group, seen, now));
}

/* Of threads for which may_wait() is true: if context switches are recorded, one that is not seen waiting was only
 * preempted. */
static bool waits(const struct attribution_group *group, const struct attribution_seen *seen)
{
	return !group->switches || seen->state == ATTRIBUTION_WAITS;
}

/* Is the call that the lead names still running? *ret_unsettled: perhaps; its caller was not sampled since. */
static bool lead__holds(struct attribution_group *group, struct attribution_lead *lead, bool *ret_unsettled)
{
	const struct attribution_seen *seen;

	*ret_unsettled = false;
	if (!lead->caller)
		return false;
	seen = &lead->caller->seen;
	if (!lead->call) {
		/* The caller's next sample shows which call it is. If it is back in Python code by then, it did not
		 * wait. */
		*ret_unsettled = !seen->time || seen->time < lead->time;
		if (*ret_unsettled)
			return seen->outside || !seen->time;
		if (!seen->call || !seen->outside)
			return false;
		lead->call = seen->call;
	}
	return seen->call && group->inside(group, seen->call, lead->call);
}

struct attribution attribution__of(struct attribution_group *group, struct attribution_thread *worker, uint64_t now)
{
	struct attribution_lead *lead = lead_at(worker, now), only = {.time = now, .how = ATTRIBUTION_ONLY};
	bool before = false, likely = false, unsettled = false, later = false;
	uint32_t n = 0;

	if (lead) {
		follow(lead);
		before = lead->how == ATTRIBUTION_LIKELY;
	}
	if (lead && !before && lead__holds(group, lead, &unsettled))
		return (struct attribution){lead->caller, (enum attribution_how)lead->how};
	if (unsettled)
		return (struct attribution){NULL, ATTRIBUTION_UNKNOWN};
	for (struct attribution_thread *at = group->next(group, NULL); at; at = group->next(group, at)) {
		later |= at->seen.time > now;
		if (may_wait(group, &at->seen, now)) {
			likely |= before && at == lead->caller;
			only.caller = at;
			only.call = at->seen.call;
			n++;
		}
	}
	if (n == 1 && later) /* the question comes late: what each of them did at `now` is no longer known */
		n = 0;
	if (n == 1 && !waits(group, &only.caller->seen))
		n = 0;
	if (n > 1 && likely)
		return (struct attribution){lead->caller, ATTRIBUTION_LIKELY};
	if (lead && !before)
		lead->caller = NULL;
	if (lead && lead->via) /* it works for another worker's call, though not known which */
		return (struct attribution){n == 1 ? only.caller : NULL, n == 1 ? ATTRIBUTION_ONLY : ATTRIBUTION_UNKNOWN};
	if (n != 1)
		return (struct attribution){NULL, ATTRIBUTION_UNKNOWN};
	if (!lead)
		add_lead(worker, &only, now);
	else
		*lead = only;
	return (struct attribution){only.caller, ATTRIBUTION_ONLY};
}

struct attribution attribution__of_child(const struct attribution_group *group, struct attribution_thread *forker, uint64_t now)
{
	const struct attribution_seen *seen = forker ? &forker->seen : NULL;

	if (!seen)
		return (struct attribution){NULL, ATTRIBUTION_UNKNOWN};
	if (!seen->time || seen->time > now || (!seen->over && (seen->state == ATTRIBUTION_LISTENS || seen->state == ATTRIBUTION_WAITS)) || is_quiet(group, seen, now))
		return (struct attribution){forker, ATTRIBUTION_CHILD};
	return (struct attribution){NULL, ATTRIBUTION_UNKNOWN};
}
