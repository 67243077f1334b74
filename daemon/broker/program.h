/* SPDX-License-Identifier: MIT */
/* The engine's program. An engine is executed, so that it has nothing of the broker's memory: what it loaded, what other
 * users asked, where anything lies. */
#ifndef CPROFD_BROKER_PROGRAM_H
#define CPROFD_BROKER_PROGRAM_H

#define PROGRAM_ENGINE "cprofd-engine"

/* Finds it: beside this program, in ../libexec/cprofd/ of it, else this program itself under that name (its main() has to
 * know it). Only one that belongs to root, or to whom this program belongs, and that others may not write. Opens it
 * (O_PATH), so that a user who may not enter its folder can execute it; -errno. */
int program__open(int *ret);

/* In the child: executes it; the channel and the cache's folder stay open, and stdin to stderr. Returns -errno. */
int program__execute(int fd);

#endif
