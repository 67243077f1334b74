/* SPDX-License-Identifier: MIT */
/* The reply to a client that gets no engine. */
#pragma once

#include "broker/limit.h"

/* Sends `hello` (NULL: none) and an error reply for -errno; with -EDQUOT, `reached` is the limit. Never blocks: a client
 * that does not read loses the reply. `fd` is borrowed. */
void refuse__client(int fd, const char *hello, int err, const struct limit_reached *reached);
