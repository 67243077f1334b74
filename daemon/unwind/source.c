#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_read(struct unwind_source *source, void *dst, size_t size, uint64_t offset)
{
	const struct unwind_file *file = (const struct unwind_file *)source;
	char *to = dst;

	if (offset > INT64_MAX - size)
		return -EIO;
	while (size) {
		ssize_t len = pread(file->fd, to, size, (off_t)offset);

		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			return len < 0 ? -errno : -EIO;
		to += len;
		offset += (uint64_t)len;
		size -= (size_t)len;
	}
	return 0;
}

int unwind_file__init(struct unwind_file *file, int fd)
{
	struct stat stat;

	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -EBADMSG;
	*file = (struct unwind_file){.source = {.read = file_read, .size = (uint64_t)stat.st_size},
				     .fd = fd};
	return 0;
}

static int memory_read(struct unwind_source *source, void *dst, size_t size, uint64_t offset)
{
	const struct unwind_memory *memory = (const struct unwind_memory *)source;

	if (offset > source->size || size > source->size - offset)
		return -EIO;
	memcpy(dst, (const char *)memory->bytes + offset, size);
	return 0;
}

void unwind_memory__init(struct unwind_memory *memory, const void *bytes, size_t size)
{
	*memory = (struct unwind_memory){.source = {.read = memory_read, .size = size},
					 .bytes = bytes};
}
