/* SPDX-License-Identifier: MIT */
/* PID namespaces: in a container an id is another process's than outside. */
#ifndef CPROFD_BROKER_NAMESPACE_H
#define CPROFD_BROKER_NAMESPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of this process: its number ("pid:[4026532198]" of /proc/self/ns/pid), or 0 in the first one, whose ids are the kernel's own. */
uint32_t namespace__own(void);
/* Is /proc that of this namespace? Otherwise its ids are of others than those that system calls take. */
bool namespace__has_proc(void);
/* Is this process (0: one that has no id here) in another one? Who cannot be looked at is not. */
bool namespace__is_other(pid_t pid);
/* Tells the programs of an object which one is ours, by its program find_namespace; -errno. */
int namespace__describe(int program);

#endif
