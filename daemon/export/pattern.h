/* SPDX-License-Identifier: MIT */
/* How a user names functions and modules. Pure. */
#ifndef CPROFD_EXPORT_PATTERN_H
#define CPROFD_EXPORT_PATTERN_H

#include <stdbool.h>

/* A pattern with * or ? in it must fit the whole name. Else it is the name, or
 * its last parts: run_pass and NativeLowering.run_pass are both
 * "NativeLowering.run_pass", runOnModule is "llvm::Pass::runOnModule(Module&)". */
bool pattern__function(const char *pattern, const char *name);
/* Likewise, but the first parts: numba is "numba.core.compiler", libLLVM-14 is
 * "libLLVM-14.so.1". */
bool pattern__module(const char *pattern, const char *name);
/* * any bytes, ? one. Time: length of the pattern times that of the text. */
bool pattern__glob(const char *pattern, const char *text);

#endif
