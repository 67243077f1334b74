/* SPDX-License-Identifier: MIT */
/* The process at the other end of a client's connection: what it may do is read while it lives, and of it alone. */
#ifndef CPROFD_BROKER_PEER_H
#define CPROFD_BROKER_PEER_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/broker.h"

#define PEER_NAMED_MAX 16u

struct peer {
	pid_t pid;              /* that connected; 0: it has no id here */
	int pidfd;              /* -1: none, it has ended */
	uint64_t capabilities;  /* 1 << CAP_*: its effective ones where the broker has its own, in the same user
	                         * namespace. 0 when that cannot be told */
	uid_t payer;            /* whose limits count (owner.h) */
	enum broker_error unnamed; /* why it may name no process */
	pid_t named[PEER_NAMED_MAX]; /* what it names (peer__name), whatever these are */
	unsigned n_named;
};

/* Of a connected AF_UNIX socket. By SO_PEERPIDFD (Linux 6.5) it is the very process that connected; before, the one that
 * has its id and its uid now. One that ended is an answer, too: `unnamed` says it. -errno. */
int peer__of_socket(int fd, struct peer *ret);
/* Of the process whose rights a broker of its own has. */
int peer__of_parent(int fd, struct peer *ret);
/* The client's side, root's: names the processes that will be asked for, before `fd` is connected. Its own address says
 * it, which the broker has from the kernel (getpeername): abstract, sun_path being
 *   \0 c p r o f d \0, 16 bytes that are nobody else's, then 1 to 16 pids of 4 bytes each, as the machine has them.
 * -errno. */
int peer__name(int fd, const pid_t *pids, unsigned n);
void peer__free(struct peer *peer);

#endif
