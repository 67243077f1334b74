/* SPDX-License-Identifier: MIT */
/* A client's end of the protocol (docs/protocol.md): the daemon's socket when it
 * answers, else a broker and an engine of our own at the end of a socketpair. */
#ifndef CPROFD_CLI_CONNECTION_H
#define CPROFD_CLI_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "cli/cli.h"

struct connection {
	int fd;            /* not blocking; -1: none */
	pid_t broker;      /* our own; 0: a daemon's */
	bool verbose;      /* waits for words that the broker still has */
	struct buf in;
	size_t consumed;   /* of in */
	bool ended;        /* the other end closed */
};
#define CONNECTION_NONE ((struct connection){.fd = -1})

/* The path that is meant, and whether somebody asked for it by name. */
const char *connection__socket_path(const struct cli_options *options, bool *ret_by_name);
/* Connects; -errno. */
int connection__connect_path(const char *path, int *ret_fd);

/* `pid`: what will be asked for, or 0: nothing. daemon_only: never start an engine. Refused with words of its own; CLI_*. */
int connection__open(const struct cli_options *options, pid_t pid, bool daemon_only, struct connection *ret);
void connection__close(struct connection *connection);

/* One request, without its newline. -errno. */
int connection__request(struct connection *connection, const char *request);
/* Reads what is there; waits up to timeout_ms for more when nothing is. 0, or
 * -errno; `ended` at the end. Before the first byte is read this process gives its rights up (user__drop). */
int connection__receive(struct connection *connection, int timeout_ms);
/* The next whole line, '\n' included: valid until the next receive. */
bool connection__line(struct connection *connection, const char **ret_line, size_t *ret_len);

/* Is this line an event of that name? Told by its first bytes, as the encoder writes it. */
bool line__is(const char *line, size_t len, const char *event);

#endif
