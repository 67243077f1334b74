/* SPDX-License-Identifier: MIT */
/* The packed sections of a file of debug information, unpacked, in a file of the cache. To unpack libc's takes 25 ms,
 * and each new function would need a part of it again; here it is two or three reads.
 *
 *    head    magic, version, which file it is of, the size of each section (0: not here)
 *    bytes   of .debug_info, .debug_abbrev ... in the order of DWARF_SECTIONS
 *
 * Only the head and the size are checked: the readers of DWARF trust no byte, here or in the file itself. */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "symbols/dwarf.h"

#define KIND "sections"
#define MAGIC 0x324b4450u /* "PDK2" */
#define MAX (32u << 20)      /* bytes of one file; larger ones are unpacked in part, each time (unpack.h) */
#define ALL_MAX (96u << 20)  /* that this engine makes: what a target packs to nothing must not fill a disk */

struct head {
	uint32_t magic, version;
	struct kept_key key;
	uint64_t sizes[DWARF_SECTION_COUNT];
};

/* Returns how many bytes the sections have; 0: none is packed. Each size is the file's word, any number. */
static uint64_t fill(struct head *head, const struct dwarf *dwarf, const struct kept_key *key)
{
	uint64_t sum = 0;

	memset(head, 0, sizeof(*head)); /* also what lies between */
	head->magic = MAGIC;
	head->version = 1;
	head->key = *key;
	for (unsigned i = 0; i < DWARF_SECTION_COUNT; i++) {
		head->sizes[i] = dwarf->sections[i].unpack ? dwarf->sections[i].size : 0;
		sum += head->sizes[i] < MAX ? head->sizes[i] : MAX + 1;
	}
	return sum;
}

/* What was made so far, rather than a lock: two threads may exceed it by a file. */
static bool may_make(uint64_t size)
{
	static uint64_t made;

	return size <= MAX && __atomic_add_fetch(&made, size, __ATOMIC_RELAXED) <= ALL_MAX;
}

static int make(const struct dwarf *dwarf, int folder, const char *name, const struct head *head)
{
	struct kept_new file;
	int err = kept__begin(folder, &file);

	if (err)
		return err;
	err = file__write(file.fd, head, sizeof(*head));
	for (unsigned i = 0; !err && i < DWARF_SECTION_COUNT; i++)
		if (head->sizes[i])
			err = unpack__write(dwarf->sections[i].unpack, file.fd);
	return kept__end(folder, &file, name, err);
}

/* Its descriptor. A file without its end is from a machine that lost its power. */
static int open_made(int folder, const char *name, const struct head *wanted, uint64_t size)
{
	int fd = kept__open(folder, name), err = 0;
	struct head head;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || (uint64_t)st.st_size != sizeof(head) + size ||
	    pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(&head, wanted, sizeof(head)))
		err = -EBADMSG;
	err = kept__was_read(folder, name, fd, err);
	if (!err)
		return fd;
	close(fd);
	return err;
}

void dwarf__unpack(struct dwarf *dwarf, int folder, const struct kept_key *key)
{
	char name[KEPT_NAME_MAX];
	struct head head;
	uint64_t size = fill(&head, dwarf, key), at = sizeof(head);
	int fd;

	if (!size || size > MAX)
		return;
	kept__name(KIND, key, name);
	fd = open_made(folder, name, &head, size);
	if (fd < 0 && may_make(size) && !make(dwarf, folder, name, &head))
		fd = open_made(folder, name, &head, size);
	if (fd < 0 || elf_bytes__init_fd(&dwarf->unpacked, fd)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (unsigned i = 0; i < DWARF_SECTION_COUNT; i++) {
		if (!head.sizes[i])
			continue;
		debug_section__move(&dwarf->sections[i], &dwarf->unpacked, at);
		at += head.sizes[i];
	}
}
