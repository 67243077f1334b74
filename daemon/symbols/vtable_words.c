/* SPDX-License-Identifier: MIT */
/* A library's dynamic symbols and relocations, as far as virtual tables and type information are made of them.
 *
 * The words of .data.rel.ro are 0 or addends in the file; what the dynamic linker would write there is computed from
 * the relocations (psABI: relative and absolute ones; gABI: SHT_RELR), in 32 bits each. Nothing is
 * read of the process. */
#include "symbols/vtable_words.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/relocation.h"

#define WORDS_MAX (16u << 20)
#define CHUNK 2048u /* read at once */
#define SYMBOLS_MAX (1u << 24)

int vtable__text(const struct elf_bytes *bytes, uint64_t at, char *ret, size_t size)
{
	size_t got;
	int err = elf_bytes__read_some(bytes, at, ret, size, &got);

	return err ? err : memchr(ret, 0, got) ? 0 : -ENOENT;
}

/* Entries of a table in the file, in order. */
static int each_entry(struct finder *f, uint64_t offset, uint64_t n, size_t size,
		      void (*take)(struct finder *f, uint64_t number, const void *entry))
{
	_cleanup_free_ char *chunk = malloc(CHUNK * size);
	uint64_t at, some, i;

	if (!chunk)
		return -ENOMEM;
	for (at = 0; at < n; at += some) {
		some = n - at < CHUNK ? n - at : CHUNK;
		if (elf_bytes__read(f->image->bytes, offset + at * size, chunk, some * size))
			return -ENOENT;
		for (i = 0; i < some; i++)
			take(f, at + i, chunk + i * size);
	}
	return 0;
}

/* The three names are the vtables of type information in libstdc++ and libc++abi: class without a base, with one,
 * with several. */
static void take_symbol(struct finder *f, uint64_t number, const void *entry)
{
	static const char *const names[] = {"_ZTVN10__cxxabiv117__class_type_infoE", "_ZTVN10__cxxabiv120__si_class_type_infoE",
					    "_ZTVN10__cxxabiv121__vmi_class_type_infoE"};
	const Elf64_Sym *symbol = entry;
	char name[64];

	f->values[number] = symbol->st_value < IS_SYMBOL ? (uint32_t)symbol->st_value : 0;
	if (symbol->st_shndx != SHN_UNDEF)
		return;
	f->values[number] = IS_SYMBOL | (uint32_t)number;
	if (!symbol->st_name || symbol->st_name >= f->symbols.strings_size ||
	    vtable__text(f->image->bytes, f->symbols.strings + symbol->st_name, name, sizeof(name)))
		return;
	for (unsigned k = 0; k < 3; k++)
		if (!strcmp(name, names[k]))
			f->kinds[k] = f->values[number];
}

/* Reads the values of all dynamic symbols, and finds the ABI's tables that each typeinfo begins with, which come
 * from the C++ library. */
static int read_symbols(struct finder *f)
{
	int err;

	if (f->symbols.n > SYMBOLS_MAX)
		return -ENOENT;
	f->values = malloc((size_t)f->symbols.n * sizeof(*f->values) + 1);
	if (!f->values)
		return -ENOMEM;
	err = each_entry(f, f->symbols.offset, f->symbols.n, sizeof(Elf64_Sym), take_symbol);
	if (err)
		return err;
	return f->kinds[0] || f->kinds[1] || f->kinds[2] ? 0 : -ENOENT;
}

/* Relocations of other sections are ignored, as are addresses that are not aligned. */
static void put_word(struct finder *f, uint64_t address, uint64_t value)
{
	if (address >= f->at && (address - f->at) / 8 < f->n_words && !(address & 7))
		f->words[(address - f->at) / 8] = (uint32_t)value;
}

/* An address of 2 GB or more is no word: it would read as a symbol. */
static void take_rela(struct finder *f, uint64_t number, const void *entry)
{
	const Elf64_Rela *r = entry;
	struct elf_relocation relocation = elf_relocation__of(f->image->machine, r->r_info);
	uint64_t symbol = ELF64_R_SYM(r->r_info), address = 0;

	if (relocation.kind == ELF_RELOCATION_BASE) {
		address = (uint64_t)r->r_addend;
	} else if (relocation.kind == ELF_RELOCATION_ABSOLUTE && relocation.width == 8 && symbol < f->symbols.n) {
		if (f->values[symbol] & IS_SYMBOL) {
			put_word(f, r->r_offset, f->values[symbol]);
			return;
		}
		address = f->values[symbol] + (uint64_t)r->r_addend;
	}
	if (address < IS_SYMBOL)
		put_word(f, r->r_offset, address);
}

/* Through a window of 8 KB, since tables are passed in ascending order. */
uint64_t finder__content(struct finder *f, uint64_t address)
{
	uint64_t at = address - f->window_at;
	size_t got;

	if (address - f->at >= (uint64_t)f->n_words * 8 || address & 7)
		return ~0ull;
	if (!f->window_at || at >= sizeof(f->window)) {
		f->window_at = address;
		at = 0;
		memset(f->window, 0xff, sizeof(f->window));
		if (elf_bytes__read_some(f->image->bytes, f->file + (address - f->at), f->window, sizeof(f->window), &got))
			f->window_at = 0;
	}
	return f->window[at / 8];
}

/* Packed relative relocations (gABI, SHT_RELR). An even entry is an address; an odd one is a bitmap of the 63 words
 * behind the last address. The addend of each stands in the file, in place. */
static void take_relr(struct finder *f, uint64_t number, const void *entry)
{
	uint64_t word = *(const uint64_t *)entry, address = word & 1 ? f->next : word, bits = word & 1 ? word >> 1 : 1, value;

	f->next = address + (word & 1 ? 63 : 1) * 8;
	for (; bits; bits >>= 1, address += 8)
		if (bits & 1 && (value = finder__content(f, address)) < IS_SYMBOL)
			put_word(f, address, value);
}

/* Libraries have their virtual tables in .data.rel.ro; a file without that section has none that this finds. */
static int read_words(struct finder *f)
{
	uint32_t number = elf_image__section(f->image, ".data.rel.ro"), i;
	const Elf64_Shdr *s = &f->image->sections[number];
	int err = 0;

	if (!number || s->sh_type != SHT_PROGBITS || s->sh_addr & 7 || s->sh_addr > IS_SYMBOL || s->sh_size / 8 > WORDS_MAX)
		return -ENOENT;
	f->at = s->sh_addr;
	f->file = s->sh_offset;
	f->n_words = (uint32_t)(s->sh_size / 8);
	f->words = calloc(f->n_words + 1, sizeof(*f->words));
	if (!f->words)
		return -ENOMEM;
	for (i = 1; i < f->image->n_sections && !err; i++) {
		s = &f->image->sections[i];
		if (!(s->sh_flags & SHF_ALLOC) ||
		    !elf_bytes__has(f->image->bytes, s->sh_offset, s->sh_size))
			continue;
		if (s->sh_type == SHT_RELA && s->sh_entsize == sizeof(Elf64_Rela))
			err = each_entry(f, s->sh_offset, s->sh_size / sizeof(Elf64_Rela), sizeof(Elf64_Rela), take_rela);
		else if (s->sh_type == SHT_RELR && s->sh_entsize == sizeof(Elf64_Relr))
			err = each_entry(f, s->sh_offset, s->sh_size / sizeof(Elf64_Relr), sizeof(Elf64_Relr), take_relr);
	}
	return err;
}

int finder__read(struct finder *f)
{
	int err = read_symbols(f);

	return err ? err : read_words(f);
}
