/* SPDX-License-Identifier: MIT */
/* Loads the writable segments of an ELF file and applies relocations (data.h). Uses program headers and the dynamic
 * section only: section headers may be stripped. */
#include "classes/data.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/order.h"
#include "elf/relocation.h"

#define RELOCATIONS_MAX (8u << 20)
#define RELOCATIONS_AT_ONCE 1024u
#define SYMBOLS_MAX 65536u

/* A direct-mapped cache of file pages, for the many short reads of names: they lie close together. */
#define PIECE 4096u
#define PIECES 16u
struct data_pieces {
	uint64_t numbers[PIECES]; /* page number + 1; 0: empty */
	uint8_t bytes[PIECES][PIECE];
};

/* As elf_bytes__read(), through the cache if the bytes lie in one page. */
static int get_near(const struct data *data, void *dst, uint64_t size, uint64_t offset)
{
	struct data_pieces *pieces = data->pieces;
	uint64_t number = offset / PIECE, slot = number % PIECES;

	if (!pieces || offset % PIECE + size > PIECE || (number + 1) * PIECE > data->source->size)
		return elf_bytes__read(data->source, offset, dst, size);
	if (pieces->numbers[slot] != number + 1) {
		pieces->numbers[slot] = 0;
		if (elf_bytes__read(data->source, number * PIECE, pieces->bytes[slot], PIECE))
			return elf_bytes__read(data->source, offset, dst, size);
		pieces->numbers[slot] = number + 1;
	}
	memcpy(dst, pieces->bytes[slot] + offset % PIECE, size);
	return 0;
}

/* Linear: there are few segments. NULL: not in the file, which includes .bss. */
static const struct data_segment *segment_of(const struct data *data, uint64_t vaddr)
{
	for (uint32_t i = 0; i < data->n_segments; i++)
		if (vaddr >= data->segments[i].start && vaddr < data->segments[i].end)
			return &data->segments[i];
	return NULL;
}

/* The file offset of `size` bytes at vaddr; false: they do not lie in one segment. */
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

const uint8_t *data__at(const struct data *data, uint64_t vaddr, uint64_t size)
{
	return bytes_at(data, vaddr, size);
}

bool data__word(const struct data *data, uint64_t vaddr, uint64_t *ret)
{
	const uint8_t *at = data__at(data, vaddr, sizeof(*ret));

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

static int each_block(const struct data *data, const struct data_segment *segment, uint32_t overlap, uint8_t *code,
		      int (*find)(void *ctx, uint64_t at, const uint8_t *code, uint32_t size), void *ctx)
{
	int err = 0;

	for (uint64_t at = segment->start; !err && at < segment->end; at += DATA_CODE_AT_ONCE) {
		const uint64_t left = segment->end - at;
		const uint32_t size = left < DATA_CODE_AT_ONCE + overlap ? (uint32_t)left : DATA_CODE_AT_ONCE + overlap;

		err = data__bytes(data, at, code, size) ? find(ctx, at, code, size) : -EBADMSG;
	}
	return err;
}

int data__each_code(const struct data *data, uint32_t overlap, int (*find)(void *ctx, uint64_t at, const uint8_t *code, uint32_t size), void *ctx)
{
	/* The vectorised search reads MACHINE_SCAN bytes at once, and one more. */
	_cleanup_free_ uint8_t *code = malloc(DATA_CODE_AT_ONCE + overlap + MACHINE_SCAN + 1);
	int err = code ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].code)
			err = each_block(data, &data->segments[i], overlap, code, find, ctx);
	return err;
}

/* A sorted array of addresses: data__is_exported() is called for each jump that is found. */
static int sort_exported(struct data *data)
{
	const Elf64_Sym *symbols = data->symbols;

	data->exported = malloc((data->n_symbols + 1) * sizeof(*data->exported));
	if (!data->exported)
		return -ENOMEM;
	for (uint32_t i = 1; i < data->n_symbols; i++)
		if (symbols[i].st_shndx != SHN_UNDEF)
			data->exported[data->n_exported++] = symbols[i].st_value;
	qsort(data->exported, data->n_exported, sizeof(*data->exported), order__u64);
	return 0;
}

/* The dynamic section does not say how many symbols there are. Linkers place the string table right after them, so they
 * end where it begins, or with the segment. */
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
	return elf_bytes__read(data->source, segment->offset + (symbols - segment->start), data->symbols, size) ?: sort_exported(data);
}

/* Linear over the dynamic symbols; called some 30 times for an interpreter. */
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
	return data->n_exported && bsearch(&vaddr, data->exported, data->n_exported, sizeof(vaddr), order__u64);
}

static bool begins(const struct data *data, uint64_t name, const char *const *prefixes)
{
	char text[16];

	for (; *prefixes; prefixes++) {
		uint32_t size = (uint32_t)strlen(*prefixes);

		if (size <= sizeof(text) && data__bytes(data, name, text, size) && !memcmp(text, *prefixes, size))
			return true;
	}
	return false;
}

bool data__is_exported_as(const struct data *data, uint64_t vaddr, const char *const *prefixes)
{
	const Elf64_Sym *symbols = (const Elf64_Sym *)data->symbols;

	if (!data__is_exported(data, vaddr))
		return false;
	for (uint32_t i = 1; i < data->n_symbols; i++)
		if (symbols[i].st_value == vaddr && symbols[i].st_shndx != SHN_UNDEF && begins(data, data->strings + symbols[i].st_name, prefixes))
			return true;
	return false;
}

/* --- opening --- */

/* -ENOENT: nothing is writable, so there are no tables. The total of writable bytes is bounded here, before anything
 * is allocated. */
static int read_segments(struct data *data, const struct elf_image *image)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < image->n_segments && data->n_segments < DATA_SEGMENTS; i++) {
		const Elf64_Phdr *h = &image->segments[i];
		struct data_segment *segment = &data->segments[data->n_segments];

		if (h->p_type != PT_LOAD || !h->p_filesz ||
		    !elf_bytes__has(data->source, h->p_offset, h->p_filesz) ||
		    h->p_vaddr > UINT64_MAX - h->p_filesz)
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
	int err = 0;

	for (uint32_t i = 0; i < data->n_segments; i++)
		if (data->segments[i].writable)
			total += data->segments[i].end - data->segments[i].start;
	data->bytes = malloc(total);
	if (!data->bytes)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable)
			err = elf_bytes__read(data->source, data->segments[i].offset,
					      data->bytes + data->segments[i].bytes,
					      data->segments[i].end - data->segments[i].start);
	return err;
}

/* Does a dynamic symbol's name contain `needs`? The names may lie across two segments (after patchelf). */
static bool names_have(const struct data *data, const struct elf_tags *tags, const char *needs)
{
	uint64_t left = tags->strings_size, at = tags->strings, part;
	_cleanup_free_ char *names = malloc(DATA_STRINGS);
	bool found = false;

	for (left = left < DATA_STRINGS ? left : DATA_STRINGS; names && !found && left; left -= part, at += part) {
		const struct data_segment *segment = segment_of(data, at);

		if (!segment)
			break;
		part = segment->end - at < left ? segment->end - at : left;
		if (elf_bytes__read(data->source, segment->offset + (at - segment->start), names,
				    part))
			break;
		found = memmem(names, part, needs, strlen(needs));
	}
	return found;
}

/* Symbols beyond those that were loaded at once are read one by one. */
static bool symbol_at(const struct data *data, const struct elf_tags *tags, uint64_t number, Elf64_Sym *ret)
{
	uint64_t offset;

	if (number < data->n_symbols) {
		*ret = ((const Elf64_Sym *)data->symbols)[number];
		return true;
	}
	return file_offset(data, tags->symbols + number * sizeof(*ret), sizeof(*ret), &offset) &&
	       !elf_bytes__read(data->source, offset, ret, sizeof(*ret));
}

/* Applies one relocation as the dynamic linker would at load address 0; symbols of other files give 0. */
static void relocate(struct data *data, const struct elf_tags *tags, uint16_t machine,
		     const Elf64_Rela *rela)
{
	struct elf_relocation relocation = elf_relocation__of(machine, rela->r_info);
	uint8_t *at = bytes_at(data, rela->r_offset, 8);
	Elf64_Sym symbol;
	uint64_t value = 0;

	if (!at || relocation.width != sizeof(value))
		return;
	switch (relocation.kind) {
	case ELF_RELOCATION_BASE:
		value = (uint64_t)rela->r_addend;
		break;
	case ELF_RELOCATION_ABSOLUTE:
	case ELF_RELOCATION_SLOT:
		if (symbol_at(data, tags, ELF64_R_SYM(rela->r_info), &symbol) && symbol.st_shndx != SHN_UNDEF)
			value = symbol.st_value + (uint64_t)rela->r_addend;
		break;
	default:
		return;
	}
	memcpy(at, &value, sizeof(value));
}

/* RELA only, which is all that x86-64 has. What lies outside of the segments is skipped, not an error: the rest may
 * be good. */
static int relocate_all(struct data *data, const struct elf_tags *tags, uint16_t machine,
			uint64_t table, uint64_t size)
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
		if (elf_bytes__read(data->source, offset + done * sizeof(*rows), rows,
				    part * sizeof(*rows)))
			return -EBADMSG;
		for (i = 0; i < part; i++)
			relocate(data, tags, machine, &rows[i]);
	}
	return 0;
}

/* The names of dynamic symbols decide first (`needs`): most libraries of a process have nothing to do with Python,
 * and cost one read of their string table. */
static int read_all(struct data *data, const struct elf_image *image, const char *needs)
{
	struct elf_tags tags;
	int err = read_segments(data, image);

	err = err ?: elf_image__tags(image, &tags);
	if (!err && !names_have(data, &tags, needs))
		err = -ENOENT;
	if (err)
		return err;
	data->strings = tags.strings;
	data->pieces = calloc(1, sizeof(*data->pieces));
	err = read_symbols(data, tags.symbols, tags.strings);
	err = err ?: read_bytes(data);
	err = err ?: relocate_all(data, &tags, image->machine, tags.rela, tags.rela_size);
	return err ?: relocate_all(data, &tags, image->machine, tags.plt, tags.plt_size);
}

int data__open(const struct elf_bytes *source, const char *needs, struct data *ret)
{
	struct elf_image image;
	int err = elf_image__open(source, ELF_SEGMENTS, &image);

	*ret = (struct data){.source = source};
	err = err ?: read_all(ret, &image, needs);
	elf_image__free(&image);
	if (err)
		data__free(ret);
	return err;
}

void data__free(struct data *data)
{
	free(data->bytes);
	free(data->symbols);
	free(data->exported);
	free(data->pieces);
	*data = (struct data){};
}
