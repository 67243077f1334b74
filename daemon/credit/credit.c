#include "credit/credit.h"

#include <stddef.h>

#define HANDS_MAX 8u /* from worker to worker */

const char *credit__name(enum credit_how how)
{
#define NAME(id, name) [CREDIT_##id] = name,
	static const char *const names[] = {CREDIT_HOWS(NAME)};
#undef NAME
	return (unsigned)how < CREDIT_HOW_COUNT ? names[how] : "";
}

/* What it was at then. */
static struct credit_lead *lead_at(struct credit_thread *worker, uint64_t time)
{
	uint32_t i, n = worker->n_leads < CREDIT_LEADS ? worker->n_leads : CREDIT_LEADS;

	for (i = 1; i <= n; i++)
		if (worker->leads[(worker->n_leads - i) % CREDIT_LEADS].time <= time)
			return &worker->leads[(worker->n_leads - i) % CREDIT_LEADS];
	return NULL;
}

static void add_lead(struct credit_thread *worker, const struct credit_lead *lead, uint64_t time)
{
	struct credit_lead *to = &worker->leads[worker->n_leads++ % CREDIT_LEADS];

	*to = *lead;
	to->time = time;
}

void credit__woken(struct credit_thread *worker, struct credit_thread *by, uint64_t time)
{
	struct credit_lead lead = {.how = CREDIT_WOKEN};

	if (by && by->python) {
		lead.caller = by;
		lead.call = by->seen.time >= time && by->seen.outside ? by->seen.call : 0;
	} else {
		lead.via = by;
	}
	add_lead(worker, &lead, time);
}

/* Who hands on work hands on what it is for. */
static void follow(struct credit_lead *lead)
{
	const struct credit_lead *from = lead;
	uint32_t i;

	if (lead->via && lead->via->python) { /* as it turned out */
		lead->caller = lead->via;
		lead->via = NULL;
		return;
	}
	for (i = 0; from && from->via && i < HANDS_MAX; i++)
		from = lead_at(from->via, from->time);
	if (from == lead || !from || !from->caller)
		return;
	lead->caller = from->caller;
	lead->call = from->call;
	lead->how = from->how;
	lead->via = NULL;
}

void credit__answered(const struct credit_thread *waiter, struct credit_thread *worker, uint64_t time)
{
	const struct credit_lead *lead = lead_at(worker, UINT64_MAX);

	if (lead && lead->caller == waiter && lead->time < time)
		add_lead(worker, &(struct credit_lead){.caller = lead->caller, .how = CREDIT_LIKELY}, time);
}

/* Was it not met for so long that it has no CPU? */
static bool is_quiet(const struct credit_group *group, const struct credit_seen *seen, uint64_t now)
{
	return (seen->state == CREDIT_RUNS || seen->over) && now > seen->time && now - seen->time > group->quiet;
}

static bool may_wait(const struct credit_group *group, const struct credit_seen *seen, uint64_t now)
{
	return seen->call && seen->outside && ((seen->state == CREDIT_WAITS && !seen->over) || is_quiet(group, seen, now));
}

/* Of threads that may: where switches are looked at, others were preempted. */
static bool waits(const struct credit_group *group, const struct credit_seen *seen)
{
	return !group->switches || seen->state == CREDIT_WAITS;
}

/* Does the call that it works for go on? *ret_unsettled: it may, but its caller was not met since. */
static bool lead__holds(struct credit_group *group, struct credit_lead *lead, bool *ret_unsettled)
{
	const struct credit_seen *seen;

	*ret_unsettled = false;
	if (!lead->caller)
		return false;
	seen = &lead->caller->seen;
	if (!lead->call) {
		/* Which one it is shows where the caller is met next. If it is back in Python by then, it has not waited. */
		*ret_unsettled = !seen->time || seen->time < lead->time;
		if (*ret_unsettled)
			return seen->outside || !seen->time;
		if (!seen->call || !seen->outside)
			return false;
		lead->call = seen->call;
	}
	return seen->call && group->inside(group, seen->call, lead->call);
}

struct credit credit__of(struct credit_group *group, struct credit_thread *worker, uint64_t now)
{
	struct credit_lead *lead = lead_at(worker, now), only = {.time = now, .how = CREDIT_ONLY};
	bool before = false, likely = false, unsettled = false, later = false;
	struct credit_thread *at;
	uint32_t n = 0;

	if (lead) {
		follow(lead);
		before = lead->how == CREDIT_LIKELY;
	}
	if (lead && !before && lead__holds(group, lead, &unsettled))
		return (struct credit){lead->caller, (enum credit_how)lead->how};
	if (unsettled)
		return (struct credit){NULL, CREDIT_UNKNOWN};
	for (at = group->next(group, NULL); at; at = group->next(group, at)) {
		later |= at->seen.time > now;
		if (may_wait(group, &at->seen, now)) {
			likely |= before && at == lead->caller;
			only.caller = at;
			only.call = at->seen.call;
			n++;
		}
	}
	if (n == 1 && later) /* asked late: what each of them did then is not known any more */
		n = 0;
	if (n == 1 && !waits(group, &only.caller->seen))
		n = 0;
	if (n > 1 && likely)
		return (struct credit){lead->caller, CREDIT_LIKELY};
	if (lead && !before)
		lead->caller = NULL;
	if (lead && lead->via) /* it is known that it works for somebody's */
		return (struct credit){n == 1 ? only.caller : NULL, n == 1 ? CREDIT_ONLY : CREDIT_UNKNOWN};
	if (n != 1)
		return (struct credit){NULL, CREDIT_UNKNOWN};
	if (!lead)
		add_lead(worker, &only, now);
	else
		*lead = only;
	return (struct credit){only.caller, CREDIT_ONLY};
}

struct credit credit__of_child(const struct credit_group *group, struct credit_thread *forker, uint64_t now)
{
	const struct credit_seen *seen = forker ? &forker->seen : NULL;

	if (!seen)
		return (struct credit){NULL, CREDIT_UNKNOWN};
	if (!seen->time || seen->time > now || (!seen->over && (seen->state == CREDIT_LISTENS || seen->state == CREDIT_WAITS)) || is_quiet(group, seen, now))
		return (struct credit){forker, CREDIT_CHILD};
	return (struct credit){NULL, CREDIT_UNKNOWN};
}
