/* SPDX-License-Identifier: MIT */
/* What engines ask for. A request that has to wait does so in a coroutine (coroutine.h), and meanwhile no further one is read from its engine: so
 * they are answered in order, and there is one for each engine at most. */
#ifndef CPROFD_BROKER_REQUEST_H
#define CPROFD_BROKER_REQUEST_H

#include <poll.h>

#include "broker/engine.h"

#define REQUEST_POLLED 2 /* its channel, and what its request waits for */

/* *ret_until: when it has to be served at the latest, CLOCK_MONOTONIC ns. */
void request__wants(const struct engine *engine, struct pollfd ret[REQUEST_POLLED], uint64_t *ret_until);
/* As it was polled: goes on with its request, or begins the next. -EPIPE, -EBADMSG: the engine has to go. */
int request__serve(struct engine *engine, const struct pollfd polled[REQUEST_POLLED], struct spare *spare, bool verbose);

#endif
