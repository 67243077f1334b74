/* SPDX-License-Identifier: MIT */
/* How users name functions and modules in options. Pure. */
#pragma once

#include <stdbool.h>

/* A pattern with * or ? must match the whole name. Without, it is the name or its last parts: `run_pass` and
 * `NativeLowering.run_pass` both match "NativeLowering.run_pass"; `runOnModule` matches
 * "llvm::Pass::runOnModule(Module&)". */
bool pattern__function(const char *pattern, const char *name);
/* The same with the first parts: `numba` matches "numba.core.compiler", `libLLVM-14` matches "libLLVM-14.so.1". */
bool pattern__module(const char *pattern, const char *name);
/* *: any bytes, ?: one byte. Time: at most length of the pattern times length of the text. */
bool pattern__glob(const char *pattern, const char *text);
