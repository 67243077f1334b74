/* SPDX-License-Identifier: MIT */
/* JSON strings of text that a target or a file chose, and JSON that somebody sent. */
#pragma once

#include <jansson.h>

/* Each byte that is not UTF-8 becomes U+FFFD. json_string() and json_pack("s") return NULL for such text, and the
 * whole object is lost with it. NULL: out of memory. */
json_t *json__text(const char *text);
/* json_loadb(), which leaves a character of a string out, without an error, where it has no memory for it. Here that is
 * an error, too. `error` may be NULL. */
json_t *json__load(const char *text, size_t len, size_t flags, json_error_t *error);
