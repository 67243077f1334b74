/* SPDX-License-Identifier: MIT */
/* The machine that is profiled: registers, and the rules of native frames. Another one is another file below arch/ with the
 * same names. What the BPF programs alone know of it is in bpf/arch/, what user space alone knows in daemon/arch/. */
#pragma once

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#include "arch/x86_64.h"
#else
#error "no registers and rules for this machine"
#endif
