/* SPDX-License-Identifier: MIT */
/* Where a function belongs: its module and its package, from the paths and names
 * that a recording holds. Pure; the answer is text in the caller's buffer,
 * cut to its size. */
#ifndef CPROFD_EXPORT_PLACES_H
#define CPROFD_EXPORT_PLACES_H

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

/* kind: enum function_kind; file: the source, module: of native code.
 * numba.core.compiler, json.decoder, compile (a script), libLLVM-14.so.1. */
void place__module(uint8_t kind, const char *file, const char *module, char *out, size_t size);
/* numba, (standard library), /home/me/project (of code that is installed
 * nowhere, its folder), libLLVM-14.so.1. */
void place__package(uint8_t kind, const char *file, const char *module, char *out, size_t size);

#endif
