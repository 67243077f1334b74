/* SPDX-License-Identifier: MIT */
/* The requests of engines. A request that has to wait does so in a coroutine (coroutine.h), and no further one is
 * read from its engine meanwhile: replies come in order, and each engine has at most one request in progress. */
#pragma once

#include <poll.h>

#include "broker/engine.h"

#define REQUEST_POLLED 2 /* the channel, and what the current request waits for */

/* *ret_until: serve it no later than this, CLOCK_MONOTONIC ns. */
void request__wants(const struct engine *engine, struct pollfd ret[REQUEST_POLLED], uint64_t *ret_until);
/* Takes the result of poll(): continues the current request or starts the next. -EPIPE, -EBADMSG: the engine has to
 * be ended. */
int request__serve(struct engine *engine, const struct pollfd polled[REQUEST_POLLED], struct spare *spare, bool verbose);
