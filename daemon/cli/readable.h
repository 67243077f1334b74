/* SPDX-License-Identifier: MIT */
/* Prints JSON answers of the daemon safely on a terminal. */
#pragma once

#include <jansson.h>

/* Replaces each string by its printable form (base/safe_text.h). -ENOMEM. */
int json__readable(json_t *json);
/* To stdout, with a newline. Non-ASCII is written as \u escapes: harmless on a terminal, and the data stay exact.
 * NULL is JSON that memory did not suffice for. CLI_COULD_NOT: said. */
int json__print(const json_t *json, size_t flags);
