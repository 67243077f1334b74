/* SPDX-License-Identifier: MIT */
/* The directory in which an engine keeps unwind tables between sessions. Whoever can write there decides what stacks
 * look like. So each client's directory is inside one that only root may enter: an engine reaches it only through its
 * descriptor, and no other process of the same user can.
 *
 *    $CACHE_DIRECTORY or /var/cache/cprofd    root, 0755
 *      UID of the client                      root, 0700
 *        tables                               the engine's, 0700 */
#pragma once

#include <sys/types.h>

/* A descriptor, the caller's, or -errno: there is none (a read-only /var, a broker that is not root). */
int cache__open(uid_t client, uid_t engine);
