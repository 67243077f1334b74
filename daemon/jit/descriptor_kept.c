/* SPDX-License-Identifier: MIT */
/* A cache of the answers of jit_descriptor__find() on disk, for later sessions: a compiler's symbol table has 175,000
 * (llvmlite) to 700,000 symbols (jaxlib), all of which are read.
 *
 * As classes/callables_kept.c. That a file has no descriptor is kept, too. */
#include <errno.h>
#include <string.h>

#include "base/kept.h"
#include "elf/elf.h"
#include "jit/jit.h"

#define KIND "jit"
#define VERSION 1u /* raise it when the format changes, or what is found */
#define KEPT_MAX 4096u
#define KEPT_FROM (8u << 20) /* smaller files are searched in less time than two files take to be opened */

struct pack {
	uint32_t version;
	int32_t err;
	uint64_t address;
};

static int unpack(void *to, const char *data, size_t len)
{
	struct pack *ret = to;

	if (len != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, data, len);
	if (ret->version != VERSION || (ret->err && ret->err != -ENOENT && ret->err != -ENODATA) ||
	    !ret->err != !!ret->address)
		return -EBADMSG;
	return 0;
}

static void keep(int fd, int folder, const struct kept_key *key, const struct pack *pack)
{
	struct buf data = {};
	struct kept_key now;

	/* Only if the file did not change while it was read. */
	if (!kept_key__of(fd, -1, &now) && !memcmp(&now, key, sizeof(now)) && !buf__append(&data, pack, sizeof(*pack)))
		kept__put(folder, KIND, key, &data);
	buf__free(&data);
}

int jit_descriptor__open(const struct elf_bytes *file, int fd, int folder, uint64_t *ret_address)
{
	struct pack pack = {.version = VERSION};
	struct kept_key key;
	bool keeps = folder >= 0 && !kept_key__of(fd, -1, &key) && key.file.size >= KEPT_FROM;

	if (keeps && !kept__unpack(folder, KIND, &key, KEPT_MAX, unpack, &pack)) {
		if (!pack.err)
			*ret_address = pack.address;
		return pack.err;
	}
	pack = (struct pack){.version = VERSION};
	pack.err = jit_descriptor__find(file, 0, &pack.address);
	if (keeps && (pack.err == -ENOENT || pack.err == -ENODATA || (!pack.err && pack.address)))
		keep(fd, folder, &key, &pack);
	if (!pack.err)
		*ret_address = pack.address;
	return pack.err;
}
