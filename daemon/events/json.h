/* SPDX-License-Identifier: MIT */
/* Appends JSON strings and numbers to a buffer, for encoders and exporters. Errors: -ENOMEM. Threads: any. */
#pragma once

#include "base/buf.h"

/* Appends `string` quoted and escaped. Characters that base/safe_text.h calls unsafe are escaped, too: data stay exact,
 * and a terminal executes no byte of it. Each byte that is not UTF-8 becomes U+FFFD. A string longer than
 * EVENTS_STRING_MAX bytes is truncated and ends in an ellipsis. NULL is "". */
int json__string(struct buf *out, const char *string);

int json__u64(struct buf *out, uint64_t value);
int json__i64(struct buf *out, int64_t value);

/* Members of the object that is open at the end of *out: a comma, unless it is the first one, and the key as it is. */
int json__key(struct buf *out, const char *key);
int json__member(struct buf *out, const char *key, const char *value);
int json__number(struct buf *out, const char *key, uint64_t value);
