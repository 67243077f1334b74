/* SPDX-License-Identifier: MIT */
/* JSON strings of text that a target or a file chose. */
#pragma once

#include <jansson.h>

/* Each byte that is not UTF-8 becomes U+FFFD. json_string() and json_pack("s") return NULL for such text, and the
 * whole object is lost with it. NULL: out of memory. */
json_t *json__text(const char *text);
