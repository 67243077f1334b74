/* SPDX-License-Identifier: MIT */
/* The mappings of a process: parses the text of /proc/PID/maps into a table. Pure over a buffer; paths are chosen by
 * the target and may be anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPING_READ 1u
#define MAPPING_WRITE 2u
#define MAPPING_EXEC 4u
#define MAPPING_SHARED 8u
#define MAPPING_DELETED 16u /* the path ended in " (deleted)", which is removed */

/* One line of /proc/PID/maps. */
struct mapping {
	uint64_t start, end;
	uint64_t offset;      /* in the file */
	uint64_t inode;       /* 0: no file */
	uint32_t major, minor;
	uint32_t flags;
	uint32_t path_len;
	const char *path;     /* into the text, not NUL-terminated; "[heap]" and such too.
			       * A newline in it is "\012", as the kernel wrote it */
};

/* All lines. Freed by maps__free(). */
struct maps {
	struct mapping *items; /* sorted by address, without overlaps */
	size_t n;
	size_t bad;           /* number of lines that do not parse, or are out of order */
	bool truncated;       /* the text ended in the middle of a line */
	char *text;           /* owned, after maps__read */
};

/* Bytes of text that are read: 65,530 mappings (vm.max_map_count) have some 7 MB. */
#define MAPS_TEXT_MAX (32u << 20)

/* `text` is borrowed: it outlives `ret`. -ENOMEM is the only error. */
int maps__parse(const char *text, size_t len, struct maps *ret);
/* Reads an fd of /proc/PID/maps from its beginning. -ESRCH: the image is gone. */
int maps__read(int fd, struct maps *ret);
/* Executable mappings only, without paths (""), by the ioctl PROCMAP_QUERY of Linux 6.11+: some 30 us, where the text
 * takes 300. [vsyscall] is not among them. -ENOTTY: the kernel does not have it. */
int maps__read_code(int fd, struct maps *ret);
void maps__free(struct maps *maps);

/* O(log n). */
const struct mapping *maps__find(const struct maps *maps, uint64_t address); /* or NULL */
/* The name after the last '/'. */
const char *mapping__name(const struct mapping *mapping, size_t *ret_len);
