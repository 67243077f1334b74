#include "target/elf_dynamic.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define PHDRS_MAX 256u
#define DYNAMIC_MAX 1024u      /* entries of PT_DYNAMIC; 30-40 are usual */
#define DYNAMIC_AT_ONCE 32u
#define CHAIN_MAX 4096u        /* symbols in one bucket; < 10 are usual */
#define NAME_MAX_LEN 128u

static const char *const sentences[] = {
#define ELF_SENTENCE(id, sentence) [ELF_PROBLEM_##id] = sentence,
	ELF_PROBLEMS(ELF_SENTENCE)
};

const char *elf_problem__sentence(enum elf_problem problem)
{
	return (unsigned)problem < ELF_PROBLEM_COUNT ? sentences[problem] : "an unknown problem";
}

static int fail(enum elf_problem *ret, enum elf_problem problem)
{
	*ret = problem;
	return -EBADMSG;
}

static int get(const struct elf_dynamic *elf, void *dst, size_t size, uint64_t address)
{
	return elf->reader->read(elf->reader, dst, size, address);
}

/* An address of the dynamic section: glibc adds the bias in place, musl does not. */
static uint64_t relocated(const struct elf_dynamic *elf, uint64_t value)
{
	return value < elf->bias ? value + elf->bias : value;
}

/* False: it was the last one. */
static bool take_entry(struct elf_dynamic *elf, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_NULL:
		return false;
	case DT_SYMTAB:
		elf->symbols = relocated(elf, entry->d_un.d_ptr);
		break;
	case DT_STRTAB:
		elf->strings = relocated(elf, entry->d_un.d_ptr);
		break;
	case DT_STRSZ:
		elf->strings_size = entry->d_un.d_val;
		break;
	case DT_GNU_HASH:
		elf->gnu_hash = relocated(elf, entry->d_un.d_ptr);
		break;
	case DT_HASH:
		elf->hash = relocated(elf, entry->d_un.d_ptr);
		break;
	}
	return true;
}

static int read_dynamic(struct elf_dynamic *elf, uint64_t address, uint64_t size)
{
	Elf64_Dyn entries[DYNAMIC_AT_ONCE];
	uint64_t n = size / sizeof(*entries), at, i, got;

	for (at = 0; at < n && at < DYNAMIC_MAX; at += got) {
		got = n - at < DYNAMIC_AT_ONCE ? n - at : DYNAMIC_AT_ONCE;
		/* What follows the last one may not be there. */
		if (get(elf, entries, got * sizeof(*entries), address + at * sizeof(*entries))) {
			got = 1;
			if (get(elf, entries, sizeof(*entries), address + at * sizeof(*entries)))
				return -EFAULT;
		}
		for (i = 0; i < got; i++)
			if (!take_entry(elf, &entries[i]))
				return 0;
	}
	/* The section may fill its segment without DT_NULL, but must not be longer than this reads. */
	return n <= DYNAMIC_MAX ? 0 : -EMSGSIZE;
}

static int read_segments(struct elf_dynamic *elf, const Elf64_Ehdr *header, Elf64_Phdr *ret_dynamic, bool *ret_bias)
{
	Elf64_Phdr phdrs[PHDRS_MAX];
	unsigned i;

	if (get(elf, phdrs, header->e_phnum * sizeof(*phdrs), elf->base + header->e_phoff))
		return -EFAULT;
	for (i = 0; i < header->e_phnum; i++) {
		if (phdrs[i].p_type == PT_DYNAMIC)
			*ret_dynamic = phdrs[i];
		if (phdrs[i].p_type == PT_LOAD && !*ret_bias && phdrs[i].p_offset < 4096) {
			elf->bias = elf->base - (phdrs[i].p_vaddr - phdrs[i].p_offset);
			*ret_bias = true;
		}
	}
	return 0;
}

int elf_dynamic__open(struct host_reader *reader, uint64_t base, struct elf_dynamic *ret,
		      enum elf_problem *ret_problem)
{
	struct elf_dynamic elf = {.reader = reader, .base = base};
	Elf64_Phdr dynamic = {.p_type = PT_NULL};
	bool have_bias = false;
	Elf64_Ehdr header;

	*ret_problem = ELF_PROBLEM_NONE;
	if (get(&elf, &header, sizeof(header), base) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return fail(ret_problem, ELF_PROBLEM_NOT_ELF);
	if (header.e_phentsize != sizeof(dynamic) || header.e_phnum > PHDRS_MAX ||
	    read_segments(&elf, &header, &dynamic, &have_bias))
		return fail(ret_problem, ELF_PROBLEM_HEADER);
	if (!have_bias)
		return fail(ret_problem, ELF_PROBLEM_NO_LOAD);
	if (dynamic.p_type != PT_DYNAMIC)
		return fail(ret_problem, ELF_PROBLEM_NO_DYNAMIC);
	if (read_dynamic(&elf, elf.bias + dynamic.p_vaddr, dynamic.p_memsz))
		return fail(ret_problem, ELF_PROBLEM_DYNAMIC);
	if (!elf.symbols || !elf.strings || !elf.strings_size || (!elf.gnu_hash && !elf.hash))
		return fail(ret_problem, ELF_PROBLEM_NO_HASH);
	*ret = elf;
	return 0;
}

/* Symbol `index`: 0 when it is `name` and defined here, -ENOENT, -EBADMSG. */
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

/* DT_GNU_HASH: u32 buckets, first symbol, bloom words, bloom shift; u64 bloom[];
 * u32 bucket[]; u32 chain[], the lowest bit of which ends a chain. */
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
