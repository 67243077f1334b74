/* SPDX-License-Identifier: MIT */
/* The engine's program. Engines are executed, not only forked, so that they have nothing of the broker's memory:
 * samplers, other users' requests, addresses. */
#pragma once

#define PROGRAM_ENGINE "cprofd-engine"

/* Finds the program: beside this one, or in ../libexec/cprofd/ from there, or else this program itself under that
 * name (its main() must recognise it). It must belong to root or to the owner of this program, and not be writable
 * by others. Opens it with O_PATH, so that a user who may not enter its directory can execute it; -errno. */
int program__open(int *ret);

/* In the child: executes it. The channel, the cache directory and stdin to stderr stay open. Returns -errno. */
int program__execute(int fd);
