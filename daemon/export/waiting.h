/* SPDX-License-Identifier: MIT */
/* Stacks of threads that wait: their leaf is a note such as "(waiting: GIL)", or has one note inside of it. */
#pragma once

#include "export/model.h"
#include "wait/wait.h"

/* For what it waits; WAIT_NONE: it does not. ret_holder: the note inside, which says who has the GIL, or "". It is valid
 * until a frame is added. */
enum wait_cause waiting__cause(const struct model *model, uint32_t stack, const char **ret_holder);
