/* SPDX-License-Identifier: MIT */
/* The directory in which an engine keeps unwind tables from session to session. Whoever may write there
 * chooses what stacks look like. So it lies in a folder that only root may enter, for each client: an engine
 * has it by its descriptor alone, and nobody else who runs as `nobody`, or as that user, comes to it.
 *
 *   $CACHE_DIRECTORY or /var/cache/cprofd    root, 0755
 *     UID of the client                      root, 0700
 *       tables                               the engine's, 0700
 */
#ifndef CPROFD_BROKER_CACHE_H
#define CPROFD_BROKER_CACHE_H

#include <sys/types.h>

/* A descriptor, the caller's, or -errno: there is none (a read-only /var, a broker that is not root). */
int cache__open(uid_t client, uid_t engine);

#endif
