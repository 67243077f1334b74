/* SPDX-License-Identifier: MIT */
/* In a file: magic, version, size, checksum, then what was stored; for kept__put() that begins with the key in
 * full. It is written under another name and renamed, so that nobody sees half of it. */
#include "base/kept.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"

#define MAGIC 0x314b4450u /* "PDK1" */

struct head {
	uint32_t magic, version;
	uint64_t size, checksum;
};

/* A constant seed: the checksum must be the same in each process. */
static const struct hash_seed seed = {0x51ed270b7a3c9ac9ull, 0x9d2c5680cafe1235ull};

static int load(int fd, size_t max, void **ret, size_t *ret_len)
{
	_cleanup_free_ void *data = NULL;
	struct head head;
	struct stat stat;
	ssize_t got;

	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -EBADMSG;
	got = file__read(fd, &head, sizeof(head));
	if (got != sizeof(head))
		return got < 0 ? (int)got : -EBADMSG;
	if (head.magic != MAGIC || head.version != 1 || (uint64_t)stat.st_size != sizeof(head) + head.size)
		return -EBADMSG;
	if (head.size > max)
		return -EFBIG;
	data = malloc((size_t)head.size + 1);
	if (!data)
		return -ENOMEM;
	got = file__read(fd, data, (size_t)head.size);
	if (got < 0)
		return (int)got;
	if ((uint64_t)got != head.size || head.checksum != hash__bytes(&seed, data, (size_t)head.size))
		return -EBADMSG;
	*ret_len = (size_t)head.size;
	*ret = data;
	data = NULL;
	return 0;
}

/* O_NONBLOCK: a FIFO in its place does not block. */
int kept__open(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int kept__was_read(int folder, const char *name, int fd, int err)
{
	if (err == -EBADMSG)
		unlinkat(folder, name, 0);
	else if (!err) /* access time now, whatever the file system's mount options are: trimming goes by it */
		futimens(fd, (struct timespec[]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}});
	return err;
}

/* *ret: to be freed by the caller. -EFBIG: more than `max` bytes. */
static int kept__load(int folder, const char *name, size_t max, void **ret, size_t *ret_len)
{
	_cleanup_close_ int fd = kept__open(folder, name);

	return fd < 0 ? fd : kept__was_read(folder, name, fd, load(fd, max, ret, ret_len));
}

int kept__begin(int folder, struct kept_new *ret)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(ret->name, sizeof(ret->name), ".%016llx.new", (unsigned long long)random);
	ret->fd = openat(folder, ret->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return ret->fd < 0 ? -errno : 0;
}

/* By rename(2): a reader never sees half of it. If two engines store the same, the later one replaces the other. */
int kept__end(int folder, struct kept_new *file, const char *name, int err)
{
	if (!err && renameat(folder, file->name, folder, name))
		err = -errno;
	if (err)
		unlinkat(folder, file->name, 0);
	close(file->fd);
	return err;
}

int kept__write(int folder, const char *name, const struct iovec parts[2])
{
	struct kept_new file;
	int err = kept__begin(folder, &file);

	if (err)
		return err;
	err = file__write(file.fd, parts[0].iov_base, parts[0].iov_len) ?: file__write(file.fd, parts[1].iov_base, parts[1].iov_len);
	return kept__end(folder, &file, name, err);
}

static int kept__store(int folder, const char *name, const void *data, size_t len)
{
	struct head head = {MAGIC, 1, len, hash__bytes(&seed, data, len)};

	return kept__write(folder, name, (struct iovec[]){{&head, sizeof(head)}, {(void *)data, len}});
}

/* --- files named by the files that they were made from --- */

int kept_key__of(int fd, int other, struct kept_key *ret)
{
	int err;

	*ret = (struct kept_key){};
	err = fd < 0 ? -ENOENT : file_identity__of(fd, &ret->file);
	return err || other < 0 ? err : file_identity__of(other, &ret->other);
}

void kept__name(const char *kind, const struct kept_key *key, char name[KEPT_NAME_MAX])
{
	static const struct hash_seed names = {0x8f3a6c1d5b7e9021ull, 0x1b873593cc9e2d51ull};

	snprintf(name, KEPT_NAME_MAX, "%s-%016llx" KEPT_SUFFIX, kind, (unsigned long long)hash__bytes(&names, key, sizeof(*key)));
}

int kept__find(int folder, const char *kind, const struct kept_key *key, size_t max, struct kept_data *ret)
{
	char name[KEPT_NAME_MAX];
	void *bytes = NULL;
	size_t len = 0;
	int err;

	if (folder < 0)
		return -ENOENT;
	kept__name(kind, key, name);
	err = kept__load(folder, name, max, &bytes, &len);
	if (err)
		return err;
	if (len < sizeof(*key) || memcmp(bytes, key, sizeof(*key))) {
		free(bytes);
		return -ENOENT;
	}
	*ret = (struct kept_data){bytes, (const char *)bytes + sizeof(*key), len - sizeof(*key)};
	return 0;
}

int kept__unpack(int folder, const char *kind, const struct kept_key *key, size_t max, kept_unpack *unpack, void *ret)
{
	struct kept_data kept;
	int err = kept__find(folder, kind, key, max, &kept);

	if (err)
		return err;
	err = unpack(ret, kept.data, kept.len);
	free(kept.bytes);
	return err;
}

int kept__put(int folder, const char *kind, const struct kept_key *key, const struct buf *data)
{
	_cleanup_(buf__free) struct buf all = {};
	char name[KEPT_NAME_MAX];
	int err = folder < 0 ? -ENOENT : buf__append(&all, key, sizeof(*key));

	err = err ?: buf__append(&all, data->data, data->len);
	kept__name(kind, key, name);
	return err ?: kept__store(folder, name, all.data, all.len);
}
