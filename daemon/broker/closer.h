/* SPDX-License-Identifier: MIT */
/* Closes connections of clients. A client may have sent descriptors that nobody received: the kernel closes them with the connection,
 * which may block (a lingering TCP socket, a file system that does not answer). So threads do it; a blocked one delays nobody. */
#ifndef CPROFD_BROKER_CLOSER_H
#define CPROFD_BROKER_CLOSER_H

void closer__close(int fd);

#endif
