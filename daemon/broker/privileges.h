/* SPDX-License-Identifier: MIT */
/* Leaving privileges for good: of engines, helpers and clients. */
#ifndef CPROFD_BROKER_PRIVILEGES_H
#define CPROFD_BROKER_PRIVILEGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PRIVILEGES_NOBODY 65534u
/* Whom an engine of uid 0 runs as, as fds are all it needs: the system user of this name where there is one
 * (systemd/cprofd.sysusers), as other processes of nobody could stop it; else nobody. Its group is nobody's in both
 * cases: the group of that name is of those who may connect. Looked up once; children know it. */
#define PRIVILEGES_USER "cprofd"
uid_t privileges__engine_of_root(void);

/* What the broker keeps (docs/privileges.md says for what each is): name, without CAP_. */
#define PRIVILEGES_BROKER(X) \
	X(BPF) X(PERFMON) X(SYS_PTRACE) X(CHECKPOINT_RESTORE) X(DAC_READ_SEARCH) X(SETUID) X(SETGID) X(SYSLOG) X(KILL) X(SETPCAP)

/* Becomes this user without any capability, for good: bounding and ambient sets
 * empty, no_new_privs, not dumpable. Who has no privilege to begin with can only
 * stay who they are. -EPERM: still somebody else, or still capable. */
int privileges__become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups);

/* Stays who it is with at most these capabilities (1 << CAP_*), for good: what else the permitted, inheritable, ambient
 * and bounding sets hold is dropped, and no_new_privs set. -errno. */
int privileges__keep(uint64_t capabilities);
/* The same with those of PRIVILEGES_BROKER, and with CAP_SYS_ADMIN where the kernel gives nobody else perf events. */
int privileges__keep_broker(void);

#endif
