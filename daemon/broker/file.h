/* Files that lie on anybody's file system. A FUSE server, or an overlay on one, may
 * let an open() wait for ever, where no signal reaches it; nothing tells before. So
 * a process of its own opens the file, and who asked waits only so long. */
#ifndef CPROFD_BROKER_FILE_H
#define CPROFD_BROKER_FILE_H

#include <stdint.h>
#include <sys/types.h>

#define FILE_OPEN_MS 500

/* process__open_file() within FILE_OPEN_MS, or -ETIMEDOUT. What still waits then holds
 * nothing of the caller's, is nobody's child here, and ends when the file system answers. */
int file__open_mapped(pid_t pid, uint64_t start, uint64_t end, int *ret_fd);

#endif
