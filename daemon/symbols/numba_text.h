/* SPDX-License-Identifier: MIT */
/* Identifiers of Numba's mangling -> text. */
#pragma once

#include "base/buf.h"

/* A part of a Python name: "foo", "_3clocals_3e" -> "<locals>", "caf_c3_a9". */
int numba_text__identifier(const char *text, size_t len, struct buf *ret);
/* A part of a type's text. `after_number`: what is before it ends in a number and a
 * dot follows, so this is its fraction. */
int numba_text__type(const char *text, size_t len, bool after_number, struct buf *ret);
/* Does it end in a number that is not a part of an identifier? */
bool numba_text__ends_in_number(const char *text, size_t len);
/* Are (), [], {}, and <> closed as they were opened ("->" and comparisons apart)? */
bool numba_text__balanced(const char *text, size_t len);
