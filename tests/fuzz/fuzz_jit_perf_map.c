/* SPDX-License-Identifier: MIT */
/* The bytes are a perf map; see jit_files.h. */
#define FUZZ_FEED jit__perf_map
#include "jit_files.h"
