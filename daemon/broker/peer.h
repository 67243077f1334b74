/* SPDX-License-Identifier: MIT */
/* The process at the other end of a client's connection. What it may do is read while it lives, and only from it. */
#pragma once

#include "broker/broker.h"

#define PEER_NAMED_MAX 16u

struct peer {
	pid_t pid;              /* which connected; 0: it has no pid in this namespace */
	int pidfd;              /* -1: it has ended */
	uint64_t capabilities;  /* 1 << CAP_*: effective ones; 0 if they cannot be read, or the process is in another
	                         * user namespace */
	uid_t payer;            /* whose limits count (owner.h) */
	enum broker_error unnamed; /* why it may not ask for any process; OK: it may */
	pid_t named[PEER_NAMED_MAX]; /* the pids that it names (peer__name), not checked */
	unsigned n_named;
};

/* The peer of a connected AF_UNIX socket. With SO_PEERPIDFD (Linux 6.5) it is the very process that connected;
 * before, it is the process that has its pid and uid now. If it has ended, that is no error: `unnamed` says it.
 * -errno. */
int peer__of_socket(int fd, struct peer *ret);
/* The parent, on whose behalf a broker without a daemon runs. */
int peer__of_parent(int fd, struct peer *ret);
/* For root's client, before it connects: names the processes that it will ask for. It binds `fd` to an abstract
 * address, which the broker gets from the kernel (getpeername):
 *   \0 c p r o f d \0, 16 random bytes, then 1 to 16 pids of 4 bytes each, in the machine's byte order.
 * -errno. */
int peer__name(int fd, const pid_t *pids, unsigned n);
void peer__free(struct peer *peer);
