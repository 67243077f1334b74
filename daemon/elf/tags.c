/* SPDX-License-Identifier: MIT */
/* The dynamic section (gABI, chapter 5): pairs of tag and value, up to DT_NULL. Of some 30 kinds nine are taken; of
 * repeated ones the last. Used for files (elf_image__tags()) and for images in a target's memory (elf/dynamic.c),
 * hence the buffer-and-offset form. */
#include "elf/elf.h"

#include <errno.h>
#include <string.h>

#define ENTRIES_MAX 1024u /* 30-40 are usual */
#define AT_ONCE 64u

static void take(struct elf_tags *tags, const Elf64_Dyn *entry)
{
	static const struct {
		int64_t tag;
		size_t offset;
	} members[] = {
		{DT_SYMTAB, offsetof(struct elf_tags, symbols)},
		{DT_STRTAB, offsetof(struct elf_tags, strings)},
		{DT_STRSZ, offsetof(struct elf_tags, strings_size)},
		{DT_GNU_HASH, offsetof(struct elf_tags, gnu_hash)},
		{DT_HASH, offsetof(struct elf_tags, hash)},
		{DT_RELA, offsetof(struct elf_tags, rela)},
		{DT_RELASZ, offsetof(struct elf_tags, rela_size)},
		{DT_JMPREL, offsetof(struct elf_tags, plt)},
		{DT_PLTRELSZ, offsetof(struct elf_tags, plt_size)},
	};
	size_t i;

	for (i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (members[i].tag == entry->d_tag)
			memcpy((char *)tags + members[i].offset, &entry->d_un.d_val,
			       sizeof(uint64_t));
}

/* 64 entries at a time. If that fails, one at a time: in a target the page behind the section may not be mapped. */
int elf_bytes__tags(const struct elf_bytes *bytes, uint64_t at, uint64_t size, struct elf_tags *ret)
{
	uint64_t left = size / sizeof(Elf64_Dyn), n, i;
	Elf64_Dyn entries[AT_ONCE];
	uint64_t read;

	*ret = (struct elf_tags){};
	for (read = 0; left && read < ENTRIES_MAX;
	     read += n, left -= n, at += n * sizeof(*entries)) {
		n = left < AT_ONCE ? left : AT_ONCE;
		/* What follows the last one may not be there. */
		if (elf_bytes__read(bytes, at, entries, n * sizeof(*entries))) {
			n = 1;
			if (elf_bytes__read(bytes, at, entries, sizeof(*entries)))
				return -EBADMSG;
		}
		for (i = 0; i < n && entries[i].d_tag != DT_NULL; i++)
			take(ret, &entries[i]);
		if (i < n)
			return 0;
	}
	/* It may fill its segment without DT_NULL, but must not be longer than what is read. */
	return left ? -EBADMSG : 0;
}

int elf_image__tags(const struct elf_image *image, struct elf_tags *ret)
{
	const Elf64_Phdr *dynamic = elf_image__segment(image, PT_DYNAMIC);

	return dynamic ? elf_bytes__tags(image->bytes, dynamic->p_offset, dynamic->p_filesz, ret)
		       : -ENOENT;
}
