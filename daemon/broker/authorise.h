/* SPDX-License-Identifier: MIT */
/* Who may read a process? The kernel decides. A helper takes the client's identity (uid, gid, groups, no capabilities)
 * and opens /proc/PID/auxv, for which the kernel checks PTRACE_MODE_READ, as perf_event_open(2) does.
 *
 * A yes has to be about the process that is sampled afterwards, not about another one that got its pid, and not about
 * another program that it executes. So each check ends with process__unchanged(), and session.c compares what the
 * sampler sees of the process before and after. */
#pragma once

#include <linux/capability.h>

#include "broker/helper.h"
#include "broker/process.h"

struct peer;

/* The capabilities that matter here. */
#define IDENTITY_CAPABILITIES (1ull << CAP_SYS_PTRACE | 1ull << CAP_PERFMON)

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups;        /* supplementary; malloc'd */
	size_t n_groups;
	uint64_t capabilities; /* 1 << CAP_*, within IDENTITY_CAPABILITIES */
	uid_t payer;          /* whose limits count (owner.h) */
};

/* The identity at the other end of a connected AF_UNIX socket, as the kernel recorded it at connect(), with the
 * capabilities that its process (struct peer) has now. */
int identity__of_socket(int fd, const struct peer *peer, struct identity *ret);
/* The identity of a user, with its groups from the user database. */
int identity__of_user(uid_t uid, gid_t gid, const struct peer *peer, struct identity *ret);
/* May it read every process? uid 0 with CAP_SYS_PTRACE; without, uid 0 is treated like any other user. */
bool identity__may_all(const struct identity *identity);
/* May it see kernel stacks? uid 0 with CAP_PERFMON. */
bool identity__may_kernel(const struct identity *identity);
void identity__free(struct identity *identity);
/* May both read the same processes? The gid matters, and the groups do if /proc is mounted with hidepid. Identities
 * that may read everything need no groups. */
bool identity__same(const struct identity *a, const struct identity *b);

/* What is checked besides the owner: READ: what reading needs; ATTACH: what a debugger needs, because Yama's rule
 * applies (also to processes that excepted somebody, PR_SET_PTRACER); NEVER: always refused (-EPERM, if the owner is
 * right). */
enum ptrace_rule { PTRACE_RULE_READ, PTRACE_RULE_ATTACH, PTRACE_RULE_NEVER };

/* All of these run in a helper (helper.h) with a limit of two seconds: -ETIMEDOUT, -EBUSY. Other errors: -EACCES,
 * -EPERM (the rule), -ESRCH, -ESTALE. Identities that may read everything are not checked. */

/* Opens the process and its image as the broker, and authorises; the caller can do other things meanwhile. */
int authorise__begin(const struct identity *identity, pid_t pid, enum ptrace_rule rule, struct helper *ret);
int authorise__finish(struct helper *helper, struct process_fds *ret, struct process_stat *ret_stat);

/* May it still be read, and is it still the process that these descriptors belong to? */
int authorise__again(const struct identity *identity, pid_t pid, enum ptrace_rule rule, const struct process_fds *fds,
		     const struct process_stat *stat);

/* Checks several processes: ret[i] is 0 or -errno; -ETIMEDOUT for those that there was no time for. */
int authorise__many(const struct identity *identity, enum ptrace_rule rule, const pid_t *pids, size_t n, int *ret);
