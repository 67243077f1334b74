/* Program headers and the dynamic section only: section headers may be gone. */
#include "classes/data.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PHDRS_MAX 512u
#define RELOCATIONS_MAX (8u << 20)
#define RELOCATIONS_AT_ONCE 1024u
#define SYMBOLS_MAX 65536u

static int get(struct unwind_source *source, void *dst, uint64_t size, uint64_t offset)
{
	if (offset > source->size || size > source->size - offset)
		return -EBADMSG;
	return source->read(source, dst, size, offset);
}

#define PIECE 4096u
#define PIECES 16u
struct data_pieces {
	uint64_t numbers[PIECES]; /* + 1; 0: none */
	uint8_t bytes[PIECES][PIECE];
};

/* As get(), of what is short. */
static int get_near(const struct data *data, void *dst, uint64_t size, uint64_t offset)
{
	struct data_pieces *pieces = data->pieces;
	uint64_t number = offset / PIECE, slot = number % PIECES;

	if (!pieces || offset % PIECE + size > PIECE || (number + 1) * PIECE > data->source->size)
		return get(data->source, dst, size, offset);
	if (pieces->numbers[slot] != number + 1) {
		pieces->numbers[slot] = 0;
		if (get(data->source, pieces->bytes[slot], PIECE, number * PIECE))
			return get(data->source, dst, size, offset);
		pieces->numbers[slot] = number + 1;
	}
	memcpy(dst, pieces->bytes[slot] + offset % PIECE, size);
	return 0;
}

static const struct data_segment *segment_of(const struct data *data, uint64_t vaddr)
{
	uint32_t i;

	for (i = 0; i < data->n_segments; i++)
		if (vaddr >= data->segments[i].start && vaddr < data->segments[i].end)
			return &data->segments[i];
	return NULL;
}

/* `size` bytes at vaddr, which lie in one segment: where in the file. */
static bool file_offset(const struct data *data, uint64_t vaddr, uint64_t size, uint64_t *ret)
{
	const struct data_segment *segment = segment_of(data, vaddr);

	if (!segment || size > segment->end - vaddr)
		return false;
	*ret = segment->offset + (vaddr - segment->start);
	return true;
}

static uint8_t *bytes_at(const struct data *data, uint64_t vaddr, uint64_t size)
{
	const struct data_segment *segment = segment_of(data, vaddr);

	if (!segment || !segment->writable || size > segment->end - vaddr)
		return NULL;
	return data->bytes + segment->bytes + (vaddr - segment->start);
}

bool data__word(const struct data *data, uint64_t vaddr, uint64_t *ret)
{
	const uint8_t *at = bytes_at(data, vaddr, sizeof(*ret));

	if (at)
		memcpy(ret, at, sizeof(*ret));
	return at;
}

bool data__is_code(const struct data *data, uint64_t vaddr)
{
	const struct data_segment *segment = segment_of(data, vaddr);

	return segment && segment->code;
}

bool data__is_constant(const struct data *data, uint64_t vaddr)
{
	const struct data_segment *segment = segment_of(data, vaddr);

	return segment && !segment->writable;
}

bool data__is_variable(const struct data *data, uint64_t vaddr)
{
	const struct data_segment *segment = segment_of(data, vaddr);

	return segment && segment->writable;
}

bool data__string(const struct data *data, uint64_t vaddr, char *ret, uint32_t size)
{
	const struct data_segment *segment = segment_of(data, vaddr);
	uint64_t left;

	if (!segment || !size)
		return false;
	left = segment->end - vaddr;
	if (left < size)
		size = (uint32_t)left;
	return !get_near(data, ret, size, segment->offset + (vaddr - segment->start)) &&
	       memchr(ret, 0, size);
}

bool data__bytes(const struct data *data, uint64_t vaddr, void *ret, uint32_t size)
{
	uint64_t offset;

	return file_offset(data, vaddr, size, &offset) && !get_near(data, ret, size, offset);
}

/* Their count is told nowhere but in hash tables: they end where their names begin, as linkers place them. */
static int read_symbols(struct data *data, uint64_t symbols, uint64_t strings)
{
	const struct data_segment *segment = segment_of(data, symbols);
	uint64_t size;

	if (!symbols || !segment)
		return 0;
	size = segment->end - symbols;
	if (strings > symbols && strings - symbols < size)
		size = strings - symbols;
	if (size > SYMBOLS_MAX * sizeof(Elf64_Sym))
		size = SYMBOLS_MAX * sizeof(Elf64_Sym);
	data->symbols = malloc(size + 1);
	if (!data->symbols)
		return -ENOMEM;
	data->n_symbols = (uint32_t)(size / sizeof(Elf64_Sym));
	return get(data->source, data->symbols, size, segment->offset + (symbols - segment->start));
}

bool data__symbol(const struct data *data, const char *name, uint64_t *ret)
{
	const Elf64_Sym *symbols = (const Elf64_Sym *)data->symbols;
	uint32_t i, size = (uint32_t)strlen(name) + 1;
	char text[64];

	for (i = 1; size <= sizeof(text) && i < data->n_symbols; i++)
		if (symbols[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
		    data__bytes(data, data->strings + symbols[i].st_name, text, size) && !memcmp(text, name, size)) {
			*ret = symbols[i].st_value;
			return true;
		}
	return false;
}

bool data__is_exported(const struct data *data, uint64_t vaddr)
{
	const Elf64_Sym *symbols = (const Elf64_Sym *)data->symbols;
	uint32_t i;

	for (i = 1; i < data->n_symbols; i++)
		if (symbols[i].st_value == vaddr && symbols[i].st_shndx != SHN_UNDEF)
			return true;
	return false;
}

static bool begins(const struct data *data, uint64_t name, const char *const *prefixes)
{
	char text[16];
	uint32_t size;

	for (; *prefixes; prefixes++) {
		size = (uint32_t)strlen(*prefixes);
		if (size <= sizeof(text) && data__bytes(data, name, text, size) && !memcmp(text, *prefixes, size))
			return true;
	}
	return false;
}

bool data__is_exported_as(const struct data *data, uint64_t vaddr, const char *const *prefixes)
{
	const Elf64_Sym *symbols = (const Elf64_Sym *)data->symbols;
	uint32_t i;

	for (i = 1; i < data->n_symbols; i++)
		if (symbols[i].st_value == vaddr && symbols[i].st_shndx != SHN_UNDEF && begins(data, data->strings + symbols[i].st_name, prefixes))
			return true;
	return false;
}

/* --- opening --- */

static int read_segments(struct data *data, const Elf64_Phdr *headers, uint32_t n)
{
	uint64_t total = 0;
	uint32_t i;

	for (i = 0; i < n && data->n_segments < DATA_SEGMENTS; i++) {
		const Elf64_Phdr *h = &headers[i];
		struct data_segment *segment = &data->segments[data->n_segments];
		uint64_t source = data->source->size;

		if (h->p_type != PT_LOAD || !h->p_filesz || h->p_offset > source ||
		    h->p_filesz > source - h->p_offset || h->p_vaddr > UINT64_MAX - h->p_filesz)
			continue;
		*segment = (struct data_segment){.start = h->p_vaddr,
						 .end = h->p_vaddr + h->p_filesz,
						 .offset = h->p_offset,
						 .bytes = total,
						 .code = h->p_flags & PF_X,
						 .writable = h->p_flags & PF_W};
		if (segment->writable) {
			if (h->p_filesz > DATA_BYTES - total)
				return -E2BIG;
			total += h->p_filesz;
		}
		data->n_segments++;
	}
	if (!total)
		return -ENOENT;
	return 0;
}

static int read_bytes(struct data *data)
{
	uint64_t total = 0;
	uint32_t i;
	int err = 0;

	for (i = 0; i < data->n_segments; i++)
		if (data->segments[i].writable)
			total += data->segments[i].end - data->segments[i].start;
	data->bytes = malloc(total);
	if (!data->bytes)
		return -ENOMEM;
	for (i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable)
			err = get(data->source, data->bytes + data->segments[i].bytes,
				  data->segments[i].end - data->segments[i].start,
				  data->segments[i].offset);
	return err;
}

struct dynamic {
	uint64_t rela, rela_size, plt, plt_size, strings, strings_size, symbols;
};

static int read_dynamic(const struct data *data, const Elf64_Phdr *headers, uint32_t n,
			struct dynamic *ret)
{
	static const struct {
		int64_t tag;
		size_t offset;
	} members[] = {
		{DT_RELA, offsetof(struct dynamic, rela)},	 {DT_RELASZ, offsetof(struct dynamic, rela_size)},
		{DT_JMPREL, offsetof(struct dynamic, plt)},	 {DT_PLTRELSZ, offsetof(struct dynamic, plt_size)},
		{DT_STRTAB, offsetof(struct dynamic, strings)},	 {DT_STRSZ, offsetof(struct dynamic, strings_size)},
		{DT_SYMTAB, offsetof(struct dynamic, symbols)},
	};
	uint64_t at, left;
	Elf64_Dyn entry;
	uint32_t i;

	*ret = (struct dynamic){};
	for (i = 0; i < n && headers[i].p_type != PT_DYNAMIC; i++)
		;
	if (i == n)
		return -ENOENT;
	at = headers[i].p_offset;
	for (left = headers[i].p_filesz / sizeof(entry); left && left < 4096; left--, at += sizeof(entry)) {
		if (get(data->source, &entry, sizeof(entry), at))
			return -EBADMSG;
		if (entry.d_tag == DT_NULL)
			break;
		for (i = 0; i < sizeof(members) / sizeof(members[0]); i++)
			if (members[i].tag == entry.d_tag)
				memcpy((char *)ret + members[i].offset, &entry.d_un.d_val, sizeof(uint64_t));
	}
	return 0;
}

/* A program that patchelf has changed has its names across two segments. */
static bool names_have(const struct data *data, const struct dynamic *dynamic, const char *needs)
{
	uint64_t left = dynamic->strings_size, at = dynamic->strings, part;
	const struct data_segment *segment;
	_cleanup_free_ char *names = malloc(DATA_STRINGS);
	bool found = false;

	for (left = left < DATA_STRINGS ? left : DATA_STRINGS; names && !found && left; left -= part, at += part) {
		segment = segment_of(data, at);
		if (!segment)
			break;
		part = segment->end - at < left ? segment->end - at : left;
		if (get(data->source, names, part, segment->offset + (at - segment->start)))
			break;
		found = memmem(names, part, needs, strlen(needs));
	}
	return found;
}

/* psABI x86-64, table 4.9. Addresses that other files give become 0. */
static void relocate(struct data *data, const struct dynamic *dynamic, const Elf64_Rela *rela)
{
	uint8_t *at = bytes_at(data, rela->r_offset, 8);
	uint64_t value = 0, offset;
	Elf64_Sym symbol;

	switch (at ? ELF64_R_TYPE(rela->r_info) : R_X86_64_NONE) {
	case R_X86_64_RELATIVE:
		value = (uint64_t)rela->r_addend;
		break;
	case R_X86_64_64:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		if (file_offset(data, dynamic->symbols + ELF64_R_SYM(rela->r_info) * sizeof(symbol),
				sizeof(symbol), &offset) &&
		    !get(data->source, &symbol, sizeof(symbol), offset) && symbol.st_shndx != SHN_UNDEF)
			value = symbol.st_value + (uint64_t)rela->r_addend;
		break;
	default:
		return;
	}
	memcpy(at, &value, sizeof(value));
}

static int relocate_all(struct data *data, const struct dynamic *dynamic, uint64_t table, uint64_t size)
{
	uint64_t n = size / sizeof(Elf64_Rela), done, part, i, offset;
	_cleanup_free_ Elf64_Rela *rows = malloc(RELOCATIONS_AT_ONCE * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	if (n > RELOCATIONS_MAX)
		return -E2BIG;
	if (!n || !file_offset(data, table, n * sizeof(*rows), &offset))
		return 0;
	for (done = 0; done < n; done += part) {
		part = n - done < RELOCATIONS_AT_ONCE ? n - done : RELOCATIONS_AT_ONCE;
		if (get(data->source, rows, part * sizeof(*rows), offset + done * sizeof(*rows)))
			return -EBADMSG;
		for (i = 0; i < part; i++)
			relocate(data, dynamic, &rows[i]);
	}
	return 0;
}

int data__open(struct unwind_source *source, const char *needs, struct data *ret)
{
	_cleanup_free_ Elf64_Phdr *headers = NULL;
	struct dynamic dynamic;
	Elf64_Ehdr header;
	int err;

	*ret = (struct data){.source = source};
	err = get(source, &header, sizeof(header), 0);
	if (err)
		return err;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phentsize != sizeof(*headers) || !header.e_phnum || header.e_phnum > PHDRS_MAX)
		return -EBADMSG;
	headers = malloc(header.e_phnum * sizeof(*headers));
	if (!headers)
		return -ENOMEM;
	err = get(source, headers, header.e_phnum * sizeof(*headers), header.e_phoff);
	if (!err)
		err = read_segments(ret, headers, header.e_phnum);
	if (!err)
		err = read_dynamic(ret, headers, header.e_phnum, &dynamic);
	if (!err && !names_have(ret, &dynamic, needs))
		err = -ENOENT;
	if (!err) {
		ret->strings = dynamic.strings;
		ret->pieces = calloc(1, sizeof(*ret->pieces));
		err = read_symbols(ret, dynamic.symbols, dynamic.strings);
	}
	if (!err) {
		err = read_bytes(ret);
	}
	if (!err)
		err = relocate_all(ret, &dynamic, dynamic.rela, dynamic.rela_size);
	if (!err)
		err = relocate_all(ret, &dynamic, dynamic.plt, dynamic.plt_size);
	if (err)
		data__free(ret);
	return err;
}

void data__free(struct data *data)
{
	free(data->bytes);
	free(data->symbols);
	free(data->pieces);
	*data = (struct data){};
}
