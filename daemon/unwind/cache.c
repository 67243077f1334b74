/* SPDX-License-Identifier: MIT */
/* The cache of unwind tables on disk. A file is named BUILD-ID-HASH.unwind, with a hash of the whole identity. It is
 * written under a temporary name and renamed, so that a reader finds a complete file or none. Files are read, not
 * mapped (truncating a mapped file would kill the engine with SIGBUS), and used only if checksum, identity and
 * table__check() are right. */
#include "base/order.h"
#include "unwind/unwind.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/ending.h"
#include "base/hash.h"
#include "base/kept.h"

#define SUFFIX ".unwind"
/* Bytes of a file that is read; the 2 million rows of libjax_common.so take some 9 MB. */
#define FILE_MAX (256u << 20)
#define TEMPORARY_AGE 3600 /* seconds after which a leftover temporary file is removed */
/* A constant seed, as names must be the same in each process. The checksum protects from damage, not from forgery: only
 * the engine's user can write to the directory. */
static const struct hash_seed seed = {0x2d358dccaa6c78a5ull, 0x8bb84b93962eacc9ull};

typedef char name_t[2 * 32 + 1 + 16 + sizeof(SUFFIX)];

/* For example 3a8f...9c-5be1c3d2a9f00471.unwind. The build-id is for people; what identifies is the hash of the whole
 * identity, and the comparison of the identity in the head. */
static void name_of(const struct unwind_identity *identity, name_t name)
{
	char *at = name;

	for (uint32_t i = 0; i < identity->build_id_size && i < sizeof(identity->build_id); i++)
		at += sprintf(at, "%02x", identity->build_id[i]);
	sprintf(at, "-%016llx" SUFFIX,
		(unsigned long long)hash__bytes(&seed, identity, sizeof(*identity)));
}

/* Of the whole table but its first words (magic, version, checksum). */
static uint64_t checksum(const struct unwind_table *table)
{
	size_t skip = offsetof(struct unwind_table, identity);

	return hash__bytes(&seed, (const char *)table + skip, table__size(table) - skip);
}

/* All of it, or an error: a file that became shorter is as damaged as one that was written wrongly. */
static int read_all(int fd, void *dst, size_t size, uint64_t offset)
{
	struct elf_bytes file;
	int err = elf_bytes__init_fd(&file, fd);

	return err ? err : elf_bytes__read(&file, offset, dst, size);
}

static int open_table(const struct unwind_cache *cache, const struct unwind_identity *identity, name_t name)
{
	name_of(identity, name);
	return kept__open(cache->directory, name);
}

/* All sizes come from the file: nothing is allotted before the head's size is that of the file, at most FILE_MAX. */
static int read_head(int fd, const struct unwind_identity *identity, struct unwind_table *ret)
{
	struct stat stat;

	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode) || stat.st_size < (off_t)sizeof(*ret) || stat.st_size > FILE_MAX || read_all(fd, ret, sizeof(*ret), 0))
		return -EBADMSG;
	if (ret->magic != UNWIND_MAGIC || ret->version != UNWIND_VERSION || table__size(ret) != (size_t)stat.st_size ||
	    memcmp(&ret->identity, identity, sizeof(*identity)))
		return -EBADMSG;
	return 0;
}

/* The head is read twice, and compared: the file may change in between. */
static int load(int fd, const struct unwind_identity *identity, struct unwind_sink *sink,
		struct unwind_table **ret)
{
	struct unwind_table head, *table;
	int err = read_head(fd, identity, &head);
	size_t size;

	if (err)
		return err;
	size = table__size(&head);
	table = sink->allot(sink, size);
	if (!table)
		return -ENOMEM;
	*ret = table; /* allotted memory belongs to the caller, also after an error */
	if (read_all(fd, table, size, 0) || memcmp(table, &head, sizeof(head)) ||
	    table->checksum != checksum(table) || table__check(table, size))
		return -EBADMSG;
	return 0;
}

int cache__size(const struct unwind_cache *cache, const struct unwind_identity *identity, size_t *ret)
{
	struct unwind_table head;
	name_t name;
	_cleanup_close_ int fd = open_table(cache, identity, name);
	int err = fd < 0 ? fd : read_head(fd, identity, &head);

	if (!err)
		*ret = table__size(&head);
	return err;
}

int cache__load(const struct unwind_cache *cache, const struct unwind_identity *identity,
		struct unwind_sink *sink, struct unwind_table **ret)
{
	name_t name;
	_cleanup_close_ int fd = open_table(cache, identity, name);

	*ret = NULL;
	return fd < 0 ? fd : kept__was_read(cache->directory, name, fd, load(fd, identity, sink, ret));
}

int cache__store(const struct unwind_cache *cache, const struct unwind_table *table)
{
	struct unwind_table head = *table;
	name_t name;

	head.checksum = checksum(table);
	name_of(&head.identity, name);
	return kept__write(cache->directory, name,
			   (struct iovec[]){{&head, sizeof(head)}, {(void *)(table + 1), table__size(table) - sizeof(head)}});
}

/* --- keeping it small --- */

/* A file of the directory, with the time of its last use. */
struct kept {
	name_t name;
	uint64_t size;
	struct timespec used;
};

static int newest_first(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return ORDER(y->used.tv_sec, x->used.tv_sec)
		?: ORDER(y->used.tv_nsec, x->used.tv_nsec);
}

/* Files with a name of the cache, and those of base/kept.h, which lie in the same directory; also removes temporary
 * files that a killed engine left. */
static int list(DIR *dir, struct kept **files, size_t *n)
{
	struct dirent *entry;
	struct stat stat;
	time_t now = time(NULL);

	while ((entry = readdir(dir))) {
		struct kept *more;

		if (fstatat(dirfd(dir), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(stat.st_mode))
			continue;
		if (entry->d_name[0] == '.' && ends_in(entry->d_name, ".new") &&
		    stat.st_mtime + TEMPORARY_AGE < now)
			unlinkat(dirfd(dir), entry->d_name, 0);
		if ((!ends_in(entry->d_name, SUFFIX) && !ends_in(entry->d_name, KEPT_SUFFIX)) ||
		    strlen(entry->d_name) >= sizeof(name_t))
			continue;
		more = realloc(*files, (*n + 1) * sizeof(**files));
		if (!more)
			return -ENOMEM;
		*files = more;
		strcpy(more[*n].name, entry->d_name);
		more[*n].size = (uint64_t)stat.st_size;
		more[*n].used = stat.st_atim;
		(*n)++;
	}
	return 0;
}

int cache__trim(const struct unwind_cache *cache, uint64_t bytes)
{
	int fd = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ struct kept *files = NULL;
	uint64_t sum = 0;
	size_t n = 0, i;
	DIR *dir;
	int err;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	err = list(dir, &files, &n);
	if (!err && n)
		qsort(files, n, sizeof(*files), newest_first);
	for (i = 0; !err && i < n; i++) {
		sum += files[i].size;
		/* The newest that fit stay. A file that is open in another engine stays readable there. */
		if (sum > bytes)
			unlinkat(cache->directory, files[i].name, 0);
	}
	closedir(dir);
	return err;
}

int identity__from_file(struct unwind_identity *identity, int fd)
{
	return file_identity__of(fd, &identity->file);
}
