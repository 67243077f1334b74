/* SPDX-License-Identifier: MIT */
/* System calls that may never return. A page of a target may belong to a file system that does not answer; whoever reads it through
 * /proc/PID/mem sleeps in the kernel, and no signal wakes them. The same holds for bytes of files that a target has mapped.
 *
 * The engine's loop has a stack of its own, and a thread that carries it. The thread leaves that stack for a call, and has the bytes put into a
 * buffer of its own. When the call is not over in time, another thread carries the loop on: there the call has failed with -ETIMEDOUT. The thread
 * that is late touches nothing of the loop's any more. So a call that is in time costs two changes of stacks, and no other thread takes part.
 *
 * Who was late is not asked again until it has answered, and then not at once; of an owner (a session) that waits for several nothing is asked.
 *
 * Threads: in others than the loop each call is made as it is. Errors: -errno. */
#ifndef CPROFD_BLOCKING_H
#define CPROFD_BLOCKING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A call is late when a watcher that looks so often finds it twice. */
#define BLOCKING_LOOK_MS 120u

/* Runs `main`, the loop, which ends the process: the calling thread may be held by then. */
void blocking__loop(void (*main)(void *context), void *context) __attribute__((noreturn));

/* For whom calls are made from now on; 0: nobody in particular. */
void blocking__owner(uint32_t owner);
/* How many calls of this owner's failed since it was asked last, as they were late or not tried. */
uint64_t blocking__missed(uint32_t owner);
void blocking__forget(uint32_t owner);

/* As the calls of these names, but for -errno, and -ETIMEDOUT. Short where the kernel's are. */
ssize_t blocking__pread(int fd, void *dst, size_t size, uint64_t offset);
ssize_t blocking__read(int fd, void *dst, size_t size);
ssize_t blocking__write(int fd, const void *src, size_t size);
int blocking__fstat(int fd, struct stat *ret);
/* `size` bytes of *argument go in and come out. */
int blocking__ioctl(int fd, unsigned long request, void *argument, size_t size);
/* A file system may be asked to flush. When that is late, the fd is closed later, and others of its owner stay open. */
void blocking__close(int fd);

/* Calls fn(context) in a thread of its own, or at once: what is freed there may have to wait for a thread that is held. */
void blocking__later(void (*fn)(void *context), void *context);
/* Waits for those, but not for ever; before a process ends. */
void blocking__wait_for_later(void);

#endif
