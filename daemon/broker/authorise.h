/* Who may look into a process: the kernel says it. A helper takes the client's
 * identity (uid, gid, groups, no capability) and opens /proc/PID/auxv, which asks
 * the kernel for PTRACE_MODE_READ as perf_event_open does. */
#ifndef CPROFD_BROKER_AUTHORISE_H
#define CPROFD_BROKER_AUTHORISE_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer;

/* Those that decide here: SYS_PTRACE, PERFMON. */
#define IDENTITY_CAPABILITIES (1ull << CAP_SYS_PTRACE | 1ull << CAP_PERFMON)

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups;        /* supplementary; malloc'd */
	size_t n_groups;
	uint64_t capabilities; /* 1 << CAP_*, of those in IDENTITY_CAPABILITIES */
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

/* The helper runs while the caller goes on; begin: 0 or -errno. finish waits for
 * it (two seconds at most): 0, -EACCES, -EPERM (the rule), -ESRCH, -ETIMEDOUT. Who may look into all needs no helper. */
struct authorisation {
	pid_t helper;
};
int authorise__begin(const struct identity *identity, pid_t pid, enum ptrace_rule rule, struct authorisation *ret);
int authorise__finish(struct authorisation *authorisation);

#endif
