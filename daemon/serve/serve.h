/* SPDX-License-Identifier: MIT */
/* Serve: the engine, the unprivileged half of cprofd. One process per client
 * identity (uid, gid, groups), started by the broker (daemon/broker/) at the other end of a channel.
 * It reads rings and the target's memory through fds that it was handed, and
 * everything hostile: records, Python's structures, requests.
 *
 * One thread, one epoll loop, nothing in it ever waits for a client or a target.
 * What a client can hold is bounded by the constants below.
 */
#ifndef CPROFD_SERVE_H
#define CPROFD_SERVE_H

#include <stddef.h>

#define SERVE_CLIENTS_MAX 64
#define SERVE_PROCESSES_MAX 1024        /* identified or being so, a session */
#define SERVE_REQUEST_MAX (64u << 10)   /* bytes of a request's line */
#define SERVE_QUEUE_MAX (8u << 20)      /* bytes of live events that wait for one client */
#define SERVE_MEMORY_MAX (256u << 20)   /* bytes that wait for all clients: beyond it nobody joins */
#define SERVE_RING_BYTES (4u << 20)     /* of each session: code objects and the life of processes */

/* Runs until the broker is gone, or until nothing is left to serve. `channel`
 * (SOCK_SEQPACKET, broker.h's messages) is the caller's to close. Needs no
 * capability and no file system; returns the exit status of the process. */
int engine__main(int channel);

/* The first line that a client gets. */
#define SERVE_HELLO_MAX 512
void serve__hello(char *ret, size_t size);

/* The same, as a program that the broker executed; does not return. */
void engine__execute(int argc, char **argv) __attribute__((noreturn));

#endif
