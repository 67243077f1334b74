/* SPDX-License-Identifier: MIT */
/* Converts a captured Python str to UTF-8. Pure; the bytes are the target's and may be anything. Example: kind 2,
 * bytes e9 00 74 00 e9 00 -> "été". */
#pragma once

#include "base/buf.h"

/* Appends the characters of a compact str (PEP 393): `len_bytes` bytes of characters of 1, 2 or 4 bytes; `kind` and
 * `ascii` as in its state. The result is valid UTF-8; a surrogate, which UTF-8 cannot represent, becomes \udc80, as
 * with Python's "backslashreplace"; control characters and NUL are kept. Not terminated. On error nothing is appended.
 * -EBADMSG: not a valid str (kind, an incomplete character, a code point beyond U+10FFFF, `ascii` is wrong); -ENOMEM.
 * */
int text__from_unicode(const void *data, size_t len_bytes, unsigned kind, bool ascii,
		       struct buf *ret_utf8);
