/* SPDX-License-Identifier: MIT */
/* System calls that may never return. A page of a target may belong to a file system that does not answer (FUSE, NFS).
 * Reading it through /proc/PID/mem then sleeps in the kernel, and no signal ends that. The same holds for files that a
 * target has mapped.
 *
 * So the engine's main loop runs on a stack of its own, which any thread can run. For a call, the current thread leaves
 * that stack and reads into a buffer of its own. If the call does not return in time, another thread continues the
 * loop, where the call fails with -ETIMEDOUT; the late thread touches nothing of the loop any more. A call that returns
 * in time costs two switches of stacks and involves no other thread.
 *
 * A descriptor that was late is refused until its call has returned, and for some time after. If several calls of one
 * owner (a session) are late, all its calls are refused.
 *
 * Threads: outside of the main loop each call is made directly. Errors: -errno. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Period of the watcher, in ms: a call is late if two checks in a row find it. */
#define BLOCKING_LOOK_MS 120u

/* Runs `main`, the main loop. It must end the process itself and not return, as the calling thread may hang by then. */
void blocking__loop(void (*main)(void *context), void *context) __attribute__((noreturn));

/* Sets the owner of the calls from now on; 0: none. */
void blocking__owner(uint32_t owner);
/* Number of this owner's calls that were late or refused since the last call of this function. */
uint64_t blocking__missed(uint32_t owner);
void blocking__release(uint32_t owner);

/* As the system calls of these names, but they return -errno, and -ETIMEDOUT. Results may be short. */
ssize_t blocking__pread(int fd, void *dst, size_t size, uint64_t offset);
ssize_t blocking__read(int fd, void *dst, size_t size);
ssize_t blocking__write(int fd, const void *src, size_t size);
int blocking__fstat(int fd, struct stat *ret);
/* `size` bytes of *argument are copied in and out. */
int blocking__ioctl(int fd, unsigned long request, void *argument, size_t size);
/* close() may make a file system flush. If it is late, the descriptor is closed later, and others of its owner stay
 * open. */
void blocking__close(int fd);

/* Calls fn(context) in a thread of its own (or here, if there is none): for freeing that may have to wait for a thread
 * that hangs. */
void blocking__later(void (*fn)(void *context), void *context);
/* Before a process ends: waits for these threads, 2 s at most. */
void blocking__wait_for_later(void);
