/* SPDX-License-Identifier: MIT */
/* A file that changes while it is read is noticed by its mtime (elf_bytes__stale()); who reads pieces of it over
 * minutes asks now and then. */
#include "elf/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blocking.h"
#include "base/clock.h"

int elf_bytes__init_fd(struct elf_bytes *bytes, int fd)
{
	struct stat st;
	int err = blocking__fstat(fd, &st);

	if (err)
		return err;
	if (!S_ISREG(st.st_mode)) /* reading a fifo or a device could wait forever */
		return -EINVAL;
	*bytes = (struct elf_bytes){.fd = fd, .size = (uint64_t)st.st_size, .changed = st.st_mtim};
	return 0;
}

void elf_bytes__init_memory(struct elf_bytes *bytes, const void *data, size_t len)
{
	*bytes = (struct elf_bytes){.fd = -1, .data = data, .size = len};
}

void elf_bytes__init_target(struct elf_bytes *bytes, struct host_reader *reader, uint64_t base)
{
	*bytes = (struct elf_bytes){.fd = -1, .reader = reader, .base = base, .size = UINT64_MAX};
}

void elf_bytes__free(struct elf_bytes *bytes)
{
	if (bytes->fd >= 0)
		blocking__close(bytes->fd);
	free((void *)bytes->data);
	*bytes = (struct elf_bytes)ELF_BYTES_NONE;
}

/* Until all is read or the file ends; short reads and signals are no errors. Errors of the file system become -EIO. */
static int read_file(int fd, uint64_t at, char *dst, size_t len, size_t *ret_len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t got = blocking__pread(fd, dst + done, len - done, at + done);

		if (got == -EINTR)
			continue;
		if (got < 0)
			return -EIO;
		if (!got)
			break;
		done += (size_t)got;
	}
	*ret_len = done;
	return 0;
}

int elf_bytes__read_some(const struct elf_bytes *bytes, uint64_t at, void *dst, size_t len,
			 size_t *ret_len)
{
	*ret_len = 0;
	if (at >= bytes->size)
		return 0;
	if (len > bytes->size - at)
		len = bytes->size - at;
	if (bytes->fd >= 0)
		return read_file(bytes->fd, at, dst, len, ret_len);
	if (bytes->reader) {
		if (bytes->reader->read(bytes->reader, dst, len, bytes->base + at))
			return 0;
	} else if (len) {
		memcpy(dst, bytes->data + at, len);
	}
	*ret_len = len;
	return 0;
}

int elf_bytes__read(const struct elf_bytes *bytes, uint64_t at, void *dst, size_t len)
{
	size_t got;
	int err = elf_bytes__has(bytes, at, len) ? elf_bytes__read_some(bytes, at, dst, len, &got)
						 : -ENODATA;

	return err ? err : got == len ? 0 : -ENODATA;
}

/* `checked_at` is written through a const pointer, by any thread: an atomic store of one word, and a lost one costs one
 * fstat(). */
bool elf_bytes__stale(const struct elf_bytes *bytes)
{
	uint64_t *checked_at = &((struct elf_bytes *)bytes)->checked_at, now;
	struct stat st;

	if (bytes->fd < 0)
		return false;
	now = clock__read(CLOCK_MONOTONIC_COARSE);
	if (__atomic_load_n(checked_at, __ATOMIC_RELAXED) == now)
		return false;
	if (blocking__fstat(bytes->fd, &st) || (uint64_t)st.st_size != bytes->size ||
	    st.st_mtim.tv_sec != bytes->changed.tv_sec || st.st_mtim.tv_nsec != bytes->changed.tv_nsec)
		return true;
	__atomic_store_n(checked_at, now, __ATOMIC_RELAXED);
	return false;
}
