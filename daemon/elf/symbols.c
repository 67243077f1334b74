/* SPDX-License-Identifier: MIT */
/* Where the symbol tables of an image are: by section, or, when the section
 * headers were stripped, by what the loader uses. */
#include "elf/elf.h"

#include <errno.h>

#define CHAIN_MAX (1u << 24)

/* The first table of this type. SHT_SYMTAB_SHNDX belongs to the table that its sh_link names. */
static int by_section(const struct elf_image *image, uint32_t type, struct elf_symbols *ret)
{
	const Elf64_Shdr *table = NULL, *strings;
	uint32_t i;

	for (i = 1; i < image->n_sections && !table; i++)
		if (image->sections[i].sh_type == type)
			table = &image->sections[i];
	if (!table)
		return -ENOENT;
	if (table->sh_entsize != sizeof(Elf64_Sym) || !table->sh_link ||
	    table->sh_link >= image->n_sections)
		return -EBADMSG;
	strings = &image->sections[table->sh_link];
	if (strings->sh_type != SHT_STRTAB)
		return -EBADMSG;
	*ret = (struct elf_symbols){.offset = table->sh_offset,
				    .n = table->sh_size / sizeof(Elf64_Sym),
				    .strings = strings->sh_offset,
				    .strings_size = strings->sh_size};
	for (i = 1; i < image->n_sections; i++)
		if (image->sections[i].sh_type == SHT_SYMTAB_SHNDX &&
		    &image->sections[image->sections[i].sh_link < image->n_sections
					     ? image->sections[i].sh_link
					     : 0] == table)
			ret->indices = image->sections[i].sh_offset;
	return 0;
}

/* The number of symbols is in the hash table only. DT_GNU_HASH has it implicitly: symbols are sorted by bucket, so
 * the chain of the highest bucket ends behind the last symbol. All buckets are read, in pieces; a chain of more than
 * 4,096 is damaged. */
static int count_gnu(const struct elf_image *image, uint64_t hash, uint64_t *ret_n)
{
	uint64_t at, chains, symbol = 0;
	uint32_t header[4], bucket[512], word, i, k, n;

	if (elf_image__offset(image, hash, sizeof(header), &at) ||
	    elf_bytes__read(image->bytes, at, header, sizeof(header)))
		return -EBADMSG;
	at += sizeof(header) + (uint64_t)header[2] * 8;
	chains = at + (uint64_t)header[0] * 4;
	if (chains > image->bytes->size)
		return -EBADMSG;
	for (i = 0; i < header[0]; i += n) {
		n = header[0] - i < 512 ? header[0] - i : 512;
		if (elf_bytes__read(image->bytes, at + (uint64_t)i * 4, bucket, n * 4))
			return -EBADMSG;
		for (k = 0; k < n; k++)
			if (bucket[k] > symbol)
				symbol = bucket[k];
	}
	if (!symbol) {
		*ret_n = header[1];
		return 0;
	}
	if (symbol < header[1])
		return -EBADMSG;
	for (i = 0; i < 4096; i++, symbol++) {
		if (elf_bytes__read(image->bytes, chains + (symbol - header[1]) * 4, &word, 4))
			return -EBADMSG;
		if (word & 1) {
			*ret_n = symbol + 1;
			return 0;
		}
	}
	return -EBADMSG;
}

/* DT_HASH has as many chains as symbols: it is preferred, as one read answers. */
static int count(const struct elf_image *image, uint64_t gnu, uint64_t sysv, uint64_t *ret_n)
{
	uint32_t header[2];
	uint64_t at;

	if (sysv && !elf_image__offset(image, sysv, sizeof(header), &at) &&
	    !elf_bytes__read(image->bytes, at, header, sizeof(header))) {
		*ret_n = header[1];
		return 0;
	}
	return gnu ? count_gnu(image, gnu, ret_n) : -ENOENT;
}

static int by_dynamic(const struct elf_image *image, struct elf_symbols *ret)
{
	struct elf_tags tags;
	int err = elf_image__tags(image, &tags);

	if (err)
		return err;
	if (!tags.symbols || !tags.strings || !tags.strings_size)
		return -ENOENT;
	*ret = (struct elf_symbols){.strings_size = tags.strings_size};
	err = count(image, tags.gnu_hash, tags.hash, &ret->n);
	if (err)
		return err;
	if (ret->n > CHAIN_MAX ||
	    elf_image__offset(image, tags.symbols, ret->n * sizeof(Elf64_Sym), &ret->offset) ||
	    elf_image__offset(image, tags.strings, tags.strings_size, &ret->strings))
		return -EBADMSG;
	return 0;
}

int elf_image__symbols(const struct elf_image *image, uint32_t type, struct elf_symbols *ret)
{
	int err = by_section(image, type, ret);

	if (err == -ENOENT && type == SHT_DYNSYM && !image->n_sections)
		err = by_dynamic(image, ret);
	if (err)
		return err;
	if (ret->offset > image->bytes->size ||
	    !elf_bytes__has(image->bytes, ret->strings, ret->strings_size))
		return -EBADMSG;
	/* A table that runs beyond the file's end is read as far as it goes. */
	if (ret->n > (image->bytes->size - ret->offset) / sizeof(Elf64_Sym))
		ret->n = (image->bytes->size - ret->offset) / sizeof(Elf64_Sym);
	return 0;
}

int elf_image__address(const struct elf_image *image, uint32_t index, uint64_t value, uint64_t *ret)
{
	const Elf64_Shdr *s;

	if (index == SHN_UNDEF)
		return -ENOENT;
	*ret = value;
	if (image->type != ET_REL || index == SHN_ABS)
		return 0;
	if (index >= image->n_sections)
		return -ENOENT;
	s = &image->sections[index];
	if (s->sh_flags & SHF_ALLOC && (value < s->sh_addr || value - s->sh_addr > s->sh_size))
		*ret += s->sh_addr;
	return 0;
}
