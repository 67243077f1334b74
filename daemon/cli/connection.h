/* SPDX-License-Identifier: MIT */
/* The client's end of the protocol (docs/protocol.md): a connection to the daemon, or else to a broker and an engine
 * of our own, over a socketpair. */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "base/buf.h"
#include "cli/cli.h"

/* A connection, from connection__open() to connection__close(). One thread. CONNECTION_NONE may be closed. */
struct connection {
	int fd;            /* not blocking; -1: none */
	pid_t broker;      /* our own; 0: a daemon's */
	/* received and not yet consumed: complete lines first, then the beginning of one; owned */
	struct buf in;
	size_t consumed;   /* bytes of `in` that were returned as lines */
	bool ended;        /* the other end closed */
};
#define CONNECTION_NONE ((struct connection){.fd = -1})

/* The socket's path (option, environment or default); *ret_by_name: the user chose it. */
const char *connection__socket_path(const struct cli_options *options, bool *ret_by_name);
/* Connects; -errno. -ETIMEDOUT: somebody listens, but accepts no connection (its backlog is full). The descriptor is the
 * caller's. */
int connection__connect_path(const char *path, int *ret_fd);

/* `pid`: the process that will be requested, or 0. daemon_only: never start an engine. Prints its own errors; CLI_*. */
int connection__open(const struct cli_options *options, pid_t pid, bool daemon_only, struct connection *ret);
/* With a broker of our own, waits for it to end, and so for the end of its engine and their last messages. */
void connection__close(struct connection *connection);

/* One request, without its newline. -errno. */
int connection__request(struct connection *connection, const char *request);
/* Reads what has arrived; if nothing has, waits up to timeout_ms. 0 or -errno; sets `ended` at the end of the
 * stream. Before the first byte is read, this process gives up root (user__drop). */
int connection__receive(struct connection *connection, int timeout_ms);
/* For one who waits for an answer: if nothing arrives in time, -ETIMEDOUT. */
int connection__await(struct connection *connection, int timeout_ms);
/* The next complete line, '\n' included: valid until the next receive. */
bool connection__line(struct connection *connection, const char **ret_line, size_t *ret_len);

/* Sends a request that is answered at once, and waits for its answer, the first that comes; the caller's. NULL: there was none, which
 * was said. */
json_t *connection__ask(struct connection *connection, const char *request);

/* A line of an answer, parsed; flags: as of json__load(). NULL: it cannot be read, which was said. */
json_t *line__read(const char *line, size_t len, size_t flags);

/* Is this line an event of that name? Compares only its first bytes, which the encoder always writes the same way. */
bool line__is(const char *line, size_t len, const char *event);

/* --- user_rules.c --- */
/* --rules for commands that attach: files are read once, with the calling user's rights, because root is given up
 * later; checked here, so that errors are found before anything starts; and sent before the request `attach`. */
#define USER_RULES_ID 3 /* id of the requests `rules` */

/* Adds the rules of `path` to `rules`: -errno, with *ret_error filled in. */
int user_rules__parse(const char *path, struct rules *rules, struct rules_error *ret_error);

/* Before anything is opened: checks the files. CLI_*; an error was already printed. path NULL: no rules. */
int user_rules__judge(const char *path);
/* Sends the files to the engine. -errno. */
int user_rules__send(struct connection *connection, const char *path);
