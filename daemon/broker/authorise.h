/* SPDX-License-Identifier: MIT */
/* Who may look into a process: the kernel says it. A helper takes the client's
 * identity (uid, gid, groups, no capability) and opens /proc/PID/auxv, which asks
 * the kernel for PTRACE_MODE_READ as perf_event_open does. */
#ifndef CPROFD_BROKER_AUTHORISE_H
#define CPROFD_BROKER_AUTHORISE_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/helper.h"
#include "broker/process.h"

struct peer;

/* Those that decide here: SYS_PTRACE, PERFMON. */
#define IDENTITY_CAPABILITIES (1ull << CAP_SYS_PTRACE | 1ull << CAP_PERFMON)

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups;        /* supplementary; malloc'd */
	size_t n_groups;
	uint64_t capabilities; /* 1 << CAP_*, of those in IDENTITY_CAPABILITIES */
	uid_t payer;          /* whose limits count (owner.h) */
};

/* Of the other end of a connected AF_UNIX socket, as the kernel kept it, and as its process (struct peer) is now. */
int identity__of_socket(int fd, const struct peer *peer, struct identity *ret);
/* Of a user: its groups from the system's data base. */
int identity__of_user(uid_t uid, gid_t gid, const struct peer *peer, struct identity *ret);
/* Does the kernel let it look into every process? uid 0 with CAP_SYS_PTRACE: without, it is a user as others are. */
bool identity__may_all(const struct identity *identity);
/* Into the kernel: uid 0 with CAP_PERFMON. */
bool identity__may_kernel(const struct identity *identity);
void identity__free(struct identity *identity);
/* May both look into the same processes? The gid counts, and groups do where /proc is mounted with
 * hidepid. Who may look into all needs no groups. */
bool identity__same(const struct identity *a, const struct identity *b);

/* What is asked about a process beside its owner: what reading takes, what a debugger takes where Yama's rule is for those
 * whom it excepted (PR_SET_PTRACER), or nobody may (-EPERM, when the owner is right). */
enum ptrace_rule { PTRACE_RULE_READ, PTRACE_RULE_ATTACH, PTRACE_RULE_NEVER };

/* All in a helper (helper.h), which is late after two seconds: -ETIMEDOUT, -EBUSY. Errors beside these: -EACCES, -EPERM (the rule), -ESRCH,
 * -ESTALE. Who may look into all is not asked about. */

/* Opens the process and its image, as the broker, and asks about it; the caller goes on meanwhile. */
int authorise__begin(const struct identity *identity, pid_t pid, enum ptrace_rule rule, struct helper *ret);
int authorise__finish(struct helper *helper, struct process_fds *ret, struct process_stat *ret_stat);

/* May it be read, and is it still what is open here? */
int authorise__again(const struct identity *identity, pid_t pid, enum ptrace_rule rule, const struct process_fds *fds,
		     const struct process_stat *stat);

/* Which of these processes may be read: ret[i] is 0, or -errno; -ETIMEDOUT for those that the time did not suffice for. */
int authorise__many(const struct identity *identity, enum ptrace_rule rule, const pid_t *pids, size_t n, int *ret);

#endif
