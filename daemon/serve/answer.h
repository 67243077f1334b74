/* SPDX-License-Identifier: MIT */
/* Answers: what the engine says to one client that is not an event of a
 * session. Each appends one line to `out`; -ENOMEM. */
#ifndef CPROFD_SERVE_ANSWER_H
#define CPROFD_SERVE_ANSWER_H

#include <jansson.h>

#include "base/buf.h"
#include "serve/request.h"

/* ok: true. Takes `json`'s reference (NULL: no further keys; the keys are merged in). */
int answer__ok(struct buf *out, bool has_id, uint64_t id, json_t *json);
int answer__refused(struct buf *out, bool has_id, uint64_t id, const struct refusal *refusal);

#endif
