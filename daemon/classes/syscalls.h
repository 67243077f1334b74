/* SPDX-License-Identifier: MIT */
/* Names of x86-64's system calls. Private to this folder. */
#ifndef CPROFD_CLASSES_SYSCALLS_H
#define CPROFD_CLASSES_SYSCALLS_H

#include <stdint.h>

/* NULL: there is none, or this kernel's headers had none. */
const char *syscalls__name(uint32_t number);

#endif
