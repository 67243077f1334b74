/* SPDX-License-Identifier: MIT */
/* Spool: a session's recording in an unlinked file, as far as it went. Errors:
 * -errno; after the first (a full disk) nothing is added and what was flushed stays. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct spool;
/* Where spools are made, as a handle (O_PATH) that is the caller's; -1: nowhere. */
int spool__directory(void);
/* 0 or -errno. The file is there until the spool and all duplicates of its descriptor are closed. */
int spool__new(struct spool **ret);
void spool__free(struct spool *spool);
int spool__lines(struct spool *spool, const char *lines, size_t len);
/* Ends a frame: what is there now is readable by itself. *ret_len: bytes of the file. */
int spool__flush(struct spool *spool, uint64_t *ret_len);
/* The file, for reading; the spool's own. */
int spool__fd(const struct spool *spool);
/* The first error, or 0. */
int spool__error(const struct spool *spool);
