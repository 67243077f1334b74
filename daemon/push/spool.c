/* SPDX-License-Identifier: MIT */
/* A queue of requests in a file without a name: an outage costs disk, not memory. What was delivered is punched out of the
 * file, and an empty queue begins anew. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "base/file.h"
#include "base/nameless.h"
#include "push/push.h"

int spool__open(struct spool *spool, uint64_t limit)
{
	*spool = (struct spool){.fd = -1, .limit = limit};
	return temporary__open(&spool->fd);
}

static struct spool_entry *entry(const struct spool *spool, uint32_t i)
{
	return &ITEM(spool->entries, struct spool_entry, i);
}

void spool__remove(struct spool *spool, uint32_t i)
{
	struct spool_entry *gone = entry(spool, i);
	size_t after = spool->entries.len - (i + 1) * sizeof(*gone);

	/* Where the file system cannot, the file is longer than what is in it. */
	fallocate(spool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)gone->offset, gone->len);
	spool->bytes -= gone->len;
	memmove(gone, gone + 1, after);
	spool->entries.len -= sizeof(*gone);
	if (!spool->entries.len && !ftruncate(spool->fd, 0))
		spool->end = 0;
}

int spool__put(struct spool *spool, const struct buf *request, uint32_t samples, uint32_t kept, struct push_counts *counts)
{
	struct spool_entry fresh = {spool->end, (uint32_t)request->len, samples};
	int err = 0;

	do {
		while ((spool->bytes + request->len > spool->limit || err == -ENOSPC) && spool__n(spool) > kept) {
			counts->dropped++;
			counts->dropped_samples += entry(spool, kept)->samples;
			spool__remove(spool, kept);
			if (err)
				break;
		}
		if (spool->bytes + request->len > spool->limit)
			return -ENOSPC;
		fresh.offset = spool->end;
		err = lseek(spool->fd, (off_t)fresh.offset, SEEK_SET) < 0 ? -errno : file__write(spool->fd, request->data, request->len);
		err = err == -EDQUOT || err == -EFBIG ? -ENOSPC : err;
	} while (err == -ENOSPC && spool__n(spool) > kept); /* the disk is full, or what the user may have of it, before the spool is */
	err = err ?: buf__append(&spool->entries, &fresh, sizeof(fresh));
	if (err)
		return err;
	spool->bytes += fresh.len;
	spool->end += fresh.len;
	return 0;
}

int spool__first(const struct spool *spool, struct buf *out, struct spool_entry *ret)
{
	ssize_t got;

	*ret = *entry(spool, 0);
	buf__clear(out);
	if (buf__lengthen(out, ret->len))
		return -ENOMEM;
	got = lseek(spool->fd, (off_t)ret->offset, SEEK_SET) < 0 ? -errno : file__read(spool->fd, out->data, ret->len);
	return got < 0 ? (int)got : got < (ssize_t)ret->len ? -EIO : 0;
}

void spool__close(struct spool *spool)
{
	if (spool->fd >= 0)
		close(spool->fd);
	buf__free(&spool->entries);
	spool->fd = -1;
}
