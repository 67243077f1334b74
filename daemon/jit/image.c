/* SPDX-License-Identifier: MIT */
/* Parses an ELF image that a JIT registered (image.h): code ranges, functions, .eh_frame. The bytes are a copy of the
 * target's memory and may be anything; each offset is checked against the image before it is used. */
#include "jit/image.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/order.h"
#include "elf/relocation.h"

#define SYMBOLS_MAX (1u << 18)
#define RELOCATIONS_MAX (4u << 20)
#define NAMES_MAX (16u << 20) /* all names together; symbols may share one name's bytes, so this can exceed the image */
#define PROBE_HEADERS 4096u /* bytes of section headers and of names that identify an object (list.c) */
#define PROBE_NAMES 16384u

/* A string of a string table; NULL: it does not end inside the table. */
static const char *string(const struct elf_image *elf, const Elf64_Shdr *table, uint32_t offset)
{
	const char *begin;

	if (table->sh_type == SHT_NOBITS ||
	    !elf_bytes__has(elf->bytes, table->sh_offset, table->sh_size) ||
	    offset >= table->sh_size)
		return NULL;
	begin = (const char *)elf->bytes->data + table->sh_offset;
	return begin[table->sh_size - 1] ? NULL : begin + offset; /* gABI: a string table ends with NUL */
}

/* A code section that was loaded. LLVM leaves an empty .text at address 0 beside .ltext. */
static bool is_code(const Elf64_Shdr *s)
{
	return (s->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == (SHF_ALLOC | SHF_EXECINSTR) &&
	       s->sh_addr && s->sh_size && s->sh_size <= UINT32_MAX &&
	       s->sh_addr + s->sh_size > s->sh_addr;
}

/* Two passes: count, then fill. Code ranges are the truth for everything else: a symbol outside of them is dropped. */
static int read_ranges(const struct elf_image *elf, struct jit_image *image)
{
	uint32_t i, n = 0;

	for (i = 0; i < elf->n_sections; i++)
		n += is_code(&elf->sections[i]);
	if (!n)
		return 0;
	image->ranges = malloc(n * sizeof(*image->ranges));
	if (!image->ranges)
		return -ENOMEM;
	for (i = 0; i < elf->n_sections; i++) {
		const Elf64_Shdr *s = &elf->sections[i];

		if (is_code(s))
			image->ranges[image->n_ranges++] =
				(struct range){s->sh_addr, s->sh_addr + s->sh_size};
	}
	qsort(image->ranges, n, sizeof(*image->ranges), order__u64);
	/* Loaded sections do not overlap: if they do, the image is not what was loaded. */
	for (i = 1; i < n; i++)
		if (image->ranges[i].start < image->ranges[i - 1].end)
			return -EBADMSG;
	return 0;
}

/* O(log n). NULL: `address` is in no code range. */
static const struct range *range_of(const struct jit_image *image, uint64_t address)
{
	return range__find(image->ranges, image->n_ranges, sizeof(*image->ranges), address, NULL);
}

/* A symbol that may become a function of the object. */
struct candidate {
	uint64_t start;
	uint64_t size;
	const char *name;
	bool local;
};

static int by_candidate(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	/* A global alias is the better name. Of names the addresses are compared: strings may be long, and any fixed
	 * order will do. */
	return ORDER(x->start, y->start) ?: ORDER(x->local, y->local) ?: ORDER(y->size, x->size)
		?: ORDER(x->name, y->name);
}

/* Is this symbol a function with a name in one of the code ranges? *ret: it, cut to its range. */
static bool candidate(const struct elf_image *elf, const struct jit_image *image,
		      const Elf64_Shdr *names, const Elf64_Sym *symbol, struct candidate *ret)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	const struct range *range;

	if (type != STT_FUNC && type != STT_GNU_IFUNC)
		return false;
	if (elf_image__address(elf, symbol->st_shndx, symbol->st_value, &ret->start))
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

/* Sorts, keeps the best symbol of each address, and gives those of size 0 the space to the next one. */
static uint32_t tidy(const struct jit_image *image, struct candidate *c, uint32_t n)
{
	uint32_t i, kept = 0;

	qsort(c, n, sizeof(*c), by_candidate);
	for (i = 0; i < n; i++)
		if (!kept || c[kept - 1].start != c[i].start)
			c[kept++] = c[i];
	for (i = 0; i < kept; i++) {
		const struct range *range = range_of(image, c[i].start);

		if (!c[i].size)
			c[i].size = (i + 1 < kept && c[i + 1].start < range->end ? c[i + 1].start
										: range->end) -
				    c[i].start;
	}
	return kept;
}

/* Copies the names into one block, since `bytes` does not stay. Two passes, so that a hostile image (many symbols
 * with one long name) is refused before anything is allocated. */
static int keep_symbols(struct jit_image *image, const struct candidate *c, uint32_t n)
{
	size_t len = 0, name_len;

	for (uint32_t i = 0; i < n; i++) {
		len += strnlen(c[i].name, JIT_NAME_MAX) + 1;
		if (len > NAMES_MAX)
			return -EBADMSG;
	}
	image->symbols = malloc(n * sizeof(*image->symbols));
	image->names = malloc(len);
	if (!image->symbols || !image->names)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
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

/* .symtab, else .dynsym. The string table's place also becomes the second probe. SYMBOLS_MAX bounds the sort. */
static int read_symbols(const struct elf_image *elf, const Elf64_Shdr *table,
			struct jit_image *image)
{
	_cleanup_free_ struct candidate *found = NULL;
	uint64_t n = table->sh_size / sizeof(Elf64_Sym), i;
	uint32_t kept = 0;
	const Elf64_Shdr *names;
	Elf64_Sym symbol;

	if (!elf_bytes__has(elf->bytes, table->sh_offset, table->sh_size) ||
	    table->sh_entsize != sizeof(symbol) || table->sh_link >= elf->n_sections)
		return -EBADMSG;
	names = &elf->sections[table->sh_link];
	image->probe[1].offset = names->sh_offset;
	if (elf_bytes__has(elf->bytes, names->sh_offset, names->sh_size))
		image->probe[1].len =
			names->sh_size < PROBE_NAMES ? (uint32_t)names->sh_size : PROBE_NAMES;
	if (!n || !image->n_ranges)
		return 0;
	if (n > SYMBOLS_MAX)
		return -EBADMSG;
	found = malloc(n * sizeof(*found));
	if (!found)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		memcpy(&symbol, elf->bytes->data + table->sh_offset + i * sizeof(symbol),
		       sizeof(symbol));
		kept += candidate(elf, image, names, &symbol, &found[kept]);
	}
	if (!kept)
		return 0;
	return keep_symbols(image, found, tidy(image, found, kept));
}

/* Takes .eh_frame. In a relocatable image it is not relocated yet: done here, `whole` says whether completely. */
static int read_unwind(const struct elf_image *elf, uint32_t number, struct jit_image *image)
{
	struct jit_unwind *unwind = &image->unwind;
	const Elf64_Shdr *s = &elf->sections[number];
	uint32_t relocations = elf->type == ET_REL ? elf_image__relocations(elf, number) : 0,
		 budget = RELOCATIONS_MAX;

	if (!elf_bytes__has(elf->bytes, s->sh_offset, s->sh_size))
		return -EBADMSG;
	unwind->eh_frame = malloc(s->sh_size);
	if (!unwind->eh_frame)
		return -ENOMEM;
	memcpy(unwind->eh_frame, elf->bytes->data + s->sh_offset, s->sh_size);
	unwind->len = s->sh_size;
	unwind->address = s->sh_addr;
	unwind->whole = !relocations || elf_image__relocate(elf, relocations, unwind->eh_frame,
							    unwind->len, &budget);
	return 0;
}

/* LLVM writes names and section headers next to each other: if both fit, probe them with one read. */
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

/* The psABI has a section type of its own for it; some compilers write PROGBITS. It must have been loaded. */
static bool is_unwind(const struct elf_image *elf, const Elf64_Shdr *s)
{
	return (s->sh_type == SHT_PROGBITS || s->sh_type == ELF_SHT_UNWIND) && s->sh_addr &&
	       s->sh_size && !strcmp(elf_image__name(elf, s), ".eh_frame");
}

/* One pass over the sections. A damaged part makes the whole image bad: a half-understood object would give wrong
 * frames. */
static int parse(const struct elf_image *elf, struct jit_image *image)
{
	const Elf64_Shdr *dynsym = NULL, *symtab = NULL;
	int err = read_ranges(elf, image);

	image->probe[0].offset = elf->headers;
	image->probe[0].len = elf->n_sections < PROBE_HEADERS / sizeof(Elf64_Shdr)
				      ? elf->n_sections * (uint32_t)sizeof(Elf64_Shdr)
				      : PROBE_HEADERS;
	for (uint32_t i = 0; i < elf->n_sections && !err; i++) {
		const Elf64_Shdr *s = &elf->sections[i];

		if (s->sh_type == SHT_SYMTAB && !symtab)
			symtab = s;
		else if (s->sh_type == SHT_DYNSYM && !dynsym)
			dynsym = s;
		else if (s->sh_type == SHT_PROGBITS && s->sh_size && !image->has_lines &&
			 !strcmp(elf_image__name(elf, s), ".debug_line"))
			image->has_lines = true;
		else if (!image->unwind.eh_frame && is_unwind(elf, s))
			err = read_unwind(elf, i, image);
	}
	if (!err && (symtab || dynsym))
		err = read_symbols(elf, symtab ? symtab : dynsym, image);
	join_probes(image);
	return err;
}

int jit_image__parse(const void *bytes, size_t len, struct jit_image *ret)
{
	_cleanup_(elf_image__free) struct elf_image elf = {};
	struct elf_bytes from;
	int err;

	*ret = (struct jit_image){};
	elf_bytes__init_memory(&from, bytes, len);
	err = elf_image__open(&from, ELF_SECTIONS, &elf);
	err = err ?: elf.names ? parse(&elf, ret) : -EBADMSG;
	if (err)
		jit_image__free(ret);
	return err == -ENOEXEC ? -EBADMSG : err;
}

void jit_image__free(struct jit_image *image)
{
	free(image->ranges);
	free(image->symbols);
	free(image->names);
	free(image->unwind.eh_frame);
	*image = (struct jit_image){};
}
