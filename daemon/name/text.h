/* SPDX-License-Identifier: MIT */
/* A captured Python string -> UTF-8. Pure; the bytes are the target's and may
 * be anything. Threading: none kept. */
#ifndef CPROFD_NAME_TEXT_H
#define CPROFD_NAME_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the characters of a compact str (PEP 393): `len_bytes` bytes of 1, 2
 * or 4 byte characters, `kind` and `ascii` as in its state. What is appended is
 * valid UTF-8; a surrogate, which has no UTF-8, becomes \udc80 as Python's
 * "backslashreplace" writes it; control characters and NUL are kept. Not
 * terminated. On error nothing is appended. 0, -EBADMSG: not a str as CPython
 * makes them (kind, a cut character, a code point beyond U+10FFFF, ascii that is
 * not); -ENOMEM. */
int text__from_unicode(const void *data, size_t len_bytes, unsigned kind, bool ascii,
		       struct buf *ret_utf8);

#endif
