/* SPDX-License-Identifier: MIT */
/* Names of C++ and Rust in their own spelling, by libiberty. */
#pragma once

#include "base/buf.h"

/* Longer manglings are not tried: time grows with them, and more than linearly. */
#define DEMANGLE_INPUT_MAX 16384u

/* Appends; true if it is a mangled name of C++ or Rust whose whole text fits in at most
 * `max` bytes. `name` is NUL-terminated. Otherwise nothing is appended. */
bool demangle__append(const char *name, size_t max, struct buf *ret);

/* The length of `name` without what compilers append to clones: ".cold",
 * ".part.0", ".isra.0.cold", ".llvm.123". */
size_t demangle__stem(const char *name, size_t len);
