/* SPDX-License-Identifier: MIT */
/* Exported symbols of a module in a target's memory, through PT_DYNAMIC and its hash tables (gABI chapter 5; GNU
 * hash), for whom no file is open. Chains that a hostile image makes endless are followed for a bounded number of
 * steps. */
#include "elf/dynamic.h"

#include <errno.h>
#include <string.h>

#include "elf/elf.h"

#define CHAIN_MAX 4096u        /* symbols in one bucket; < 10 are usual */
#define NAME_MAX_LEN 128u

static int fail(enum elf_problem *ret, enum elf_problem problem)
{
	*ret = problem;
	return -EBADMSG;
}

static int get(const struct elf_dynamic *elf, void *dst, size_t size, uint64_t address)
{
	return elf_bytes__read(&elf->memory, address, dst, size);
}

/* An address of the dynamic section: glibc adds the bias in place, musl does not. */
static uint64_t relocated(const struct elf_dynamic *elf, uint64_t value)
{
	return value < elf->bias ? value + elf->bias : value;
}

/* The segments of the image at `base`. */
static int read_segments(struct elf_dynamic *elf, struct host_reader *reader, uint64_t base,
			 Elf64_Phdr *ret_dynamic, enum elf_problem *ret_problem)
{
	const Elf64_Phdr *dynamic;
	struct elf_image image;
	struct elf_bytes bytes;
	int err;

	elf_bytes__init_target(&bytes, reader, base);
	err = elf_image__open(&bytes, ELF_SEGMENTS, &image);
	if (err)
		return fail(ret_problem,
			    err == -ENOEXEC ? ELF_PROBLEM_NOT_ELF : ELF_PROBLEM_HEADER);
	dynamic = elf_image__segment(&image, PT_DYNAMIC);
	if (elf_image__bias(&image, base, &elf->bias))
		err = fail(ret_problem, ELF_PROBLEM_NO_LOAD);
	else if (!dynamic)
		err = fail(ret_problem, ELF_PROBLEM_NO_DYNAMIC);
	else
		*ret_dynamic = *dynamic;
	elf_image__free(&image);
	return err;
}

int elf_dynamic__open(struct host_reader *reader, uint64_t base, struct elf_dynamic *ret,
		      enum elf_problem *ret_problem)
{
	struct elf_dynamic elf = {.base = base};
	struct elf_tags tags;
	Elf64_Phdr dynamic;
	int err;

	*ret_problem = ELF_PROBLEM_NONE;
	err = read_segments(&elf, reader, base, &dynamic, ret_problem);
	if (err)
		return err;
	elf_bytes__init_target(&elf.memory, reader, 0);
	if (elf_bytes__tags(&elf.memory, elf.bias + dynamic.p_vaddr, dynamic.p_memsz, &tags))
		return fail(ret_problem, ELF_PROBLEM_DYNAMIC);
	if (!tags.symbols || !tags.strings || !tags.strings_size || (!tags.gnu_hash && !tags.hash))
		return fail(ret_problem, ELF_PROBLEM_NO_HASH);
	elf.symbols = relocated(&elf, tags.symbols);
	elf.strings = relocated(&elf, tags.strings);
	elf.strings_size = tags.strings_size;
	elf.gnu_hash = tags.gnu_hash ? relocated(&elf, tags.gnu_hash) : 0;
	elf.hash = tags.hash ? relocated(&elf, tags.hash) : 0;
	*ret = elf;
	return 0;
}

/* Symbol `index`: 0 when it is `name` and defined here, -ENOENT, -EBADMSG. Of its name only as many bytes are read
 * as `name` has. */
static int match(const struct elf_dynamic *elf, uint64_t index, const char *name, size_t len,
		 struct elf_symbol *ret)
{
	char text[NAME_MAX_LEN + 1];
	Elf64_Sym symbol;

	if (get(elf, &symbol, sizeof(symbol), elf->symbols + index * sizeof(symbol)))
		return -EBADMSG;
	if (symbol.st_shndx == SHN_UNDEF)
		return -ENOENT;
	if (symbol.st_name >= elf->strings_size)
		return -EBADMSG;
	if (elf->strings_size - symbol.st_name <= len)
		return -ENOENT; /* too near the end to hold the name */
	if (get(elf, text, len + 1, elf->strings + symbol.st_name))
		return -EBADMSG;
	if (memcmp(text, name, len + 1))
		return -ENOENT;
	ret->address = symbol.st_value + (symbol.st_shndx == SHN_ABS ? 0 : elf->bias);
	ret->size = symbol.st_size;
	ret->type = ELF64_ST_TYPE(symbol.st_info);
	return 0;
}

/* DT_GNU_HASH: u32 buckets, first symbol, bloom words, bloom shift; u64 bloom[]; u32 bucket[]; u32 chain[], the
 * lowest bit of which ends a chain. The bloom filter, which spares a loader most of its misses, is not read: one
 * question more or less does not matter here. The hash is h * 33 + c, from 5381. */
static int lookup_gnu(const struct elf_dynamic *elf, const char *name, size_t len,
		      struct elf_symbol *ret, enum elf_problem *ret_problem)
{
	uint32_t header[4], wanted = 5381, found, bucket, i;
	uint64_t buckets, chains;
	const char *c;
	int err;

	for (c = name; *c; c++)
		wanted = wanted * 33 + (uint8_t)*c;
	if (get(elf, header, sizeof(header), elf->gnu_hash) || !header[0])
		return fail(ret_problem, ELF_PROBLEM_HASH);
	buckets = elf->gnu_hash + sizeof(header) + (uint64_t)header[2] * 8;
	chains = buckets + (uint64_t)header[0] * 4;
	if (get(elf, &bucket, sizeof(bucket), buckets + (uint64_t)(wanted % header[0]) * 4))
		return fail(ret_problem, ELF_PROBLEM_HASH);
	if (!bucket)
		return -ENOENT;
	if (bucket < header[1])
		return fail(ret_problem, ELF_PROBLEM_HASH);
	for (i = 0; i < CHAIN_MAX; i++) {
		uint64_t index = (uint64_t)bucket + i;

		if (get(elf, &found, sizeof(found), chains + (index - header[1]) * 4))
			return fail(ret_problem, ELF_PROBLEM_HASH);
		if ((found | 1) == (wanted | 1)) {
			err = match(elf, index, name, len, ret);
			if (err == -EBADMSG)
				return fail(ret_problem, ELF_PROBLEM_SYMBOL);
			if (!err)
				return 0;
		}
		if (found & 1)
			return -ENOENT;
	}
	return fail(ret_problem, ELF_PROBLEM_HASH);
}

/* DT_HASH (System V ABI): u32 buckets, chains; bucket[]; chain[]. */
static int lookup_sysv(const struct elf_dynamic *elf, const char *name, size_t len,
		       struct elf_symbol *ret, enum elf_problem *ret_problem)
{
	uint32_t header[2], wanted = 0, high, index, i;
	const char *c;
	uint64_t at;
	int err;

	for (c = name; *c; c++) {
		wanted = (wanted << 4) + (uint8_t)*c;
		high = wanted & 0xf0000000u;
		wanted = (wanted ^ (high >> 24)) & ~high;
	}
	if (get(elf, header, sizeof(header), elf->hash) || !header[0])
		return fail(ret_problem, ELF_PROBLEM_HASH);
	at = elf->hash + sizeof(header) + (uint64_t)(wanted % header[0]) * 4;
	for (i = 0; i < CHAIN_MAX; i++) {
		if (get(elf, &index, sizeof(index), at))
			return fail(ret_problem, ELF_PROBLEM_HASH);
		if (!index)
			return -ENOENT;
		if (index >= header[1])
			return fail(ret_problem, ELF_PROBLEM_HASH);
		err = match(elf, index, name, len, ret);
		if (err == -EBADMSG)
			return fail(ret_problem, ELF_PROBLEM_SYMBOL);
		if (!err)
			return 0;
		at = elf->hash + sizeof(header) + (uint64_t)header[0] * 4 + (uint64_t)index * 4;
	}
	return fail(ret_problem, ELF_PROBLEM_HASH);
}

int elf_dynamic__lookup(const struct elf_dynamic *elf, const char *name, struct elf_symbol *ret,
			enum elf_problem *ret_problem)
{
	size_t len = strlen(name);

	*ret_problem = ELF_PROBLEM_NONE;
	if (len > NAME_MAX_LEN - 1)
		return -ENOENT;
	if (elf->gnu_hash)
		return lookup_gnu(elf, name, len, ret, ret_problem);
	return lookup_sysv(elf, name, len, ret, ret_problem);
}
