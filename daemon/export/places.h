/* SPDX-License-Identifier: MIT */
/* The module and package of a function, from the paths and names in a recording. Pure; the result is text in the
 * caller's buffer, truncated to its size. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PLACE_STANDARD "(standard library)"
#define PLACE_GENERATED "(generated code)" /* <string>, <ipython-input-3> */
#define LOCATION_INTERPRETER "(interpreter)"
#define PLACE_CALLS "(C calls)"
#define LOCATION_KERNEL "(kernel)"
#define LOCATION_JIT "(JIT code)"
#define PLACE_NOTES "(notes)"
#define LOCATION_UNKNOWN "(unknown)"

/* kind: enum function_kind; file: the source; module: of native code. Results: numba.core.compiler, json.decoder,
 * compile (a script), libLLVM-14.so.1. */
void place__module(uint8_t kind, const char *file, const char *module, char *out, size_t size);
/* Results: numba, (standard library), libLLVM-14.so.1; for code that is not installed its directory,
 * /home/me/project. */
void place__package(uint8_t kind, const char *file, const char *module, char *out, size_t size);
