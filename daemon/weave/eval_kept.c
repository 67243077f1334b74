/* SPDX-License-Identifier: MIT */
/* A cache of eval loop ranges on disk, for later sessions: finding them takes 10 to 40 ms.
 *
 * As classes/callables_kept.c; the key has the debug file's identity, too, since its symbols may have named the
 * ranges. */
#include "weave/eval_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KIND "eval"
#define VERSION 1u /* raise it when the format changes, or what is found */
#define KEPT_MAX (1u << 20)

struct pack_head {
	uint32_t version, n;
};

/* Checks cached ranges: sorted, not empty, without overlaps. */
static bool fits(const struct eval_ranges *ranges)
{
	for (uint32_t i = 0; i < ranges->n; i++)
		if (ranges->ranges[i].start >= ranges->ranges[i].end || (i && ranges->ranges[i].start < ranges->ranges[i - 1].end))
			return false;
	return true;
}

static int unpack(void *to, const char *data, size_t len)
{
	struct eval_ranges *ret = to;
	struct pack_head head;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	if (head.version != VERSION || !head.n || head.n > EVAL_RANGES_MAX || len - sizeof(head) != head.n * sizeof(*ret->ranges))
		return -EBADMSG;
	ret->ranges = malloc(len);
	if (!ret->ranges)
		return -ENOMEM;
	memcpy(ret->ranges, data + sizeof(head), head.n * sizeof(*ret->ranges));
	ret->n = head.n;
	return fits(ret) ? 0 : -EBADMSG;
}

static void keep(int folder, const struct symbol_file *symbols, const struct kept_key *key, const struct eval_ranges *ranges)
{
	const struct pack_head head = {VERSION, ranges->n};
	_cleanup_(buf__free) struct buf data = {};
	struct kept_key now;

	/* Only if the files did not change while they were read. */
	if (!symbol_file__key(symbols, &now) && !memcmp(&now, key, sizeof(now)) && !buf__append(&data, &head, sizeof(head)) &&
	    !buf__append(&data, ranges->ranges, ranges->n * sizeof(*ranges->ranges)))
		kept__put(folder, KIND, key, &data);
}

int eval_ranges__open(int fd, const struct symbol_file *symbols, int folder, struct eval_ranges *ret)
{
	struct elf_bytes file;
	struct kept_key key;
	bool keeps = folder >= 0 && !symbol_file__key(symbols, &key);
	int err;

	*ret = (struct eval_ranges){};
	if (keeps && !kept__unpack(folder, KIND, &key, KEPT_MAX, unpack, ret))
		return 0;
	eval_ranges__free(ret);
	err = elf_bytes__init_fd(&file, fd) ?: eval_ranges__find(&file, symbols, ret);
	if (!err && keeps)
		keep(folder, symbols, &key, ret);
	return err;
}
