/* SPDX-License-Identifier: MIT */
/* Executable mappings by the ioctl PROCMAP_QUERY on a descriptor of /proc/PID/maps (Linux 6.11,
 * Documentation/filesystems/proc.rst), one query for each. In a process with 500 mappings 100 are executable; the
 * others cost nothing, and the kernel does not have to write paths.
 *
 *    {QUERY_EXECUTABLE | QUERY_OR_NEXT, address}  ->  the executable mapping that holds the address, or the next one
 *
 * Between two queries the target may map and unmap: each answer is true by itself, and the next query begins at its
 * end, so mappings ascend. */
#include <sys/ioctl.h>

#include "base/array.h"
#include "base/blocking.h"
#include "target/maps.h"

/* struct procmap_query and its flags: linux/fs.h since 6.11. */
struct query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
_Static_assert(sizeof(struct query) == 104, "struct procmap_query");
#define QUERY _IOWR('f', 17, struct query)
#define QUERY_READABLE 0x01u
#define QUERY_WRITABLE 0x02u
#define QUERY_EXECUTABLE 0x04u
#define QUERY_SHARED 0x08u
#define QUERY_OR_NEXT 0x10u

static uint32_t flags_of(uint64_t flags)
{
	return (flags & QUERY_READABLE ? MAPPING_READ : 0) |
	       (flags & QUERY_WRITABLE ? MAPPING_WRITE : 0) |
	       (flags & QUERY_EXECUTABLE ? MAPPING_EXEC : 0) |
	       (flags & QUERY_SHARED ? MAPPING_SHARED : 0);
}

int maps__read_code(int fd, struct maps *ret)
{
	struct query query;
	struct mapping *items = NULL;
	uint32_t capacity = 0, n = 0;
	uint64_t at = 0;
	int err = 0;

	*ret = (struct maps){};
	for (; at < UINT64_MAX; at = query.end) {
		query = (struct query){.size = sizeof(query),
				       .flags = QUERY_EXECUTABLE | QUERY_OR_NEXT,
				       .address = at};
		err = blocking__ioctl(fd, QUERY, &query, sizeof(query));
		if (err) {
			err = err == -ENOENT ? 0 : err; /* no further mapping */
			break;
		}
		if (query.start < at || query.end <= query.start) { /* would loop for ever */
			err = -EBADMSG;
			break;
		}
		err = ARRAY_RESERVE(items, n, capacity);
		if (err)
			break;
		items[n++] = (struct mapping){.start = query.start,
					      .end = query.end,
					      .offset = query.offset,
					      .inode = query.inode,
					      .major = query.major,
					      .minor = query.minor,
					      .flags = flags_of(query.vma_flags),
					      .path = ""};
	}
	if (err)
		free(items);
	else
		*ret = (struct maps){.items = items, .n = n};
	return err;
}
