/* SPDX-License-Identifier: MIT */
/* What was recorded and what was lost, for the key "cprofd" of formats that are JSON. Errors: -ENOMEM. */
#pragma once

#include "export/model.h"

/* Appends members of an object, without its braces: "pid":4242,"command":"...",...,"losses":{...},... */
int about__members(struct buf *out, const struct model *model);
