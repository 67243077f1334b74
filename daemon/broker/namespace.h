/* SPDX-License-Identifier: MIT */
/* PID namespaces: in a container, a pid belongs to another process than outside. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The number of this process's namespace ("pid:[4026532198]" in /proc/self/ns/pid); 0: the initial one, whose pids
 * are the kernel's. */
uint32_t namespace__own(void);
/* Is /proc mounted for this namespace? If not, its pids differ from those that system calls take. */
bool namespace__has_proc(void);
/* Is this process (0: it has no pid here) in another namespace? False if that cannot be read. */
bool namespace__is_other(pid_t pid);
/* Runs the program find_namespace of a BPF object, which tells the others which namespace is ours; -errno. */
int namespace__describe(int program);
