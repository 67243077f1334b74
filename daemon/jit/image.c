#include "jit/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001 /* x86-64 psABI 4.2.3: LLVM's type of .eh_frame */
#endif
#define SYMBOLS_MAX (1u << 18)
#define NAMES_MAX (16u << 20) /* names may share their bytes: more than the image can be meant */
#define PROBE_HEADERS 4096u
#define PROBE_NAMES 16384u

struct elf {
	const char *bytes;
	size_t len;
	Elf64_Ehdr header;
	const char *sections;   /* Elf64_Shdr[n], perhaps not aligned */
	uint32_t n;
	Elf64_Shdr names;
	bool relocatable;
};

static bool inside(const struct elf *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->len && size <= elf->len - offset;
}

static Elf64_Shdr section(const struct elf *elf, uint32_t i)
{
	Elf64_Shdr s;

	memcpy(&s, elf->sections + (size_t)i * sizeof(s), sizeof(s));
	return s;
}

/* A string of a table; NULL: it does not end there. */
static const char *string(const struct elf *elf, const Elf64_Shdr *table, uint32_t offset)
{
	const char *begin;

	if (table->sh_type == SHT_NOBITS || !inside(elf, table->sh_offset, table->sh_size) ||
	    offset >= table->sh_size)
		return NULL;
	begin = elf->bytes + table->sh_offset;
	return begin[table->sh_size - 1] ? NULL : begin + offset; /* gABI: a table ends with NUL */
}

static bool section_is(const struct elf *elf, const Elf64_Shdr *s, const char *name)
{
	const char *found = string(elf, &elf->names, s->sh_name);

	return found && !strcmp(found, name);
}

static int open_elf(struct elf *elf)
{
	Elf64_Ehdr *h = &elf->header;
	uint64_t n, names;
	Elf64_Shdr first;

	if (elf->len < sizeof(*h))
		return -EBADMSG;
	memcpy(h, elf->bytes, sizeof(*h));
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_shentsize != sizeof(first) ||
	    h->e_ehsize != sizeof(*h))
		return -EBADMSG;
	if (!h->e_shoff || !inside(elf, h->e_shoff, sizeof(first)))
		return -EBADMSG;
	elf->sections = elf->bytes + h->e_shoff;
	elf->n = 1;
	first = section(elf, 0);
	n = h->e_shnum ? h->e_shnum : first.sh_size; /* gABI: more than 0xff00 sections */
	names = h->e_shstrndx == SHN_XINDEX ? first.sh_link : h->e_shstrndx;
	if (!n || n > elf->len / sizeof(first) || !inside(elf, h->e_shoff, n * sizeof(first)) ||
	    names >= n)
		return -EBADMSG;
	elf->n = (uint32_t)n;
	elf->names = section(elf, (uint32_t)names);
	elf->relocatable = h->e_type == ET_REL;
	return 0;
}

/* Code that has been placed. LLVM leaves an empty .text at address 0 beside .ltext. */
static bool is_code(const Elf64_Shdr *s)
{
	return (s->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == (SHF_ALLOC | SHF_EXECINSTR) &&
	       s->sh_addr && s->sh_size && s->sh_size <= UINT32_MAX &&
	       s->sh_addr + s->sh_size > s->sh_addr;
}

static int by_range(const void *a, const void *b)
{
	const struct jit_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int read_ranges(const struct elf *elf, struct jit_image *image)
{
	uint32_t i, n = 0;

	for (i = 0; i < elf->n; i++) {
		Elf64_Shdr s = section(elf, i);

		n += is_code(&s);
	}
	if (!n)
		return 0;
	image->ranges = malloc(n * sizeof(*image->ranges));
	if (!image->ranges)
		return -ENOMEM;
	for (i = 0; i < elf->n; i++) {
		Elf64_Shdr s = section(elf, i);

		if (is_code(&s))
			image->ranges[image->n_ranges++] =
				(struct jit_range){s.sh_addr, s.sh_addr + s.sh_size};
	}
	qsort(image->ranges, n, sizeof(*image->ranges), by_range);
	/* Sections are apart from each other where an object was really loaded. */
	for (i = 1; i < n; i++)
		if (image->ranges[i].start < image->ranges[i - 1].end)
			return -EBADMSG;
	return 0;
}

static const struct jit_range *range_of(const struct jit_image *image, uint64_t address)
{
	uint32_t lo = 0, hi = image->n_ranges;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (image->ranges[mid].end <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < image->n_ranges && image->ranges[lo].start <= address ? &image->ranges[lo] : NULL;
}

/* The address of a symbol; false: it has none here. */
static bool symbol_address(const struct elf *elf, const Elf64_Sym *symbol, uint64_t *ret)
{
	Elf64_Shdr s;

	if (symbol->st_shndx == SHN_ABS || (!elf->relocatable && symbol->st_shndx != SHN_UNDEF)) {
		*ret = symbol->st_value;
		return true;
	}
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= elf->n)
		return false;
	s = section(elf, symbol->st_shndx);
	*ret = s.sh_addr + symbol->st_value;
	return s.sh_addr != 0;
}

struct candidate {
	uint64_t start;
	uint64_t size;
	const char *name;
	bool local;
};

static int by_candidate(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->local != y->local)
		return x->local ? 1 : -1; /* an alias that is seen from outside is the better name */
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name; /* places, as strings may be long */
}

static bool candidate(const struct elf *elf, const struct jit_image *image, const Elf64_Shdr *names,
		      const Elf64_Sym *symbol, struct candidate *ret)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	const struct jit_range *range;

	if (type != STT_FUNC && type != STT_GNU_IFUNC)
		return false;
	if (!symbol_address(elf, symbol, &ret->start))
		return false;
	range = range_of(image, ret->start);
	if (!range)
		return false;
	ret->size = symbol->st_size;
	if (ret->size > range->end - ret->start)
		ret->size = range->end - ret->start;
	ret->local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;
	ret->name = string(elf, names, symbol->st_name);
	return ret->name && *ret->name;
}

/* Sorts, leaves one symbol for each address, and gives a size to those without. */
static uint32_t tidy(const struct jit_image *image, struct candidate *c, uint32_t n)
{
	uint32_t i, kept = 0;

	qsort(c, n, sizeof(*c), by_candidate);
	for (i = 0; i < n; i++)
		if (!kept || c[kept - 1].start != c[i].start)
			c[kept++] = c[i];
	for (i = 0; i < kept; i++) {
		const struct jit_range *range = range_of(image, c[i].start);

		if (!c[i].size)
			c[i].size = (i + 1 < kept && c[i + 1].start < range->end ? c[i + 1].start
										: range->end) -
				    c[i].start;
	}
	return kept;
}

static int keep_symbols(struct jit_image *image, const struct candidate *c, uint32_t n)
{
	size_t len = 0, name_len;
	uint32_t i;

	for (i = 0; i < n; i++) {
		len += strnlen(c[i].name, JIT_NAME_MAX) + 1;
		if (len > NAMES_MAX)
			return -EBADMSG;
	}
	image->symbols = malloc(n * sizeof(*image->symbols));
	image->names = malloc(len);
	if (!image->symbols || !image->names)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		name_len = strnlen(c[i].name, JIT_NAME_MAX);
		image->symbols[i] = (struct jit_image_symbol){
			.start = c[i].start,
			.size = (uint32_t)c[i].size,
			.name = (uint32_t)image->names_len,
		};
		memcpy(image->names + image->names_len, c[i].name, name_len);
		image->names[image->names_len + name_len] = 0;
		image->names_len += name_len + 1;
	}
	image->n_symbols = n;
	return 0;
}

static int read_symbols(const struct elf *elf, const Elf64_Shdr *table, struct jit_image *image)
{
	_cleanup_free_ struct candidate *found = NULL;
	uint64_t n = table->sh_size / sizeof(Elf64_Sym), i;
	uint32_t kept = 0;
	Elf64_Shdr names;
	Elf64_Sym symbol;

	if (!inside(elf, table->sh_offset, table->sh_size) || table->sh_entsize != sizeof(symbol) ||
	    table->sh_link >= elf->n)
		return -EBADMSG;
	names = section(elf, table->sh_link);
	image->probe[1].offset = names.sh_offset;
	if (inside(elf, names.sh_offset, names.sh_size))
		image->probe[1].len = names.sh_size < PROBE_NAMES ? (uint32_t)names.sh_size : PROBE_NAMES;
	if (!n || !image->n_ranges)
		return 0;
	if (n > SYMBOLS_MAX)
		return -EBADMSG;
	found = malloc(n * sizeof(*found));
	if (!found)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		memcpy(&symbol, elf->bytes + table->sh_offset + i * sizeof(symbol), sizeof(symbol));
		kept += candidate(elf, image, &names, &symbol, &found[kept]);
	}
	if (!kept)
		return 0;
	return keep_symbols(image, found, tidy(image, found, kept));
}

/* --- .eh_frame: the relocations that compilers emit for it --- */

static const struct relocation {
	uint16_t machine, type;
	uint8_t width;
	bool relative;          /* to the place that is relocated */
} relocations[] = {
	{EM_X86_64, R_X86_64_64, 8, false},
	{EM_X86_64, R_X86_64_PC64, 8, true},
	{EM_X86_64, R_X86_64_PC32, 4, true},
	{EM_X86_64, R_X86_64_PLT32, 4, true},
	{EM_X86_64, R_X86_64_32, 4, false},
	{EM_X86_64, R_X86_64_32S, 4, false},
	{EM_AARCH64, R_AARCH64_ABS64, 8, false},
	{EM_AARCH64, R_AARCH64_PREL64, 8, true},
	{EM_AARCH64, R_AARCH64_PREL32, 4, true},
};

/* False: it is of a kind that is not known, or does not fit. */
static bool apply(const struct elf *elf, const Elf64_Rela *rela, const Elf64_Sym *symbol,
		  struct jit_unwind *unwind)
{
	const struct relocation *r = NULL;
	uint64_t value;
	size_t i;

	for (i = 0; i < sizeof(relocations) / sizeof(*relocations); i++)
		if (relocations[i].machine == elf->header.e_machine &&
		    relocations[i].type == ELF64_R_TYPE(rela->r_info))
			r = &relocations[i];
	if (!r || rela->r_offset > unwind->len || unwind->len - rela->r_offset < r->width)
		return false;
	if (!symbol_address(elf, symbol, &value))
		return symbol->st_shndx == SHN_UNDEF; /* of another module: a personality routine */
	value += (uint64_t)rela->r_addend;
	if (r->relative)
		value -= unwind->address + rela->r_offset;
	if (r->width == 4 && (int64_t)value != (int32_t)value && value >> 32)
		return false;
	memcpy(unwind->eh_frame + rela->r_offset, &value, r->width); /* little-endian */
	return true;
}

static bool relocate(const struct elf *elf, uint32_t target, struct jit_unwind *unwind)
{
	bool whole = true;
	uint32_t i;

	for (i = 0; i < elf->n; i++) {
		Elf64_Shdr s = section(elf, i), symbols;
		Elf64_Rela rela;
		Elf64_Sym symbol;
		uint64_t at;

		if (s.sh_info != target || (s.sh_type != SHT_RELA && s.sh_type != SHT_REL))
			continue;
		if (s.sh_type == SHT_REL || s.sh_link >= elf->n ||
		    !inside(elf, s.sh_offset, s.sh_size))
			return false;
		symbols = section(elf, s.sh_link);
		if (!inside(elf, symbols.sh_offset, symbols.sh_size) || symbols.sh_type == SHT_NOBITS)
			return false;
		for (at = 0; at + sizeof(rela) <= s.sh_size; at += sizeof(rela)) {
			uint64_t index;

			memcpy(&rela, elf->bytes + s.sh_offset + at, sizeof(rela));
			index = ELF64_R_SYM(rela.r_info);
			if (index >= symbols.sh_size / sizeof(symbol))
				return false;
			memcpy(&symbol, elf->bytes + symbols.sh_offset + index * sizeof(symbol),
			       sizeof(symbol));
			whole &= apply(elf, &rela, &symbol, unwind);
		}
		break; /* a second table for the same section would be a lie, and quadratic */
	}
	return whole;
}

static int read_unwind(const struct elf *elf, uint32_t index, const Elf64_Shdr *s,
		       struct jit_image *image)
{
	struct jit_unwind *unwind = &image->unwind;

	if (!inside(elf, s->sh_offset, s->sh_size))
		return -EBADMSG;
	unwind->eh_frame = malloc(s->sh_size);
	if (!unwind->eh_frame)
		return -ENOMEM;
	memcpy(unwind->eh_frame, elf->bytes + s->sh_offset, s->sh_size);
	unwind->len = s->sh_size;
	unwind->address = s->sh_addr;
	unwind->whole = !elf->relocatable || relocate(elf, index, unwind);
	return 0;
}

/* LLVM writes names and section headers side by side: one read is cheaper than two. */
static void join_probes(struct jit_image *image)
{
	uint64_t from = image->probe[0].offset, to = from + image->probe[0].len;

	if (!image->probe[1].len)
		return;
	if (image->probe[1].offset < from)
		from = image->probe[1].offset;
	if (image->probe[1].offset + image->probe[1].len > to)
		to = image->probe[1].offset + image->probe[1].len;
	if (to - from > PROBE_NAMES)
		return;
	image->probe[0].offset = from;
	image->probe[0].len = (uint32_t)(to - from);
	image->probe[1].len = 0;
}

static int parse(const struct elf *elf, struct jit_image *image)
{
	Elf64_Shdr dynsym = {}, symtab = {};
	int err = read_ranges(elf, image);
	uint32_t i;

	image->probe[0].offset = elf->header.e_shoff;
	image->probe[0].len = elf->n < PROBE_HEADERS / sizeof(Elf64_Shdr)
				      ? elf->n * (uint32_t)sizeof(Elf64_Shdr)
				      : PROBE_HEADERS;
	for (i = 0; i < elf->n && !err; i++) {
		Elf64_Shdr s = section(elf, i);

		if (s.sh_type == SHT_SYMTAB && !symtab.sh_type)
			symtab = s;
		else if (s.sh_type == SHT_DYNSYM && !dynsym.sh_type)
			dynsym = s;
		else if (s.sh_type == SHT_PROGBITS && s.sh_size && !image->has_lines &&
			 section_is(elf, &s, ".debug_line"))
			image->has_lines = true;
		else if ((s.sh_type == SHT_PROGBITS || s.sh_type == SHT_X86_64_UNWIND) && s.sh_addr &&
			 s.sh_size && !image->unwind.eh_frame && section_is(elf, &s, ".eh_frame"))
			err = read_unwind(elf, i, &s, image);
	}
	if (!err && symtab.sh_type)
		err = read_symbols(elf, &symtab, image);
	else if (!err && dynsym.sh_type)
		err = read_symbols(elf, &dynsym, image);
	join_probes(image);
	return err;
}

int jit_image__parse(const void *bytes, size_t len, struct jit_image *ret)
{
	struct elf elf = {.bytes = bytes, .len = len};
	int err;

	*ret = (struct jit_image){};
	err = open_elf(&elf);
	if (!err)
		err = parse(&elf, ret);
	if (err)
		jit_image__free(ret);
	return err;
}

void jit_image__free(struct jit_image *image)
{
	free(image->ranges);
	free(image->symbols);
	free(image->names);
	free(image->unwind.eh_frame);
	*image = (struct jit_image){};
}
