/* SPDX-License-Identifier: MIT */
/* JSON strings of text that a target or a file chose, JSON that somebody sent, and JSON that tells when memory was short. */
#pragma once

#include <jansson.h>

/* Each byte that is not UTF-8 becomes U+FFFD. json_string() and json_pack("s") return NULL for such text, and the
 * whole object is lost with it. NULL: out of memory. */
json_t *json__text(const char *text);
json_t *json__textn(const char *text, size_t size);
/* json_loadb(), which leaves a character of a string out, without an error, where it has no memory for it. Here that is
 * an error, too. `error` may be NULL. */
json_t *json__load(const char *text, size_t len, size_t flags, json_error_t *error);
/* Take `value`, where NULL means out of memory. After a failure *into is NULL, and stays so: jansson's own functions leave
 * the object as it was, and it would be sent without the key. One check at the end is enough, and json_pack(), json_dumps()
 * and json_dump_callback() make it: they refuse NULL. */
void json__set(json_t **into, const char *key, json_t *value);
void json__append(json_t **into, json_t *value);
void json__update(json_t **into, json_t *keys);
