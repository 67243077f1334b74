/* SPDX-License-Identifier: MIT */
/* Giving up privileges for good, in engines, helpers and clients. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PRIVILEGES_NOBODY 65534u
/* The user that root's engine runs as; descriptors are all it needs. It is the system user of this name, if it
 * exists (systemd/cprofd.sysusers), because processes of nobody could stop each other; else nobody. Its group is
 * nobody's in both cases: members of the group `cprofd` may connect to the daemon. Looked up once; children inherit
 * the result. */
#define PRIVILEGES_USER "cprofd"
uid_t privileges__engine_of_root(void);

/* The capabilities that the broker keeps, without CAP_ (docs/privileges.md explains each). */
#define PRIVILEGES_BROKER(X) \
	X(BPF) X(PERFMON) X(SYS_PTRACE) X(CHECKPOINT_RESTORE) X(DAC_READ_SEARCH) X(SETUID) X(SETGID) X(SYSLOG) X(KILL) X(SETPCAP)

/* Becomes this user for good, without any capability: empty bounding and ambient sets, no_new_privs, not dumpable. A
 * process without privileges can only stay who it is. -EPERM: the uid or the capabilities could not be changed. */
int privileges__become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups);

/* Keeps the uid, and at most these capabilities (1 << CAP_*), for good: all others are dropped from the permitted,
 * inheritable, ambient and bounding sets, and no_new_privs is set. -errno. */
int privileges__keep(uint64_t capabilities);
/* The same with those of PRIVILEGES_BROKER, and CAP_SYS_ADMIN if this kernel requires it for perf events. */
int privileges__keep_broker(void);
