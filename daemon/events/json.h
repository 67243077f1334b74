/* SPDX-License-Identifier: MIT */
/* JSON text into a buffer: what encoders and exporters write numbers and
 * strings with. Errors: -ENOMEM. Threading: none kept. */
#ifndef CPROFD_EVENTS_JSON_H
#define CPROFD_EVENTS_JSON_H

#include <stdint.h>

#include "base/buf.h"

/* Appends `string` quoted and escaped, what base/safe_text.h calls unsafe, too: data stay exact, and no byte of it means
 * something to a terminal. Bytes that are not UTF-8 become U+FFFD
 * one by one, so that a strange name never costs a line; a string beyond
 * EVENTS_STRING_MAX bytes is cut and ends in an ellipsis. NULL is "". */
int json__string(struct buf *out, const char *string);

int json__u64(struct buf *out, uint64_t value);
int json__i64(struct buf *out, int64_t value);

#endif
