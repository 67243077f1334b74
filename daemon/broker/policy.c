/* SPDX-License-Identifier: MIT */
/* The numbers of kernel.perf_event_paranoid and yama.ptrace_scope, and what they mean for a client of this daemon.
 * A file that is hidden (ProcSubset=pid, a container's mask) counts as one that allows users nothing: what the
 * administrator wrote there is not known. */
#include "broker/policy.h"

#include <stdio.h>

#include "base/file.h"

/* Documentation/admin-guide/LSM/Yama.rst */
enum { SCOPE_CLASSIC, SCOPE_RESTRICTED, SCOPE_ADMIN, SCOPE_NOBODY };

/* `cprofd serve --allow`. */
static enum broker_allow allowed;

/* Read each time: an administrator may change it while the daemon runs. */
int policy__number(const char *path, int otherwise)
{
	char text[64];
	int number;

	return file__text(path, text, sizeof(text)) > 0 && sscanf(text, "%d", &number) == 1 ? number : otherwise;
}

void policy__set(enum broker_allow allow)
{
	allowed = allow;
}

int policy__ptrace_scope(void)
{
	/* A kernel without Yama has no such directory, but others beside it. */
	bool hidden = access("/proc/sys/kernel/osrelease", F_OK) || !access("/proc/sys/kernel/yama", F_OK);

	return policy__number("/proc/sys/kernel/yama/ptrace_scope", hidden ? SCOPE_ADMIN : SCOPE_CLASSIC);
}

int policy__perf_paranoid(void)
{
	/* Each kernel with perf events has it. */
	return policy__number("/proc/sys/kernel/perf_event_paranoid", POLICY_NO_PERF);
}

enum broker_error policy__of_client(const struct identity *client, bool dump)
{
	if (allowed == BROKER_ALLOW_ROOT && !identity__may_all(client))
		return BROKER_ERROR_ONLY_ROOT;
	if (policy__ptrace_scope() >= SCOPE_NOBODY)
		return BROKER_ERROR_PTRACE_SCOPE;
	if (allowed == BROKER_ALLOW_OWN || dump || client->capabilities & 1ull << CAP_PERFMON)
		return BROKER_ERROR_OK;
	return policy__perf_paranoid() >= POLICY_NO_PERF ? BROKER_ERROR_PERF_PARANOID : BROKER_ERROR_OK;
}

enum ptrace_rule policy__of_process(const struct identity *client, bool started)
{
	int scope = policy__ptrace_scope();

	if (scope >= SCOPE_NOBODY)
		return PTRACE_RULE_NEVER;
	if (scope <= SCOPE_CLASSIC || allowed == BROKER_ALLOW_OWN || client->capabilities & 1ull << CAP_SYS_PTRACE)
		return PTRACE_RULE_READ;
	if (scope >= SCOPE_ADMIN)
		return PTRACE_RULE_NEVER;
	return started ? PTRACE_RULE_READ : PTRACE_RULE_ATTACH;
}
