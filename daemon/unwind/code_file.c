/* Functions of an ELF file that no call frame information describes: those of its symbol table, and
 * the stubs of linkage (.plt) that some linkers leave without. Each is followed from its first
 * instruction, as one that is called.
 *
 * A jump from one into another, with something on the stack, tells how the other is reached: then
 * it is followed once more from there. The cold half of a function (gcc's NAME.cold) is reached in
 * no other way. */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/slots.h"
#include "unwind/builder.h"
#include "unwind/code.h"

#define SYMBOLS_AT_ONCE 2048u
#define BARE_MAX (1u << 18)    /* functions */
#define BYTES_MAX (256u << 20) /* of code, all in all */
/* Of code in a linked file: its table is waited for, and so are those behind it. (OpenBLAS has
 * kernels for each CPU that there is, 0.6 s of following.) The smallest come first; the others are
 * followed when a walk stops in them (table__follow()). */
#define FILE_BYTES (64u << 10)
#define ARRIVALS_MAX 4096u /* jumps from one into another */
#define ENTRIES_MAX 4096u  /* of one function */
#define STUB 16u
#define SECTIONS_MAX 1024u /* with code */

struct bare {
	uint64_t start, size;
	uint32_t function;	/* of the builder; UINT32_MAX: none yet */
	bool cold, stubs, head; /* head: its first stub is none, others jump to it */
	bool entered, refused;	/* by jumps: known; not all of them known */
	bool later;		/* not now */
	bool hopeless;		/* nothing can be said of it */
};

struct arrival {
	uint64_t at;
	struct code_state state;
};

struct following {
	struct code_rows rows; /* first */
	struct builder *b;
	struct unwind_source *source;
	struct code_decoder *decoder;
	Elf64_Shdr code[SECTIONS_MAX]; /* executable sections */
	uint32_t n_code;
	/* What has entries: by start; how far those up to here reach. */
	uint64_t *starts;
	uint32_t *reach, n_starts;
	struct bare *bare;
	uint32_t n_bare, bare_capacity;
	struct arrival *arrivals;
	uint32_t n_arrivals, arrivals_capacity;
	bool again; /* the first time is over */
	struct code_entry entries[ENTRIES_MAX];
	uint64_t bytes; /* left */
	/* table__follow(): where walks stopped, ascending; a symbol without a size at or below each. */
	const uint64_t *places;
	uint64_t *hints;
	uint32_t n_places;
	int unfollowed; /* why there are no rows of functions that are left out */
};

/* --- what is covered --- */

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
		f->starts[i] = b->base + function->start;
	}
	return 0;
}

/* How many of the covered functions begin at or below `at`. */
static uint32_t count_starts(const struct following *f, uint64_t at)
{
	uint32_t low = 0, high = f->n_starts;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (f->starts[middle] <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* False: an entry describes its first byte. Cuts it to what none describes. */
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

static int get(struct unwind_source *source, void *dst, uint64_t size, uint64_t offset)
{
	if (offset > source->size || size > source->size - offset)
		return -EBADMSG;
	return source->read(source, dst, size, offset);
}

static const Elf64_Shdr *section_of(const struct following *f, uint64_t at)
{
	uint32_t i;

	for (i = 0; i < f->n_code; i++)
		if (at - f->code[i].sh_addr < f->code[i].sh_size)
			return &f->code[i];
	return NULL;
}

static int add(struct following *f, uint64_t start, uint64_t size, struct bare what)
{
	const Elf64_Shdr *section = section_of(f, start);
	int err;

	if (!section || !size || !is_bare(f, start, &size) || f->n_bare == BARE_MAX)
		return 0;
	if (size > section->sh_addr + section->sh_size - start)
		size = section->sh_addr + section->sh_size - start;
	err = array__reserve((void **)&f->bare, sizeof(*f->bare), f->n_bare, &f->bare_capacity);
	if (err)
		return err;
	what.start = start;
	what.size = size;
	what.function = UINT32_MAX;
	f->bare[f->n_bare++] = what;
	return 0;
}

/* gcc names the halves that it moves away NAME.cold. */
static bool is_cold(struct following *f, const Elf64_Shdr *names, const Elf64_Sym *symbol)
{
	char name[256] = "";
	uint64_t left;

	if (!names->sh_size || symbol->st_name >= names->sh_size)
		return false;
	left = names->sh_size - symbol->st_name;
	/* Long names end in it: read on until one is whole. */
	while (left) {
		uint64_t size = left < sizeof(name) - 1 ? left : sizeof(name) - 1;

		if (get(f->source, name, size, names->sh_offset + names->sh_size - left))
			return false;
		name[size] = 0;
		if (strstr(name, ".cold"))
			return true;
		if (strlen(name) < size || left <= size)
			return false;
		left -= size - 8; /* which may lie across */
		if (names->sh_size - symbol->st_name - left > 65536)
			return true; /* whoever has such names */
	}
	return false;
}

static int take_symbol(struct following *f, const Elf64_Shdr *sections, uint32_t n,
		       const Elf64_Shdr *names, const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	uint64_t start = symbol->st_value, size = symbol->st_size;
	uint32_t i;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
	    (symbol->st_shndx >= n && symbol->st_shndx != SHN_XINDEX))
		return 0;
	for (i = 0; !size && i < f->n_places; i++)
		if (start <= f->places[i] && start > f->hints[i])
			f->hints[i] = start;
	if (!size)
		return 0;
	if (f->b->elf->loaded_only) {
		if (symbol->st_shndx >= n)
			return 0;
		start += sections[symbol->st_shndx].sh_addr;
	}
	if (!is_bare(f, start, &size))
		return 0;
	return add(f, start, size, (struct bare){.cold = is_cold(f, names, symbol)});
}

static int take_symbols(struct following *f, const Elf64_Shdr *sections, uint32_t n)
{
	const struct elf_section *table = &f->b->elf->functions;
	_cleanup_free_ Elf64_Sym *symbols = malloc(SYMBOLS_AT_ONCE * sizeof(*symbols));
	const Elf64_Shdr none = {}, *names = &none;
	uint64_t left = table->size / sizeof(*symbols), at = table->offset, i, some;
	int err = 0;

	if (!symbols)
		return -ENOMEM;
	if (f->b->elf->function_names < n)
		names = &sections[f->b->elf->function_names];
	for (; !err && left; left -= some) {
		some = left < SYMBOLS_AT_ONCE ? left : SYMBOLS_AT_ONCE;
		if (get(f->source, symbols, some * sizeof(*symbols), at))
			break;
		for (i = 0; !err && i < some; i++)
			err = take_symbol(f, sections, n, names, &symbols[i]);
		at += some * sizeof(*symbols);
	}
	return err;
}

/* .plt, .plt.got, .plt.sec */
static int take_stubs(struct following *f, const Elf64_Shdr *section, const Elf64_Shdr *names)
{
	char name[6] = "";

	if (section->sh_name >= names->sh_size ||
	    get(f->source, name, 5, names->sh_offset + section->sh_name) ||
	    (strcmp(name, ".plt") && strcmp(name, ".plt.")))
		return 0;
	return add(f, section->sh_addr, section->sh_size,
		   (struct bare){.stubs = true, .head = !strcmp(name, ".plt")});
}

static int find(struct following *f)
{
	const struct elf_frames *elf = f->b->elf;
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint32_t n = elf->n_headers, i;
	Elf64_Ehdr header;
	int err = 0;

	sections = malloc((n + 1) * sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	if (get(f->source, sections, n * sizeof(*sections), elf->headers) ||
	    get(f->source, &header, sizeof(header), 0))
		return 0;
	for (i = 1; i < n; i++)
		if (sections[i].sh_flags & SHF_EXECINSTR && sections[i].sh_type == SHT_PROGBITS &&
		    sections[i].sh_addr && f->n_code < SECTIONS_MAX &&
		    sections[i].sh_addr <= UINT64_MAX - sections[i].sh_size)
			f->code[f->n_code++] = sections[i];
	if (elf->functions.size)
		err = take_symbols(f, sections, n);
	for (i = 0; !err && i < f->n_code && !elf->loaded_only && header.e_shstrndx < n; i++)
		err = take_stubs(f, &f->code[i], &sections[header.e_shstrndx]);
	return err;
}

/* --- following --- */

static int take_row(struct code_rows *rows, uint64_t pc, const struct code_state *state, int why)
{
	struct builder *b = ((struct following *)rows)->b;
	struct cfi_cie cie = {.signal = state && state->signal};
	struct cfi_state cfi;

	if (state)
		why = code_state__cfi(state, &cfi);
	return b->rows_of.row(&b->rows_of, pc, &cie, why < 0 ? &cfi : NULL, why);
}

static int by_start(const void *a, const void *b)
{
	const struct bare *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->size > y->size ? -1 : x->size < y->size;
}

/* The function that holds `at`, as far as there is one; they do not overlap any more. */
static struct bare *holder(struct following *f, uint64_t at)
{
	uint32_t low = 0, high = f->n_bare;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (f->bare[middle].start <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low && at - f->bare[low - 1].start < f->bare[low - 1].size ? &f->bare[low - 1]
									  : NULL;
}

static bool is_known(const struct following *f, const struct arrival *arrival)
{
	uint32_t i;

	for (i = 0; i < f->n_arrivals; i++)
		if (f->arrivals[i].at == arrival->at &&
		    !memcmp(&f->arrivals[i].state, &arrival->state, sizeof(arrival->state)))
			return true;
	return false;
}

static int take_arrival(struct code_rows *rows, uint64_t target, const struct code_state *state)
{
	struct following *f = (struct following *)rows;
	struct bare *to = holder(f, target);
	struct arrival arrival = {.at = target};
	int err;

	if (!to || (target == to->start && code_state__is_fresh(state)))
		return 0;
	memcpy(&arrival.state, state, sizeof(*state));
	if (is_known(f, &arrival))
		return 0;
	if (f->again || f->n_arrivals == ARRIVALS_MAX) {
		to->refused = !to->later;
		return 0;
	}
	if (to->size <= FILE_BYTES && f->n_places)
		to->later = false; /* the other half of one that is followed */
	err = array__reserve((void **)&f->arrivals, sizeof(*f->arrivals), f->n_arrivals,
			     &f->arrivals_capacity);
	if (err)
		return err;
	memcpy(&f->arrivals[f->n_arrivals++], &arrival, sizeof(arrival));
	to->entered = true;
	return 0;
}

/* Where it is entered: at its start, at symbols within it (which `inside` says), by jumps. */
static uint32_t make_entries(struct following *f, const struct bare *bare, const uint8_t *bytes,
			     const uint64_t *inside, uint32_t n_inside)
{
	bool start = !bare->cold && !bare->stubs;
	uint32_t n = 0, i;
	uint64_t at;

	for (i = 0; f->again && i < f->n_arrivals && n < ENTRIES_MAX; i++) {
		at = f->arrivals[i].at - bare->start;
		if (at >= bare->size)
			continue;
		f->entries[n++] =
			(struct code_entry){.at = (uint32_t)at, .state = &f->arrivals[i].state};
	}
	if (start && n < ENTRIES_MAX)
		f->entries[n++] = (struct code_entry){};
	for (i = 0; i < n_inside && n < ENTRIES_MAX; i++)
		f->entries[n++] = (struct code_entry){.at = (uint32_t)(inside[i] - bare->start)};
	/* A stub goes on behind its jump when it is used first. */
	for (at = bare->head ? STUB : 0;
	     bare->stubs && at + STUB <= bare->size && n + 1 < ENTRIES_MAX; at += STUB) {
		f->entries[n++] = (struct code_entry){.at = (uint32_t)at};
		if (bytes[at] == 0xff && bytes[at + 1] == 0x25)
			f->entries[n++] = (struct code_entry){.at = (uint32_t)at + 6};
	}
	return n;
}

static int follow(struct following *f, struct bare *bare, const uint64_t *inside, uint32_t n_inside)
{
	const Elf64_Shdr *section = section_of(f, bare->start);
	struct code_function function = {.address = bare->start, .entries = f->entries};
	_cleanup_free_ uint8_t *bytes = NULL;
	bool left_out = bare->later || bare->hopeless || bare->size > CODE_FUNCTION_MAX ||
			bare->size > f->bytes;
	uint64_t size = bare->size;
	int err = 0;

	if (!left_out) {
		bytes = malloc(size);
		if (!bytes)
			return -ENOMEM;
		if (get(f->source, bytes, size,
			section->sh_offset + (bare->start - section->sh_addr)))
			return 0;
		f->bytes -= size;
	}
	if (bare->function == UINT32_MAX)
		err = builder__begin(f->b, bare->start, size, &bare->function);
	else
		builder__again(f->b, bare->function);
	if (err)
		return err == -ENOENT ? 0 : err;
	function.bytes = bytes;
	function.size = (uint32_t)size;
	function.half = bare->cold || bare->entered;
	function.n_entries = left_out ? 0 : make_entries(f, bare, bytes, inside, n_inside);
	if (!function.n_entries)
		return take_row(&f->rows, bare->start, NULL,
				bare->later    ? f->unfollowed
				: !left_out || bare->hopeless ? UNWIND_UNSUPPORTED_CODE_REACHED
					       : UNWIND_UNSUPPORTED_CODE_LIMIT);
	return code__run(f->decoder, &function, &f->rows);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Did a walk stop in it? */
static bool is_wanted(const struct following *f, const struct bare *bare)
{
	uint32_t low = 0, high = f->n_places;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (f->places[middle] < bare->start)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->n_places && f->places[low] - bare->start < bare->size;
}

/* Which are left out now: the largest, so that the others are within what may be followed; or those in
 * which no walk stopped. */
static int choose(struct following *f)
{
	_cleanup_free_ uint64_t *sizes = malloc((f->n_bare + 1) * sizeof(*sizes));
	uint64_t sum = 0, most = f->b->elf->loaded_only ? BYTES_MAX : FILE_BYTES,
		 size_max = CODE_FUNCTION_MAX;
	uint32_t i;

	if (!sizes)
		return -ENOMEM;
	for (i = 0; i < f->n_bare; i++)
		sizes[i] = f->bare[i].size;
	qsort(sizes, f->n_bare, sizeof(*sizes), by_size);
	for (i = 0; i < f->n_bare; i++) {
		if (sizes[i] > most - sum) {
			size_max = sizes[i] - 1;
			break;
		}
		sum += sizes[i];
	}
	for (i = 0; i < f->n_bare; i++)
		f->bare[i].later = f->n_places ? !is_wanted(f, &f->bare[i])
					       : f->bare[i].size > size_max;
	return 0;
}

/* Symbols within another's function are places where it is entered, too. */
static int follow_all(struct following *f)
{
	_cleanup_free_ uint64_t *inside = malloc((f->n_bare + 1) * sizeof(*inside));
	_cleanup_free_ uint32_t *first = malloc((f->n_bare + 1) * sizeof(*first));
	uint32_t n = 0, k = 0, i;
	int err = 0;

	if (!inside || !first)
		return -ENOMEM;
	for (i = 0; i < f->n_bare; i++) {
		const struct bare *before = n ? &f->bare[n - 1] : NULL;

		if (before && f->bare[i].start - before->start < before->size) {
			if (f->bare[i].start != before->start && !f->bare[i].cold)
				inside[k++] = f->bare[i].start;
			continue;
		}
		first[n] = k;
		f->bare[n++] = f->bare[i];
	}
	first[n] = k;
	f->n_bare = n;
	err = choose(f);
	for (i = 0; !err && i < n; i++)
		err = follow(f, &f->bare[i], inside + first[i], first[i + 1] - first[i]);
	/* Once more where jumps lead. What is not known then is not said. */
	f->again = true;
	for (i = 0; !err && i < n; i++)
		if (f->bare[i].entered)
			err = follow(f, &f->bare[i], inside + first[i], first[i + 1] - first[i]);
	for (i = 0; !err && i < n; i++) {
		f->b->followed += !f->bare[i].later;
		if (!f->bare[i].refused || f->bare[i].function == UINT32_MAX)
			continue;
		builder__again(f->b, f->bare[i].function);
		err = take_row(&f->rows, f->bare[i].start, NULL, UNWIND_UNSUPPORTED_CODE_REACHED);
	}
	return err;
}

/* --- code that no symbol names --- */

/* Between what is known, within its section; from a symbol on, if there is one. */
static bool find_gap(const struct following *f, uint64_t place, uint64_t hint, uint64_t *ret_start,
		     uint64_t *ret_end)
{
	const Elf64_Shdr *section = section_of(f, place);
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
	for (i = 0; i < f->n_bare; i++) { /* in order, but for what was added here */
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

static int take_gap(struct following *f, uint64_t place, uint64_t hint)
{
	struct bare what = {.cold = true, .hopeless = true};
	_cleanup_free_ uint8_t *bytes = NULL;
	const Elf64_Shdr *section;
	uint64_t start, end, size;
	uint32_t from, to;

	if (!find_gap(f, place, hint, &start, &end))
		return 0;
	section = section_of(f, start);
	size = end - start < CODE_FUNCTION_MAX ? end - start : CODE_FUNCTION_MAX;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	if (place - start < size && section &&
	    !get(f->source, bytes, size, section->sh_offset + (start - section->sh_addr)) &&
	    !code__find(f->decoder, bytes, (uint32_t)size, (uint32_t)(place - start), &from, &to))
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

	for (i = 0; !err && i < f->n_places; i++)
		err = take_gap(f, f->places[i], f->hints[i]);
	return err;
}

int builder__follow(struct builder *b, struct unwind_source *source, const uint64_t *places,
		    uint32_t n_places)
{
	struct following *f = calloc(1, sizeof(*f));
	_cleanup_free_ uint64_t *hints = calloc(n_places + 1, sizeof(*hints));
	int err;

	if (!f || !hints) {
		free(f);
		return -ENOMEM;
	}
	f->rows = (struct code_rows){.row = take_row, .leaves = take_arrival};
	f->b = b;
	f->source = source;
	f->bytes = BYTES_MAX;
	f->places = places;
	f->hints = hints;
	f->n_places = n_places;
	f->unfollowed = b->gaps == RULE_LATER ? UNWIND_UNSUPPORTED_CODE_LATER
					      : UNWIND_UNSUPPORTED_CODE_LIMIT;
	err = cover(f);
	if (!err)
		err = find(f);
	if (!err && (f->n_bare || n_places)) {
		qsort(f->bare, f->n_bare, sizeof(*f->bare), by_start);
		err = code_decoder__new(&f->decoder);
		if (!err)
			err = take_gaps(f);
		qsort(f->bare, f->n_bare, sizeof(*f->bare), by_start);
		if (!err)
			err = follow_all(f);
	}
	code_decoder__free(f->decoder);
	free(f->starts);
	free(f->reach);
	free(f->bare);
	free(f->arrivals);
	free(f);
	return err;
}
