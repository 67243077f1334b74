/* SPDX-License-Identifier: MIT */
/* The bytes are a jitdump; see jit_files.h. */
#define FUZZ_FEED jit__jitdump
#include "jit_files.h"
