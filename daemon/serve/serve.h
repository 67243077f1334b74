/* SPDX-License-Identifier: MIT */
/* Serve: the engine, the unprivileged half of cprofd. It connects all stages of the live half (docs/architecture.md):
 * records in, events out.
 *
 * One process per client identity (uid, gid, groups), started by the broker (daemon/broker/) at the other end of a
 * channel. It reads rings and the target's memory through descriptors that it was handed. All hostile input is parsed
 * here: records, Python's structures, ELF files, requests. That is why it has no privileges, and a sandbox (sandbox.h).
 *
 * One thread, one epoll loop; nothing in it ever waits for a client or a target. What a client can hold is bounded by
 * the constants below, what a user can by broker/limit.h. */
#pragma once

#include <stddef.h>

#define SERVE_CLIENTS_MAX 64
/* Processes of a session that are identified, or being identified. */
#define SERVE_PROCESSES_MAX 1024
#define SERVE_REQUEST_MAX (64u << 10)   /* bytes of a request's line */
/* Bytes of live events that wait for one client; beyond it events become a `gap`. */
#define SERVE_QUEUE_MAX (8u << 20)
/* Bytes that wait for all clients; beyond it nobody can join a session, since tables are replayed for each one
 * apart. */
#define SERVE_MEMORY_MAX (256u << 20)
/* Each session's ring for code objects and for the life of processes. Samples have rings of their own, one for each
 * CPU. */
#define SERVE_RING_BYTES (4u << 20)

/* Runs until the broker is gone, or until nothing is left to serve. `channel`
 * (SOCK_SEQPACKET, broker.h's messages) is the caller's to close. Needs no
 * capability and no file system; returns the exit status of the process. */
int engine__main(int channel);

/* The first line that each client gets: {"ev":"hello","major":1,"minor":...}. Also used by the broker, for clients that
 * get no engine. */
#define SERVE_HELLO_MAX 512
void serve__hello(char *ret, size_t size);

/* The same, as a program that the broker executed; does not return. */
void engine__execute(int argc, char **argv) __attribute__((noreturn));
