/* SPDX-License-Identifier: MIT */
/* What the administrator of the machine lets users do, beyond what the kernel says of a process's owner: the rules of
 * /proc/sys/kernel/yama/ptrace_scope and perf_event_paranoid, which the kernel would ask of a debugger or of perf, and
 * `cprofd serve --allow`. Both files are read anew each time. */
#ifndef CPROFD_BROKER_POLICY_H
#define CPROFD_BROKER_POLICY_H

#include <stdbool.h>

#include "broker/authorise.h"
#include "broker/broker.h"

/* Once, before the first client. */
void policy__set(enum broker_allow allow);

/* May it record at all, or dump? OK, or why not. */
enum broker_error policy__of_client(const struct identity *client, bool dump);
/* What is asked about a process. `started`: a process of the client's started it. */
bool policy__asks_who_started(const struct identity *client);
enum ptrace_rule policy__of_process(const struct identity *client, bool started);

/* 0 to 3; 0 without Yama. */
int policy__ptrace_scope(void);
/* 2 when it cannot be read. */
int policy__perf_paranoid(void);
/* From here on the kernel lets no user open perf events (Debian, Ubuntu; elsewhere it is 2's rule, and what was meant). */
#define POLICY_NO_PERF 3
/* From here on no user sees the kernel's stacks. */
#define POLICY_NO_KERNEL 2

#endif
