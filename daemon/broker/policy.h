/* SPDX-License-Identifier: MIT */
/* What the administrator allows users, in addition to the kernel's check of a process's owner:
 * kernel.yama.ptrace_scope and perf_event_paranoid, which the kernel would apply to a debugger or to perf, and
 * `cprofd serve --allow`. Both files are read each time. */
#pragma once

#include "broker/authorise.h"
#include "broker/broker.h"

/* Call it once, before the first client. */
void policy__set(enum broker_allow allow);

/* May the client record (or dump) at all? OK, or the reason why not. */
enum broker_error policy__of_client(const struct identity *client, bool dump);
/* What must be checked for a process. `started`: the client started it; only PTRACE_RULE_ATTACH is another rule
 * then. */
enum ptrace_rule policy__of_process(const struct identity *client, bool started);

/* 0 to 3; 0 if the kernel has no Yama, 2 (CAP_SYS_PTRACE is needed) if the setting is hidden. */
int policy__ptrace_scope(void);
/* The number in a file of /proc/sys. */
int policy__number(const char *path, int otherwise);
/* POLICY_NO_PERF if it is hidden. */
int policy__perf_paranoid(void);
/* From this value on, the kernel lets no user open perf events (Debian, Ubuntu; other kernels treat it like 2, but
 * this is what was meant). */
#define POLICY_NO_PERF 3
/* From this value on, users see no kernel stacks. */
#define POLICY_NO_KERNEL 2
