/* SPDX-License-Identifier: MIT */
#pragma once

/* A new file without a name in the directory `folder`, to be read and written by this user alone; it is gone with its last
 * descriptor. -errno. */
int nameless__open(int folder);
/* The same, where there is room: $TMPDIR, /var/tmp or /tmp. */
int temporary__open(int *ret_fd);
