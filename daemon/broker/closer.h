/* SPDX-License-Identifier: MIT */
/* Closes connections of clients. A client may have sent descriptors that nobody received: the kernel closes them
 * together with the connection, which may block, and not even SIGKILL ends that (a TCP socket with SO_LINGER, a file
 * system that does not answer). So the broker is never the last one that has a connection. A process of its own is,
 * whose threads close it, with so many of them for each user that nobody waits for another user's. */
#pragma once

#include <sys/types.h>

#define CLOSER_NOBODY ((uid_t)-1)

/* Starts the process; until then, and where it cannot be started, connections are closed at once. -errno. */
int closer__begin(void);
/* `payer`: whose connection it is (owner.h), or CLOSER_NOBODY. */
void closer__close(int fd, uid_t payer);
