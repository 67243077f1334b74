/* SPDX-License-Identifier: MIT */
/* PLT stubs: no symbol table has them. A stub jumps through a slot, and the
 * relocation of that slot names the target.
 *
 *    .plt.sec:  f3 0f 1e fa  ff 25 <disp32>     a landing pad; jump through the slot
 *    .rela.plt: { r_offset = slot, JUMP_SLOT, symbol "memcpy" }     ->  "memcpy@plt"
 *
 * The instructions are decoded in arch/ (machine__plt_slot()). Only RELA is read: x86-64 has no other kind. */
#include "symbols/table.h"

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/array.h"
#include "base/order.h"
#include "base/search.h"
#include "elf/relocation.h"

/* Bounds of what a file may claim: 64 K stubs of 16 bytes. libLLVM has 500. */
#define STUBS_MAX 65536u
#define SECTION_MAX (STUBS_MAX * 16u)
#define RELOCATIONS 2048u /* read at once */
#define SYMBOLS_AT_ONCE (1u << 16)

struct stub {
	uint64_t slot; /* that it jumps through */
	uint64_t start;
	uint32_t size;
	bool named;
};

struct stubs {
	struct stub *items;
	uint32_t n, n_named, capacity;
};

/* Appends the stubs of this section. `entry`: bytes of a stub, unless the section's header says 8 or 16. A section
 * that cannot be read has no stubs; that is no error. */
static int read_stubs(const struct elf_image *image, const char *name, uint32_t entry,
		      struct stubs *stubs)
{
	uint32_t number = elf_image__section(image, name);
	_cleanup_free_ uint8_t *code = NULL;
	const Elf64_Shdr *s;
	int err;

	if (!number)
		return 0;
	s = &image->sections[number];
	if (s->sh_type != SHT_PROGBITS || !s->sh_size || s->sh_size > SECTION_MAX)
		return 0;
	if (s->sh_entsize == 8 || s->sh_entsize == 16)
		entry = (uint32_t)s->sh_entsize;
	code = malloc(s->sh_size);
	if (!code)
		return -ENOMEM;
	if (elf_bytes__read(image->bytes, s->sh_offset, code, s->sh_size))
		return 0;
	for (uint64_t at = 0; s->sh_size - at >= entry; at += entry) {
		struct stub stub = {.start = s->sh_addr + at, .size = entry};

		if (!machine__plt_slot(code + at, entry, stub.start, &stub.slot))
			continue;
		err = ARRAY_ADD(stubs->items, stubs->n, stubs->capacity, stub);
		if (err)
			return err;
	}
	return 0;
}

/* The first stub of this slot; there may be more. */
static uint32_t first_of(const struct stubs *stubs, uint64_t slot)
{
	return SEARCH(i, stubs->n, stubs->items[i].slot < slot);
}

/* Relocations name symbols all over .dynsym. If it has at most 64 K symbols it is read once, at 1.5 MB; a read for
 * each would be tens of thousands of system calls. */
struct symbol_window {
	const struct elf_image *image;
	const struct elf_symbols *symbols;
	Elf64_Sym *items; /* owned; NULL: it is too large, each is read by itself */
};

static void open_window(struct symbol_window *window)
{
	size_t size = window->symbols->n <= SYMBOLS_AT_ONCE ? (size_t)window->symbols->n * sizeof(Elf64_Sym) : 0;

	window->items = size ? malloc(size) : NULL;
	if (window->items && elf_bytes__read(window->image->bytes, window->symbols->offset, window->items, size)) {
		free(window->items);
		window->items = NULL;
	}
}

static int symbol_at(const struct symbol_window *window, uint64_t number, Elf64_Sym *ret)
{
	if (!window->items)
		return elf_bytes__read(window->image->bytes, window->symbols->offset + number * sizeof(*ret), ret, sizeof(*ret));
	*ret = window->items[number];
	return 0;
}

/* A candidate for each stub whose slot a relocation of `section` fills, until all stubs have one. Several stubs may share a slot (.plt and
 * .plt.sec), and stubs are sorted by slot, so they are neighbours. */
static int name_stubs(struct symbol_table *table, const struct symbol_window *window, const Elf64_Shdr *section,
		      struct stubs *stubs, struct candidates *candidates)
{
	_cleanup_free_ Elf64_Rela *chunk = malloc(RELOCATIONS * sizeof(*chunk));
	uint64_t total = section->sh_size / sizeof(*chunk), at, n, i;
	int err;

	if (!chunk)
		return -ENOMEM;
	for (at = 0; at < total && stubs->n_named < stubs->n; at += n) {
		n = total - at < RELOCATIONS ? total - at : RELOCATIONS;
		if (elf_bytes__read(window->image->bytes, section->sh_offset + at * sizeof(*chunk), chunk,
				    n * sizeof(*chunk)))
			return 0;
		for (i = 0; i < n; i++) {
			struct elf_relocation r =
				elf_relocation__of(window->image->machine, chunk[i].r_info);
			uint64_t number = ELF64_R_SYM(chunk[i].r_info);
			Elf64_Sym symbol;
			uint32_t k;

			if (r.kind != ELF_RELOCATION_SLOT || number >= window->symbols->n)
				continue;
			k = first_of(stubs, chunk[i].r_offset);
			if (k == stubs->n || stubs->items[k].slot != chunk[i].r_offset ||
			    symbol_at(window, number, &symbol) ||
			    !symbol.st_name || symbol.st_name >= window->symbols->strings_size)
				continue;
			for (; k < stubs->n && stubs->items[k].slot == chunk[i].r_offset; k++) {
				uint64_t start = stubs->items[k].start - table->base;

				stubs->n_named += !stubs->items[k].named;
				stubs->items[k].named = true;
				if (stubs->items[k].start < table->base || start > UINT32_MAX)
					continue;
				err = candidates__add(candidates,
						      (struct candidate){(uint32_t)start,
									 symbol.st_name,
									 stubs->items[k].size, 0});
				if (err)
					return err;
			}
		}
	}
	return 0;
}

int symbol_table__load_plt(struct symbol_table *table, const struct elf_image *image,
			   const struct code_ranges *ranges)
{
	struct candidates candidates = {};
	struct elf_symbols symbols;
	struct symbol_window window = {image, &symbols, NULL};
	struct stubs stubs = {};
	int err;

	if (image->machine != ELF_MACHINE || !ranges->n ||
	    elf_image__symbols(image, SHT_DYNSYM, &symbols))
		return -ENOENT;
	table->bytes = image->bytes;
	table->strings = symbols.strings;
	table->strings_size = symbols.strings_size;
	table->base = ranges->items[0].start;
	table->source = SYMBOL_FROM_PLT;
	err = read_stubs(image, ".plt", 16, &stubs);
	err = err ?: read_stubs(image, ".plt.sec", 16, &stubs);
	if (!err)
		err = read_stubs(image, ".plt.got", 8, &stubs);
	if (stubs.n)
		open_window(&window);
	if (stubs.n)
		qsort(stubs.items, stubs.n, sizeof(*stubs.items), order__u64);
	/* From the last one: .rela.plt names most, and lies behind .rela.dyn, which may have a hundred thousand. */
	for (uint32_t i = image->n_sections; stubs.n && !err && i-- > 1;)
		if (image->sections[i].sh_type == SHT_RELA &&
		    (image->sections[i].sh_flags & SHF_ALLOC) &&
		    image->sections[i].sh_entsize == sizeof(Elf64_Rela))
			err = name_stubs(table, &window, &image->sections[i], &stubs, &candidates);
	free(window.items);
	free(stubs.items);
	return symbol_table__finish(table, &candidates, ranges, image->machine, 0, err);
}
