/* Virtual functions of a stripped C++ library: classes of anonymous namespaces, most passes of LLVM among them, are in no
 * dynamic symbol table, but run-time type information has their names, and a virtual table all their functions.
 *
 *   typeinfo  { vtable of __si_class_type_info + 16, name, base }   (Itanium C++ ABI, 2.9.5)
 *   vtable    { 0, typeinfo, function, function ... }               (2.5.2)
 *
 * A derived class has its base's slots, then its own. So what is called through a slot has one name and one list of
 * parameters in all classes that have the slot from the same class, and is told by any of them that has a symbol:
 * (anonymous namespace)::X86DAGToDAGISel + runOnMachineFunction(llvm::MachineFunction&), of which
 * llvm::LiveVariables::runOnMachineFunction(llvm::MachineFunction&) knows.
 *
 * A function is told where it is sure: it stands in one slot of one class, which did not inherit it; and the symbol is a
 * method of the very class in whose table it was found. Its size is that of its call frame information. */
#include "symbols/vtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/slots.h"
#include "symbols/demangle.h"
#include "symbols/image.h"

#define WORDS_MAX (16u << 20)
#define CLASSES_MAX (1u << 20)
#define METHODS_MAX (4u << 20)
#define FRAMES_MAX (8u << 20)
#define SLOTS_MAX 4096u /* of a class */
#define DEPTH_MAX 64u   /* of a hierarchy */
#define STEPS_MAX (1u << 27)
#define NAME_MAX_LEN 4096u
#define CHUNK 2048u /* read at once */
#define SYMBOLS_MAX (1u << 24)
#define NONE UINT32_MAX

/* A word of .data.rel.ro, once it is relocated: an address; or, with this bit, a symbol of another file. */
#define IS_SYMBOL 0x80000000u

struct class {
	uint32_t typeinfo; /* address; they are sorted by it */
	uint32_t name;     /* address */
	uint32_t base;     /* a class' number, or NONE */
	uint32_t slots, n; /* words: its functions */
};

/* A function in the slot of a class that did not inherit it. */
struct method {
	uint32_t slot_of; /* the class that has the slot first */
	uint32_t slot;
	uint32_t class;
	uint32_t function; /* address */
	uint32_t symbol;   /* its name in the strings, or NONE */
};

struct finder {
	const struct elf_image *image;
	const struct symbol_table *known;
	const struct code_ranges *ranges;
	struct elf_symbols symbols;
	uint32_t *values;  /* by number of symbol: its address, or IS_SYMBOL */
	uint32_t kinds[3]; /* the virtual tables of type information, as words; 0: none */
	uint32_t *words;   /* of the section */
	uint32_t n_words;
	uint64_t at, file; /* the section's address, and where it lies in the file */
	uint64_t window[1024], window_at; /* of the section in the file; window_at: its address, 0: none */
	uint64_t steps;    /* up hierarchies, that may still be made */
	struct class *classes;
	uint32_t n_classes, classes_capacity;
	struct method *methods;
	uint32_t n_methods, methods_capacity;
};

static void finder__free(struct finder *f)
{
	free(f->values);
	free(f->words);
	free(f->classes);
	free(f->methods);
}

/* Strings of more than `size` bytes are none that is asked for. */
static int read_text(const struct elf_bytes *bytes, uint64_t at, char *ret, size_t size)
{
	size_t got;
	int err = elf_bytes__read_some(bytes, at, ret, size, &got);

	return err ? err : memchr(ret, 0, got) ? 0 : -ENOENT;
}

/* Where symbols are, and which are the tables that each typeinfo begins with: those come from the C++ library. */
static int read_symbols(struct finder *f)
{
	static const char *const names[] = {"_ZTVN10__cxxabiv117__class_type_infoE", "_ZTVN10__cxxabiv120__si_class_type_infoE",
					    "_ZTVN10__cxxabiv121__vmi_class_type_infoE"};
	_cleanup_free_ Elf64_Sym *chunk = malloc(CHUNK * sizeof(*chunk));
	uint64_t at, n, i, k;
	char name[64];
	bool found = false;

	if (f->symbols.n > SYMBOLS_MAX)
		return -ENOENT;
	f->values = malloc((size_t)f->symbols.n * sizeof(*f->values) + 1);
	if (!chunk || !f->values)
		return -ENOMEM;
	for (at = 0; at < f->symbols.n; at += n) {
		n = f->symbols.n - at < CHUNK ? f->symbols.n - at : CHUNK;
		if (elf_bytes__read(f->image->bytes, f->symbols.offset + at * sizeof(*chunk), chunk, n * sizeof(*chunk)))
			return -ENOENT;
		for (i = 0; i < n; i++) {
			f->values[at + i] = chunk[i].st_value < IS_SYMBOL ? (uint32_t)chunk[i].st_value : 0;
			if (chunk[i].st_shndx != SHN_UNDEF)
				continue;
			f->values[at + i] = IS_SYMBOL | (uint32_t)(at + i);
			if (!chunk[i].st_name || chunk[i].st_name >= f->symbols.strings_size ||
			    read_text(f->image->bytes, f->symbols.strings + chunk[i].st_name, name, sizeof(name)))
				continue;
			for (k = 0; k < 3; k++) {
				if (strcmp(name, names[k]))
					continue;
				f->kinds[k] = f->values[at + i];
				found = true;
			}
		}
	}
	return found ? 0 : -ENOENT;
}

static void put_word(struct finder *f, uint64_t address, uint64_t value)
{
	if (address >= f->at && (address - f->at) / 8 < f->n_words && !(address & 7))
		f->words[(address - f->at) / 8] = (uint32_t)value;
}

static void relocate(struct finder *f, const Elf64_Rela *r)
{
	uint64_t number = ELF64_R_SYM(r->r_info), value = 0;

	if (ELF64_R_TYPE(r->r_info) == R_X86_64_RELATIVE)
		value = (uint64_t)r->r_addend;
	else if (ELF64_R_TYPE(r->r_info) == R_X86_64_64 && number < f->symbols.n)
		value = f->values[number] & IS_SYMBOL ? f->values[number] : f->values[number] + (uint64_t)r->r_addend;
	if (value <= UINT32_MAX)
		put_word(f, r->r_offset, value);
}

static int read_rela(struct finder *f, const Elf64_Shdr *section)
{
	_cleanup_free_ Elf64_Rela *chunk = malloc(CHUNK * sizeof(*chunk));
	uint64_t total = section->sh_size / sizeof(*chunk), at, n, i;

	if (!chunk)
		return -ENOMEM;
	for (at = 0; at < total; at += n) {
		n = total - at < CHUNK ? total - at : CHUNK;
		if (elf_bytes__read(f->image->bytes, section->sh_offset + at * sizeof(*chunk), chunk, n * sizeof(*chunk)))
			return -ENOENT;
		for (i = 0; i < n; i++)
			relocate(f, &chunk[i]);
	}
	return 0;
}

/* A word as it stands in the file. They are mostly asked for in order. */
static uint64_t content(struct finder *f, uint64_t address)
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

/* Packed relative relocations (gABI, SHT_RELR): an address, or 63 bits of what follows the one before. What is added stands in place. */
static int read_relr(struct finder *f, const Elf64_Shdr *section)
{
	_cleanup_free_ uint64_t *chunk = malloc(CHUNK * sizeof(*chunk));
	uint64_t total = section->sh_size / sizeof(*chunk), at, n, i, next = 0, bits, address, value;

	if (!chunk)
		return -ENOMEM;
	for (at = 0; at < total; at += n) {
		n = total - at < CHUNK ? total - at : CHUNK;
		if (elf_bytes__read(f->image->bytes, section->sh_offset + at * sizeof(*chunk), chunk, n * sizeof(*chunk)))
			return -ENOENT;
		for (i = 0; i < n; i++) {
			bits = chunk[i] & 1 ? chunk[i] >> 1 : 1;
			address = chunk[i] & 1 ? next : chunk[i];
			next = address + (chunk[i] & 1 ? 63 : 1) * 8;
			for (; bits; bits >>= 1, address += 8)
				if (bits & 1 && (value = content(f, address)) < IS_SYMBOL)
					put_word(f, address, value);
		}
	}
	return 0;
}

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
		if (!(s->sh_flags & SHF_ALLOC) || s->sh_offset > f->image->bytes->size ||
		    s->sh_size > f->image->bytes->size - s->sh_offset)
			continue;
		if (s->sh_type == SHT_RELA && s->sh_entsize == sizeof(Elf64_Rela))
			err = read_rela(f, s);
		else if (s->sh_type == SHT_RELR && s->sh_entsize == sizeof(Elf64_Relr))
			err = read_relr(f, s);
	}
	return err;
}

static uint32_t class_at(const struct finder *f, uint32_t typeinfo)
{
	uint32_t low = 0, high = f->n_classes;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (f->classes[middle].typeinfo < typeinfo)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->n_classes && f->classes[low].typeinfo == typeinfo ? low : NONE;
}

static int find_classes(struct finder *f)
{
	uint32_t i, kind, base;
	int err;

	for (i = 0; i + 1 < f->n_words; i++) {
		for (kind = 0; kind < 3 && (!f->kinds[kind] || f->words[i] != f->kinds[kind]); kind++)
			;
		if (kind == 3 || !f->words[i + 1] || f->words[i + 1] & IS_SYMBOL)
			continue;
		if (f->n_classes == CLASSES_MAX)
			return -EFBIG;
		err = array__reserve((void **)&f->classes, sizeof(*f->classes), f->n_classes, &f->classes_capacity);
		if (err)
			return err;
		f->classes[f->n_classes++] = (struct class){.typeinfo = (uint32_t)f->at + i * 8,
							    .name = f->words[i + 1],
							    .base = kind ? i + kind + 1 : NONE};
	}
	/* One base follows the name; of several there is first how many. The first one that lies at 0 shares the virtual table. */
	for (i = 0; i < f->n_classes; i++) {
		base = f->classes[i].base;
		if (base == NONE)
			continue;
		f->classes[i].base = NONE;
		if (base < f->n_words && f->words[base] && !(f->words[base] & IS_SYMBOL) &&
		    (f->words[base - 1] || (content(f, f->at + (uint64_t)(base + 1) * 8) >> 8) == 0))
			f->classes[i].base = class_at(f, f->words[base]);
		if (f->classes[i].base == i)
			f->classes[i].base = NONE;
	}
	return f->n_classes ? 0 : -ENOENT;
}

static bool is_kind(const struct finder *f, uint32_t word)
{
	return word && (word == f->kinds[0] || word == f->kinds[1] || word == f->kinds[2]);
}

static bool is_code(const struct finder *f, uint32_t word)
{
	return word && !(word & IS_SYMBOL) && code_ranges__find(f->ranges, word);
}

/* The tables: a word of 0 (of the object itself, not of a base within), the typeinfo, functions. Those that are pure are a
 * symbol of the C++ library; destructors of an abstract class may be 0. */
static void find_tables(struct finder *f)
{
	uint32_t i, class, n;

	for (i = 1; i + 1 < f->n_words; i++) {
		if (!f->words[i] || f->words[i] & IS_SYMBOL || f->words[i - 1])
			continue;
		class = class_at(f, f->words[i]);
		if (class == NONE || content(f, f->at + (uint64_t)(i - 1) * 8))
			continue;
		for (n = 0; i + 1 + n < f->n_words && n < SLOTS_MAX; n++) {
			uint32_t word = f->words[i + 1 + n], next = i + 2 + n < f->n_words ? f->words[i + 2 + n] : 0;

			if (is_code(f, word) || (word & IS_SYMBOL && !is_kind(f, word)))
				continue;
			if (word || !(is_code(f, next) || (n == 0 && !next)))
				break;
		}
		if (n > f->classes[class].n) {
			f->classes[class].slots = i + 1;
			f->classes[class].n = n;
		}
	}
}

/* The nearest one above that has a virtual table with this slot; NONE. */
static uint32_t above(struct finder *f, uint32_t class, uint32_t slot)
{
	uint32_t depth;

	for (depth = 0; depth < DEPTH_MAX && f->steps; depth++, f->steps--) {
		class = f->classes[class].base;
		if (class == NONE || f->classes[class].n > slot)
			return class;
	}
	return NONE;
}

static uint32_t first_of(struct finder *f, uint32_t class, uint32_t slot)
{
	uint32_t depth, up;

	for (depth = 0; depth < DEPTH_MAX && (up = above(f, class, slot)) != NONE; depth++)
		class = up;
	return class;
}

static int find_methods(struct finder *f)
{
	uint32_t i, slot, up, word;
	struct table_row row;
	int err;

	for (i = 0; i < f->n_classes; i++) {
		const struct class *class = &f->classes[i];

		for (slot = 0; slot < class->n; slot++) {
			if (!f->steps)
				return -EFBIG;
			word = f->words[class->slots + slot];
			if (!is_code(f, word))
				continue;
			up = above(f, i, slot);
			if (up != NONE && f->words[f->classes[up].slots + slot] == word)
				continue;
			if (f->n_methods == METHODS_MAX)
				return -EFBIG;
			err = array__reserve((void **)&f->methods, sizeof(*f->methods), f->n_methods, &f->methods_capacity);
			if (err)
				return err;
			f->methods[f->n_methods++] = (struct method){
				.slot_of = first_of(f, i, slot),
				.slot = slot,
				.class = i,
				.function = word,
				.symbol = symbol_table__find(f->known, word, &row) && row.start == word ? row.name : NONE};
		}
	}
	return 0;
}

static int by_slot(const void *a, const void *b)
{
	const struct method *x = a, *y = b;

	if (x->slot_of != y->slot_of)
		return x->slot_of < y->slot_of ? -1 : 1;
	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return x->symbol < y->symbol ? -1 : x->symbol > y->symbol; /* NONE comes last */
}

static int by_function(const void *a, const void *b)
{
	const struct method *x = a, *y = b;

	return x->function < y->function ? -1 : x->function > y->function;
}

/* A class' name as its type information has it, without what marks it as local. */
static int class_name(const struct elf_image *image, uint32_t vaddr, char ret[NAME_MAX_LEN])
{
	uint64_t offset;
	int err;

	if (elf_image__offset(image, vaddr, 1, &offset))
		return -ENOENT;
	err = read_text(image->bytes, offset, ret, NAME_MAX_LEN);
	if (!err && *ret == '*')
		memmove(ret, ret + 1, strlen(ret));
	return err;
}

/* Is the symbol a method of this class? _ZN [qualifiers] class method E ..., where the class is "N class E" by itself. */
static bool is_method_of(const struct finder *f, const struct method *method)
{
	char class[NAME_MAX_LEN], name[NAME_MAX_LEN];
	const char *in_class = class, *in_name = name + 3;
	size_t len;

	if (class_name(f->image, f->classes[method->class].name, class) ||
	    read_text(f->image->bytes, f->symbols.strings + method->symbol, name, sizeof(name)) || strncmp(name, "_ZN", 3))
		return false;
	in_name += strspn(in_name, "rVK");
	len = strlen(class);
	if (len > 2 && class[0] == 'N' && class[len - 1] == 'E') {
		in_class++;
		len -= 2;
	}
	return len && !strncmp(in_name, in_class, len);
}

/* Gives each method without a symbol that of another class in its slot. Those before `n` are whole then, the others not known. */
static void name_methods(struct finder *f)
{
	uint32_t i, end, k, n = 0, symbol;

	qsort(f->methods, f->n_methods, sizeof(*f->methods), by_slot);
	for (i = 0; i < f->n_methods; i = end) {
		symbol = NONE;
		for (end = i; end < f->n_methods && f->methods[end].slot_of == f->methods[i].slot_of &&
			      f->methods[end].slot == f->methods[i].slot;
		     end++)
			;
		if (f->methods[end - 1].symbol != NONE) /* all have names */
			continue;
		for (k = i; k < end && f->methods[k].symbol != NONE && symbol == NONE; k++)
			if (is_method_of(f, &f->methods[k]))
				symbol = f->methods[k].symbol;
		for (k = i; k < end && symbol != NONE; k++) {
			if (f->methods[k].symbol != NONE)
				continue;
			f->methods[n] = f->methods[k];
			f->methods[n++].symbol = symbol;
		}
	}
	f->n_methods = n;
}

/* .eh_frame_hdr's table, as all linkers write it (LSB, 10.6.2): where each function begins, and its entry. */
struct frames {
	struct frame {
		int32_t start, entry; /* from the section */
	} *items;
	uint32_t n;
	uint64_t at, file; /* the section */
};

static int frames__read(const struct elf_image *image, struct frames *ret)
{
	uint32_t number = elf_image__section(image, ".eh_frame_hdr");
	const Elf64_Shdr *s = &image->sections[number];
	struct {
		uint8_t version, frame, count, table;
		int32_t frames;
		uint32_t n;
	} header;

	if (!number || elf_bytes__read(image->bytes, s->sh_offset, &header, sizeof(header)) || header.version != 1 ||
	    header.frame != 0x1b || header.count != 3 || header.table != 0x3b || header.n > FRAMES_MAX)
		return -ENOENT;
	*ret = (struct frames){.n = header.n, .at = s->sh_addr, .file = s->sh_offset};
	ret->items = malloc((size_t)header.n * sizeof(*ret->items) + 1);
	if (!ret->items)
		return -ENOMEM;
	return elf_bytes__read(image->bytes, s->sh_offset + sizeof(header), ret->items, (size_t)header.n * sizeof(*ret->items)) ? -ENOENT : 0;
}

/* 0: no entry begins there, or it is written in another way. */
static uint32_t function_size(const struct elf_image *image, const struct frames *frames, uint32_t function)
{
	uint32_t low = 0, high = frames->n;
	uint64_t entry, offset;
	struct {
		uint32_t length, cie;
		int32_t start;
		uint32_t size;
	} fde;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((int64_t)frames->at + frames->items[middle].start < (int64_t)function)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == frames->n || (int64_t)frames->at + frames->items[low].start != (int64_t)function)
		return 0;
	entry = frames->at + (uint64_t)(int64_t)frames->items[low].entry;
	if (elf_image__offset(image, entry, sizeof(fde), &offset) || elf_bytes__read(image->bytes, offset, &fde, sizeof(fde)) ||
	    fde.length < 12 || fde.length >= 0xfffffff0u || !fde.cie || (int64_t)entry + 8 + fde.start != (int64_t)function)
		return 0;
	return fde.size;
}

static int put_methods(struct finder *f, struct symbol_table *table)
{
	_cleanup_free_ struct frame *items = NULL;
	struct candidates candidates = {};
	struct frames frames = {};
	uint32_t i, size, n = 0;
	int err = frames__read(f->image, &frames);

	items = frames.items;
	if (err)
		return err;
	table->virtuals = malloc((size_t)f->n_methods * sizeof(*table->virtuals) + 1);
	if (!table->virtuals)
		return -ENOMEM;
	qsort(f->methods, f->n_methods, sizeof(*f->methods), by_function);
	for (i = 0; i < f->n_methods && !err; i++) {
		const struct method *m = &f->methods[i];

		if ((i && m[-1].function == m->function) || (i + 1 < f->n_methods && m[1].function == m->function) ||
		    m->function < table->base || !(size = function_size(f->image, &frames, m->function)))
			continue;
		table->virtuals[n] = (struct virtual_name){f->classes[m->class].name, m->symbol};
		err = candidates__add(&candidates, (struct candidate){(uint32_t)(m->function - table->base), n, size, 0});
		n++;
	}
	table->n_virtuals = n;
	if (!err)
		err = symbol_table__build(table, &candidates, f->ranges, f->image->machine, 0);
	free(candidates.items);
	return err;
}

int symbol_table__load_virtuals(struct symbol_table *table, const struct elf_image *image, const struct code_ranges *ranges,
				const struct symbol_table *known)
{
	struct finder f = {.image = image, .ranges = ranges, .known = known, .steps = STEPS_MAX};
	int err;

	if (image->machine != EM_X86_64 || !ranges->n || !known->n || elf_image__symbols(image, SHT_DYNSYM, &f.symbols))
		return -ENOENT;
	table->bytes = image->bytes;
	table->image = image;
	table->strings = f.symbols.strings;
	table->strings_size = f.symbols.strings_size;
	table->base = ranges->items[0].start;
	table->source = SYMBOL_FROM_VTABLE;
	err = read_symbols(&f);
	if (!err)
		err = read_words(&f);
	if (!err)
		err = find_classes(&f);
	if (!err) {
		find_tables(&f);
		err = find_methods(&f);
	}
	if (!err) {
		name_methods(&f);
		err = put_methods(&f, table);
	}
	finder__free(&f);
	if (err)
		symbol_table__free(table);
	else if (!table->n)
		err = -ENOENT;
	return err;
}

/* --- names --- */

/* The last part of "ns::class<int>::method(int) const": what is behind the last "::" that no brackets hold. */
static const char *last_part(const char *text, bool before_parameters)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *part = text, *at;
	unsigned depth = 0;

	for (at = text; *at; at++) {
		if (!strncmp(at, anonymous, sizeof(anonymous) - 1)) {
			at += sizeof(anonymous) - 2;
			continue;
		}
		if ((at == part && !strncmp(at, "operator", 8)) || (*at == '(' && !depth && before_parameters))
			break;
		if (strchr("<({", *at))
			depth++;
		else if (strchr(">)}", *at))
			depth -= depth != 0;
		else if (!depth && at[0] == ':' && at[1] == ':')
			part = ++at + 1;
	}
	return part;
}

int virtual_name__append(const struct symbol_table *table, uint32_t row, struct buf *ret)
{
	static const char type[] = "_ZTI", words[] = "typeinfo for ";
	struct virtual_name name = table->virtuals[row];
	_cleanup_(buf__free) struct buf class = {}, method = {};
	char mangled[NAME_MAX_LEN + sizeof(type)], *plain;
	const char *text, *last;
	int err;

	memcpy(mangled, type, sizeof(type) - 1);
	err = class_name(table->image, name.class, mangled + sizeof(type) - 1);
	if (err)
		return err;
	if (!demangle__append(mangled, SYMBOL_DISPLAY_MAX, &class) || class.len < sizeof(words) ||
	    memcmp(class.data, words, sizeof(words) - 1))
		return -ENOENT;
	err = read_text(table->bytes, table->strings + name.method, mangled, NAME_MAX_LEN);
	if (err)
		return err;
	if (!demangle__append(mangled, SYMBOL_DISPLAY_MAX, &method))
		return -ENOENT;
	err = buf__append(&class, "", 1) ?: buf__append(&method, "", 1);
	if (err)
		return err;
	plain = class.data + sizeof(words) - 1;
	text = last_part(method.data, true);
	err = buf__puts(ret, plain) ?: buf__puts(ret, "::");
	if (err || *text != '~')
		return err ?: buf__puts(ret, text);
	last = last_part(plain, false);
	return buf__printf(ret, "~%.*s()", (int)strcspn(last, "<"), last);
}
