#include "credit/credit.h"

#include <stddef.h>

const char *credit__name(enum credit_how how)
{
#define NAME(id, name) [CREDIT_##id] = name,
	static const char *const names[] = {CREDIT_HOWS(NAME)};
#undef NAME
	return (unsigned)how < CREDIT_HOW_COUNT ? names[how] : "";
}

void credit__woken(struct credit_thread *worker, const struct credit_thread *by, uint64_t time)
{
	if (by && by->seen.call)
		worker->lead = (struct credit_lead){
			(struct credit_thread *)by, time, by->seen.time >= time && by->seen.outside ? by->seen.call : 0, CREDIT_WOKEN};
	else if (by)
		worker->lead = by->lead; /* who hands on work hands on what it is for */
	else
		worker->lead = (struct credit_lead){};
}

void credit__answered(struct credit_thread *waiter, struct credit_thread *worker)
{
	if (worker->lead.caller == waiter)
		worker->lead = (struct credit_lead){};
}

/* Was it not met for so long that it has no CPU? */
static bool is_quiet(const struct credit_group *group, const struct credit_seen *seen, uint64_t now)
{
	return (seen->state == CREDIT_RUNS || seen->over) && now > seen->time && now - seen->time > group->quiet;
}

static bool waits(const struct credit_group *group, const struct credit_seen *seen, uint64_t now)
{
	if (!seen->call || !seen->outside)
		return false;
	return (seen->state == CREDIT_WAITS && !seen->over) || is_quiet(group, seen, now);
}

/* Does the call that it works for go on? */
static bool lead__holds(struct credit_group *group, struct credit_lead *lead)
{
	const struct credit_seen *seen;

	if (!lead->caller)
		return false;
	seen = &lead->caller->seen;
	if (!lead->call) {
		/* Which one it is shows where the caller is met next. If it is back in Python by then, it has not waited. */
		if (seen->time < lead->time)
			return seen->call != 0;
		if (!seen->call || !seen->outside)
			return false;
		lead->call = seen->call;
	}
	return seen->call && group->inside(group, seen->call, lead->call);
}

struct credit credit__of(struct credit_group *group, struct credit_thread *worker, uint64_t now)
{
	struct credit_thread *at, *found = NULL;
	uint32_t n = 0;

	if (lead__holds(group, &worker->lead))
		return (struct credit){worker->lead.caller, (enum credit_how)worker->lead.how};
	worker->lead = (struct credit_lead){};
	for (at = group->next(group, NULL); at; at = group->next(group, at))
		if (waits(group, &at->seen, now)) {
			found = at;
			n++;
		}
	if (n != 1)
		return (struct credit){NULL, CREDIT_UNKNOWN};
	worker->lead = (struct credit_lead){found, now, found->seen.call, CREDIT_ONLY};
	return (struct credit){found, CREDIT_ONLY};
}

struct credit credit__of_child(const struct credit_group *group, struct credit_thread *forker, uint64_t now)
{
	const struct credit_seen *seen = forker ? &forker->seen : NULL;

	if (!seen || !seen->call)
		return (struct credit){NULL, CREDIT_UNKNOWN};
	if ((!seen->over && (seen->state == CREDIT_LISTENS || seen->state == CREDIT_WAITS)) || is_quiet(group, seen, now))
		return (struct credit){forker, CREDIT_CHILD};
	return (struct credit){NULL, CREDIT_UNKNOWN};
}
