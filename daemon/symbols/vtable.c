/* SPDX-License-Identifier: MIT */
/* Virtual functions of a stripped C++ library: classes of anonymous namespaces, most passes of LLVM among them, are
 * in no dynamic symbol table, but run-time type information has their names, and a virtual table all their
 * functions.
 *
 *   typeinfo  { vtable of __si_class_type_info + 16, name, base }   (Itanium C++ ABI, 2.9.5)
 *   vtable    { 0, typeinfo, function, function ... }               (2.5.2)
 *
 * A derived class has its base's slots, then its own. So what is called through a slot has one name and one list of
 * parameters in all classes that have the slot from the same class, and any of them that has a symbol gives it to
 * the others: (anonymous namespace)::X86DAGToDAGISel + runOnMachineFunction(llvm::MachineFunction&), of which
 * llvm::LiveVariables::runOnMachineFunction(llvm::MachineFunction&) has a symbol.
 *
 * A function gets a name where it is sure: it stands in one slot of one class, which did not inherit it; and the
 * symbol is a method of the very class in whose table it was found. Its size is that of its call frame information.
 *
 * Steps: read words (vtable_words.c) -> find_classes() -> find_tables() -> find_methods() -> name_methods() ->
 * put_methods(). Runs once when a stripped file is opened, on the namer's thread. A hostile file may claim
 * hierarchies with cycles or a million classes: CLASSES_MAX, METHODS_MAX, SLOTS_MAX and STEPS_MAX bound memory and
 * time, and a wrong base leads to a wrong name at worst. */
#include "symbols/vtable.h"

#include <string.h>

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/array.h"
#include "base/order.h"
#include "base/search.h"
#include "symbols/vtable_words.h"

#define CLASSES_MAX (1u << 20)
#define METHODS_MAX (4u << 20)
#define SLOTS_MAX 4096u /* of a class */
#define DEPTH_MAX 64u   /* of a hierarchy */
#define STEPS_MAX (1u << 27)
#define NONE UINT32_MAX

static void finder__free(struct finder *f)
{
	free(f->values);
	free(f->words);
	free(f->classes);
	free(f->methods);
}

/* O(log n): classes are found in order of address. */
static uint32_t class_at(const struct finder *f, uint32_t typeinfo)
{
	uint32_t low = SEARCH(i, f->n_classes, f->classes[i].typeinfo < typeinfo);

	return low < f->n_classes && f->classes[low].typeinfo == typeinfo ? low : NONE;
}

#define NO_KIND 3u
/* What kind of typeinfo begins with this word: without a base, with one, with several. */
static uint32_t kind_of(const struct finder *f, uint32_t word)
{
	uint32_t kind;

	for (kind = 0; kind < NO_KIND && (!word || word != f->kinds[kind]); kind++)
		;
	return kind;
}

/* A typeinfo is a word that points to one of the three ABI tables, followed by its name. The bases come in a second
 * pass, as they refer to other classes. `.base` holds a word's number until then: one base follows the name
 * directly; with several there are flags and count (one word), then pairs of base and offset (2.9.5,
 * __vmi_class_type_info). */
static int find_classes(struct finder *f)
{
	uint32_t i, kind, base;
	int err;

	for (i = 0; i + 1 < f->n_words; i++) {
		kind = kind_of(f, f->words[i]);
		if (kind == NO_KIND || !f->words[i + 1] || f->words[i + 1] & IS_SYMBOL)
			continue;
		if (f->n_classes == CLASSES_MAX)
			return -EFBIG;
		err = ARRAY_RESERVE(f->classes, f->n_classes, f->classes_capacity);
		if (err)
			return err;
		f->classes[f->n_classes++] = (struct class){.typeinfo = (uint32_t)f->at + i * 8,
							    .name = f->words[i + 1],
							    .base = kind ? i + kind + 1 : NONE};
	}
	/* With one base, its typeinfo follows the name; with several, flags and their number come first. The first
	 * base, if it lies at offset 0, shares the virtual table. */
	for (i = 0; i < f->n_classes; i++) {
		base = f->classes[i].base;
		if (base == NONE)
			continue;
		f->classes[i].base = NONE;
		if (base < f->n_words && f->words[base] && !(f->words[base] & IS_SYMBOL) &&
		    (f->words[base - 1] || (finder__content(f, f->at + (uint64_t)(base + 1) * 8) >> 8) == 0))
			f->classes[i].base = class_at(f, f->words[base]);
		if (f->classes[i].base == i)
			f->classes[i].base = NONE;
	}
	return f->n_classes ? 0 : -ENOENT;
}

static bool is_code(const struct finder *f, uint32_t word)
{
	return word && !(word & IS_SYMBOL) && code_ranges__find(f->ranges, word);
}

/* Finds the virtual tables: a word of 0 (the offset of the object itself, not of a base inside of it), the typeinfo,
 * then functions. A pure virtual function is a symbol of the C++ library; destructors of an abstract class may be 0.
 * Of several tables of a class the longest counts. */
static void find_tables(struct finder *f)
{
	uint32_t i, class, n;

	for (i = 1; i + 1 < f->n_words; i++) {
		if (!f->words[i] || f->words[i] & IS_SYMBOL || f->words[i - 1])
			continue;
		class = class_at(f, f->words[i]);
		if (class == NONE || finder__content(f, f->at + (uint64_t)(i - 1) * 8))
			continue;
		for (n = 0; i + 1 + n < f->n_words && n < SLOTS_MAX; n++) {
			uint32_t word = f->words[i + 1 + n], next = i + 2 + n < f->n_words ? f->words[i + 2 + n] : 0;

			if (is_code(f, word) || (word & IS_SYMBOL && kind_of(f, word) == NO_KIND))
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
	for (uint32_t depth = 0; depth < DEPTH_MAX && f->steps; depth++, f->steps--) {
		class = f->classes[class].base;
		if (class == NONE || f->classes[class].n > slot)
			return class;
	}
	return NONE;
}

/* The uppermost class that has the slot: methods with the same one are overrides of each other. */
static uint32_t first_of(struct finder *f, uint32_t class, uint32_t slot)
{
	uint32_t depth, up;

	for (depth = 0; depth < DEPTH_MAX && (up = above(f, class, slot)) != NONE; depth++)
		class = up;
	return class;
}

/* All functions in slots, but those that a class only inherited: their slot has the same address as that of the
 * class above. f->steps is the budget of above(), which a deep hierarchy with many slots would use up: then nothing
 * is named. */
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
			err = ARRAY_RESERVE(f->methods, f->n_methods, f->methods_capacity);
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

	/* NONE comes last. */
	return ORDER(x->slot_of, y->slot_of) ?: ORDER(x->slot, y->slot) ?: ORDER(x->symbol, y->symbol);
}

static int by_function(const void *a, const void *b)
{
	const struct method *x = a, *y = b;

	return ORDER(x->function, y->function);
}

/* Is the symbol a method of this class? _ZN [qualifiers] class method E ..., where the class is "N class E" by
 * itself. */
static bool is_method_of(const struct finder *f, const struct method *method)
{
	char class[VTABLE_NAME_MAX], name[VTABLE_NAME_MAX];
	const char *in_class = class, *in_name = name + 3;
	size_t len;

	if (vtable__class_name(f->image, f->classes[method->class].name, class) ||
	    vtable__text(f->image->bytes, f->symbols.strings + method->symbol, name, sizeof(name)) || strncmp(name, "_ZN", 3))
		return false;
	in_name += strspn(in_name, "rVK");
	len = strlen(class);
	if (len > 2 && class[0] == 'N' && class[len - 1] == 'E') {
		in_class++;
		len -= 2;
	}
	return len && !strncmp(in_name, in_class, len);
}

/* Gives each method without a symbol the symbol of another class's method in its slot, if that is a method of the
 * class in whose table it stands. Then f->methods has only those that got one. */
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

/* Candidates for the index. A function that stands in two slots (identical code folding, a default shared by
 * classes) has no name; neighbours in the order of by_function show that. */
static int put_methods(struct finder *f, const struct function_frames *frames, struct symbol_table *table)
{
	struct candidates candidates = {};
	uint32_t i, size, n = 0;
	int err = 0;

	table->virtuals = malloc((size_t)f->n_methods * sizeof(*table->virtuals) + 1);
	if (!table->virtuals)
		return -ENOMEM;
	qsort(f->methods, f->n_methods, sizeof(*f->methods), by_function);
	for (i = 0; i < f->n_methods && !err; i++) {
		const struct method *m = &f->methods[i];

		if ((i && m[-1].function == m->function) || (i + 1 < f->n_methods && m[1].function == m->function) ||
		    m->function < table->base || !(size = function_frames__size(frames, m->function)))
			continue;
		table->virtuals[n] = (struct virtual_name){f->classes[m->class].name, m->symbol};
		err = candidates__add(&candidates, (struct candidate){(uint32_t)(m->function - table->base), n, size, 0});
		n++;
	}
	table->n_virtuals = n;
	return symbol_table__finish(table, &candidates, f->ranges, f->image->machine, 0, err);
}

int symbol_table__load_virtuals(struct symbol_table *table, const struct elf_image *image, const struct code_ranges *ranges,
				const struct symbol_table *known, const struct function_frames *frames)
{
	struct finder f = {.image = image, .ranges = ranges, .known = known, .steps = STEPS_MAX};
	int err;

	if (image->machine != ELF_MACHINE || !ranges->n || !known->n || !frames->n ||
	    elf_image__symbols(image, SHT_DYNSYM, &f.symbols))
		return -ENOENT;
	table->bytes = image->bytes;
	table->image = image;
	table->strings = f.symbols.strings;
	table->strings_size = f.symbols.strings_size;
	table->base = ranges->items[0].start;
	table->source = SYMBOL_FROM_VTABLE;
	err = finder__read(&f);
	err = err ?: find_classes(&f);
	if (!err) {
		find_tables(&f);
		err = find_methods(&f);
	}
	if (!err) {
		name_methods(&f);
		err = put_methods(&f, frames, table);
	}
	finder__free(&f);
	if (err)
		symbol_table__free(table);
	return err;
}
