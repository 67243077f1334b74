/* SPDX-License-Identifier: MIT */
/* Where a debug file may lie, in gdb's order: by build-id below /usr/lib/debug/.build-id, then by .gnu_debuglink
 * beside the file, in .debug/, and below /usr/lib/debug. It must prove that it belongs: by the same build-id, or by
 * the CRC that the link has.
 *
 * Example for /usr/lib/libfoo.so with build-id abcdef... and link "libfoo.so.debug":
 *
 *    /usr/lib/debug/.build-id/ab/cdef....debug
 *    /usr/lib/libfoo.so.debug
 *    /usr/lib/.debug/libfoo.so.debug
 *    /usr/lib/debug/usr/lib/libfoo.so.debug */
#include "symbols/debug_file.h"

#include <errno.h>
#include <lzma.h>
#include <string.h>

#include "base/cleanup.h"

#define ROOT "/usr/lib/debug"
#define CRC_CHUNK (256u << 10)
#define DEBUG_ROOT_MAX 8u /* folders that a root may lie deep */

void debug_file__build_id_path(const uint8_t *id, size_t len, char ret[DEBUG_PATH_MAX])
{
	int at = snprintf(ret, DEBUG_PATH_MAX, "%s/.build-id/%02x/", ROOT, len ? id[0] : 0);

	for (size_t i = 1; i < len && i < ELF_BUILD_ID_MAX; i++)
		at += snprintf(ret + at, DEBUG_PATH_MAX - (size_t)at, "%02x", id[i]);
	snprintf(ret + at, DEBUG_PATH_MAX - (size_t)at, ".debug");
}

int debug_file__crc(const struct elf_bytes *bytes, uint32_t *ret)
{
	_cleanup_free_ uint8_t *chunk = malloc(CRC_CHUNK);
	uint32_t crc = 0;
	uint64_t at = 0;
	size_t got;

	if (!chunk)
		return -ENOMEM;
	if (bytes->size > DEBUG_CRC_MAX)
		return -EFBIG;
	do {
		int err = elf_bytes__read_some(bytes, at, chunk, CRC_CHUNK, &got);

		if (err)
			return err;
		crc = lzma_crc32(chunk, got, crc);
		at += got;
	} while (got);
	*ret = crc;
	return 0;
}

/* A build-id is compared whole. The CRC needs all of the file, hence DEBUG_CRC_MAX; it is taken only if there is no
 * build-id. A wrong debug file would give wrong names and lines, which is worse than none. */
int debug_file__belongs(const struct elf_image *image, const struct elf_bytes *debug)
{
	char name[ELF_LINK_MAX];
	struct elf_image other;
	uint32_t wanted, crc;
	bool same;
	int err;

	if (image->build_id_len) {
		err = elf_image__open(debug, ELF_ALL, &other);
		if (err)
			return err;
		same = other.build_id_len == image->build_id_len &&
		       !memcmp(other.build_id, image->build_id, image->build_id_len);
		elf_image__free(&other);
		return same ? 0 : -EINVAL;
	}
	err = elf_image__debuglink(image, name, &wanted);
	err = err ?: debug_file__crc(debug, &crc);
	return err ? err : crc == wanted ? 0 : -EINVAL;
}

/* The fd of a file that exists and belongs; -errno otherwise, and the next path is tried. */
static int try(const struct elf_image *image, const struct symbol_opener *opener, const char *path)
{
	struct elf_bytes bytes = ELF_BYTES_NONE;
	int fd = opener->open(opener->context, path), err;

	if (fd < 0)
		return fd;
	err = elf_bytes__init_fd(&bytes, fd);
	err = err ?: debug_file__belongs(image, &bytes);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static int try_link(const struct elf_image *image, const struct symbol_opener *opener, const char *form,
		    const char *path, const char *slash, const char *link)
{
	char full[DEBUG_PATH_MAX];
	int len = snprintf(full, sizeof(full), form, (int)(slash - path), path, link);

	/* A file that links to itself is not its own debug file. */
	return len < 0 || (size_t)len >= sizeof(full) || !strcmp(full, path) ? -ENOENT : try(image, opener, full);
}

int debug_file__find(const struct elf_image *image, const char *path,
		     const struct symbol_opener *opener)
{
	static const char *const forms[] = {"%.*s/%s", "%.*s/.debug/%s", ROOT "%.*s/%s"};
	char link[ELF_LINK_MAX], full[DEBUG_PATH_MAX];
	const char *slash = path ? strrchr(path, '/') : NULL;
	uint32_t crc, tries;
	size_t i;
	int fd;

	if (image->build_id_len) {
		debug_file__build_id_path(image->build_id, image->build_id_len, full);
		fd = try(image, opener, full);
		if (fd >= 0)
			return fd;
	}
	if (!slash || elf_image__debuglink(image, link, &crc))
		return -ENOENT;
	for (i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		fd = try_link(image, opener, forms[i], path, slash, link);
		if (fd >= 0)
			return fd;
	}
	/* The path of a file in another root begins with that root, as long as it is seen from outside: what is its
	 * own is one of its ends, and the checksum proves it. */
	for (tries = 0; tries < DEBUG_ROOT_MAX && path < slash; tries++) {
		path += strcspn(path + 1, "/") + 1;
		fd = try_link(image, opener, forms[i - 1], path, slash, link);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}
