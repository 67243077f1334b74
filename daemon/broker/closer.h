/* SPDX-License-Identifier: MIT */
/* Closes connections of clients. A client may have sent descriptors along that nobody received: what is closed last is closed with them. A TCP
 * socket of theirs may linger, and a file system may not answer. So other threads do it; those that are held hold nothing but their own. */
#ifndef CPROFD_BROKER_CLOSER_H
#define CPROFD_BROKER_CLOSER_H

void closer__close(int fd);

#endif
