/* SPDX-License-Identifier: MIT */
/* Answers: lines that the engine sends to one client and that are no events of a session:
 *
 *    {"ev":"answer","id":7,"ok":true,"session":1}
 *    {"ev":"answer","id":8,"ok":false,"error":"no such process","hint":"check the PID ...","code":"NO_PROCESS"}
 *
 * Each function appends one line to `out`. 0, or -ENOMEM with `out` as it was. */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "serve/request.h"

/* ok: true. Takes `json`'s reference (its keys are merged in; NULL: out of memory). */
int answer__ok(struct buf *out, bool has_id, uint64_t id, json_t *json);
int answer__refused(struct buf *out, bool has_id, uint64_t id, const struct refusal *refusal);
