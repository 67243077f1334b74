/* SPDX-License-Identifier: MIT */
/* Words to a client that gets no engine. */
#ifndef CPROFD_BROKER_REFUSE_H
#define CPROFD_BROKER_REFUSE_H

#include "broker/limit.h"

/* Says `hello` and an answer with the reason: -errno, with -EDQUOT `met`. Does not wait for who does not read; `fd` is borrowed. */
void refuse__client(int fd, const char *hello, int err, const struct limit_met *met);

#endif
