/* SPDX-License-Identifier: MIT */
/* Finds the functions of an ELF file that no call frame information describes ("bare" functions):
 *   - those of its symbol table,
 *   - PLT stubs, for which some linkers write no entries,
 *   - where a walk stopped in code without a symbol: the function around that address (code__find()).
 * code_file.c then follows their instructions. */
#include "base/order.h"
#include "unwind/code_file.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "base/search.h"

#define SYMBOLS_AT_ONCE 2048u
#define BARE_MAX (1u << 18) /* functions */

/* --- what is covered --- */

/* The index of f->starts: about one bucket for each function. */
static int index_starts(struct following *f)
{
	const uint64_t span = f->n_starts ? f->starts[f->n_starts - 1] - f->b->base : 0;
	uint64_t bucket = 0;
	uint32_t i;

	for (f->shift = 0; span >> f->shift > f->n_starts; f->shift++)
		;
	f->n_buckets = (uint32_t)(span >> f->shift) + 1;
	f->before = malloc((f->n_buckets + 1ull) * sizeof(*f->before));
	if (!f->before)
		return -ENOMEM;
	for (i = 0; i < f->n_starts; i++)
		while (bucket <= (f->starts[i] - f->b->base) >> f->shift)
			f->before[bucket++] = i;
	while (bucket <= f->n_buckets)
		f->before[bucket++] = f->n_starts;
	return 0;
}

/* Sorts the functions that have entries: f->starts[i], and in f->reach[i] the largest end of functions 0 to i.
 * Functions may overlap; with the largest end so far, one comparison says whether an address is covered. */
static int cover(struct following *f)
{
	const struct builder *b = f->b;
	uint64_t reach = 0;
	uint32_t i;

	f->n_starts = b->n_functions;
	f->starts = malloc((f->n_starts + 1) * sizeof(*f->starts));
	f->reach = malloc((f->n_starts + 1) * sizeof(*f->reach));
	if (!f->starts || !f->reach)
		return -ENOMEM;
	for (i = 0; i < f->n_starts; i++)
		f->starts[i] = (uint64_t)b->functions[i].start << 32 | i;
	if (builder__sort(f->starts, f->n_starts))
		return -ENOMEM;
	for (i = 0; i < f->n_starts; i++) {
		const struct function *function = &b->functions[(uint32_t)f->starts[i]];

		if ((uint64_t)function->start + function->size > reach)
			reach = (uint64_t)function->start + function->size;
		f->reach[i] = (uint32_t)(reach > UINT32_MAX ? UINT32_MAX : reach);
		/* From a sort key (start << 32 | index) to an ELF address. */
		f->starts[i] = b->base + function->start;
	}
	return index_starts(f);
}

/* Number of covered functions that begin at or below `at`. There are 100,000 symbols and as many functions: the index
 * leaves one or two to compare. */
static uint32_t count_starts(const struct following *f, uint64_t at)
{
	const uint64_t bucket = (at - f->b->base) >> f->shift;
	uint32_t first;

	if (at < f->b->base)
		return 0;
	if (bucket >= f->n_buckets)
		return f->n_starts;
	first = f->before[bucket];
	return first + SEARCH(i, f->before[bucket + 1] - first, f->starts[first + i] <= at);
}

/* Cuts a function to the part before the next one with an entry. False: an entry covers its first byte already. */
static bool is_bare(const struct following *f, uint64_t start, uint64_t *size)
{
	uint32_t n = count_starts(f, start);

	if (n && f->b->base + f->reach[n - 1] > start)
		return false;
	if (n<f->n_starts && * size> f->starts[n] - start)
		*size = f->starts[n] - start;
	return true;
}

/* --- sections and symbols --- */

const Elf64_Shdr *following__section(const struct following *f, uint64_t at)
{
	uint32_t i;

	for (i = 0; i < f->n_code; i++)
		if (at - f->code[i].sh_addr < f->code[i].sh_size)
			return &f->code[i];
	return NULL;
}

/* A range is cut to its section and to the next known function. Too many are left out: BARE_MAX. */
static int add(struct following *f, uint64_t start, uint64_t size, struct bare what)
{
	const Elf64_Shdr *section = following__section(f, start);
	int err;

	if (!section || !size || !is_bare(f, start, &size) || f->n_bare == BARE_MAX)
		return 0;
	if (size > section->sh_addr + section->sh_size - start)
		size = section->sh_addr + section->sh_size - start;
	err = ARRAY_RESERVE(f->bare, f->n_bare, f->bare_capacity);
	if (err)
		return err;
	what.start = start;
	what.size = size;
	what.function = UINT32_MAX;
	f->bare[f->n_bare++] = what;
	return 0;
}

/* Is the symbol the cold part of a function? gcc moves unlikely code away and names it NAME.cold. */
static bool is_cold(struct following *f, const Elf64_Shdr *names, const Elf64_Sym *symbol)
{
	char name[256] = "";
	uint64_t left;

	if (!names->sh_size || symbol->st_name >= names->sh_size)
		return false;
	left = names->sh_size - symbol->st_name;
	/* ".cold" is at the end of the name, and C++ names can be longer than the buffer: read on. */
	while (left) {
		uint64_t size = left < sizeof(name) - 1 ? left : sizeof(name) - 1;

		if (elf_bytes__read(f->source, names->sh_offset + names->sh_size - left, name,
				    size))
			return false;
		name[size] = 0;
		if (strstr(name, ".cold"))
			return true;
		if (strlen(name) < size || left <= size)
			return false;
		left -= size - 8; /* 8 bytes of overlap: ".cold" may lie across two pieces */
		if (names->sh_size - symbol->st_name - left > 65536)
			return true; /* a name this long is hostile: the answer with fewer consequences */
	}
	return false;
}

/* A symbol of size 0 describes no range, but the function of a place may begin there: it becomes a hint. */
static int take_symbol(struct following *f, const struct elf_image *image, const Elf64_Shdr *names,
		       const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	uint64_t start = symbol->st_value, size = symbol->st_size;
	uint32_t n = image->n_sections, i;

	/* Undefined symbols, data, and sections that do not exist. */
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
	    (symbol->st_shndx >= n && symbol->st_shndx != SHN_XINDEX))
		return 0;
	for (i = 0; !size && i < f->n_vaddrs; i++)
		if (start <= f->vaddrs[i] && start > f->hints[i])
			f->hints[i] = start;
	if (!size)
		return 0;
	if (f->b->elf->loaded_only &&
	    elf_image__address(image, symbol->st_shndx, symbol->st_value, &start))
		return 0;
	if (!is_bare(f, start, &size))
		return 0;
	return add(f, start, size, (struct bare){.cold = is_cold(f, names, symbol)});
}

/* The symbol table is read in pieces: large files have a million symbols. */
static int take_symbols(struct following *f, const struct elf_image *image)
{
	const struct elf_section *table = &f->b->elf->functions;
	uint64_t left = table->size / sizeof(Elf64_Sym), most = left < SYMBOLS_AT_ONCE ? left : SYMBOLS_AT_ONCE, at = table->offset, i, some;
	_cleanup_free_ Elf64_Sym *symbols = malloc((most + 1) * sizeof(*symbols));
	const Elf64_Shdr none = {}, *names = &none;
	int err = 0;

	if (!symbols)
		return -ENOMEM;
	if (f->b->elf->function_names < image->n_sections)
		names = &image->sections[f->b->elf->function_names];
	for (; !err && left; left -= some) {
		some = left < most ? left : most;
		if (elf_bytes__read(f->source, at, symbols, some * sizeof(*symbols)))
			break;
		for (i = 0; !err && i < some; i++)
			err = take_symbol(f, image, names, &symbols[i]);
		at += some * sizeof(*symbols);
	}
	return err;
}

/* .plt, .plt.got, .plt.sec */
static int take_stubs(struct following *f, const Elf64_Shdr *section, const char *name)
{
	if (strcmp(name, ".plt") && strncmp(name, ".plt.", 5))
		return 0;
	return add(f, section->sh_addr, section->sh_size,
		   (struct bare){.stubs = true, .head = !strcmp(name, ".plt")});
}

/* Executable sections, then symbols, then PLT stubs. Without section headers there is nothing to find. */
static int find(struct following *f)
{
	_cleanup_(elf_image__free) struct elf_image image = {};
	int err = elf_image__open(f->source, ELF_SECTIONS, &image);
	uint32_t n = image.n_sections, i;

	if (err)
		return err == -ENOMEM ? err : 0;
	f->code = malloc(((n < SECTIONS_MAX ? n : SECTIONS_MAX) + 1) * sizeof(*f->code));
	if (!f->code)
		return -ENOMEM;
	for (i = 1; i < n; i++) {
		const Elf64_Shdr *s = &image.sections[i];

		if (s->sh_flags & SHF_EXECINSTR && s->sh_type == SHT_PROGBITS && s->sh_addr &&
		    f->n_code < SECTIONS_MAX && s->sh_addr <= UINT64_MAX - s->sh_size)
			f->code[f->n_code++] = *s;
	}
	if (f->b->elf->functions.size)
		err = take_symbols(f, &image);
	for (i = 0; !err && i < f->n_code && !f->b->elf->loaded_only; i++)
		err = take_stubs(f, &f->code[i], elf_image__name(&image, &f->code[i]));
	return err;
}

/* --- code that no symbol names --- */

/* The gap around `place`: code in its section between functions that are known; from `hint` on, a symbol without size.
 * */
static bool find_gap(const struct following *f, uint64_t place, uint64_t hint, uint64_t *ret_start,
		     uint64_t *ret_end)
{
	const Elf64_Shdr *section = following__section(f, place);
	uint64_t size = UINT64_MAX - place, reach;
	uint32_t n = count_starts(f, place), i;

	if (!section || !is_bare(f, place, &size))
		return false;
	*ret_start = section->sh_addr;
	*ret_end = section->sh_addr + section->sh_size;
	if (size < *ret_end - place)
		*ret_end = place + size;
	reach = n ? f->b->base + f->reach[n - 1] : 0;
	if (reach > *ret_start)
		*ret_start = reach;
	for (i = 0; i < f->n_bare; i++) { /* sorted, but for those added by take_gap() */
		const struct bare *bare = &f->bare[i];

		if (place - bare->start < bare->size)
			return false;
		if (bare->start <= place && bare->start + bare->size > *ret_start)
			*ret_start = bare->start + bare->size;
		if (bare->start > place && bare->start < *ret_end)
			*ret_end = bare->start;
	}
	if (hint > *ret_start)
		*ret_start = hint;
	return true;
}

/* Adds the function that contains `place`. If it cannot be found, an aligned block of 16 bytes is marked as hopeless,
 * so that walks that stop there do not ask again. */
static int take_gap(struct following *f, uint64_t place, uint64_t hint)
{
	struct bare what = {.cold = true, .hopeless = true};
	_cleanup_free_ uint8_t *bytes = NULL;
	const Elf64_Shdr *section;
	uint64_t start, end, size;
	uint32_t from, to;

	if (!find_gap(f, place, hint, &start, &end))
		return 0;
	section = following__section(f, start);
	size = end - start < CODE_FUNCTION_MAX ? end - start : CODE_FUNCTION_MAX;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	if (place - start < size && section &&
	    !elf_bytes__read(f->source, section->sh_offset + (start - section->sh_addr), bytes,
			     size) &&
	    !code__find(f->decoder, &(struct code_bytes){bytes, (uint32_t)size, start},
			(uint32_t)(place - start), &from, &to))
		return add(f, start + from, to - from, (struct bare){});
	if (start < (place & ~15ull))
		start = place & ~15ull;
	return add(f, start, (place | 15) + 1 - start < end - start ? (place | 15) + 1 - start : end - start,
		   what);
}

static int take_gaps(struct following *f)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < f->n_vaddrs; i++)
		err = take_gap(f, f->vaddrs[i], f->hints[i]);
	return err;
}

/* Of two symbols at one address, the larger first: the other one lies inside it. */
static int by_start(const void *a, const void *b)
{
	const struct bare *x = a, *y = b;

	return ORDER(x->start, y->start) ?: ORDER(y->size, x->size);
}

/* Gaps come last: they lie between functions, so all of these have to be known and sorted. */
int following__find(struct following *f)
{
	int err = cover(f);

	err = err ?: find(f);
	if (err)
		return err;
	if (f->n_bare)
		qsort(f->bare, f->n_bare, sizeof(*f->bare), by_start);
	err = take_gaps(f);
	if (!err && f->n_bare)
		qsort(f->bare, f->n_bare, sizeof(*f->bare), by_start);
	return err;
}
