/* The cache of addresses: (module, offset) -> place, and (module, start) ->
 * function, whose names are made once. */
#include "symbols/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/slots.h"

struct module {
	char *name;
	struct symbol_file *file;
	bool jit;
};

struct function {
	uint64_t start;
	const char *name, *display, *kernel_module;
	uint32_t module;
	enum symbol_source source;
};

struct address {
	uint64_t offset, vaddr; /* asked for; as the file counts */
	uint32_t module;
	uint32_t function;   /* or UINT32_MAX */
	const char *display; /* without a function */
};

struct symbols {
	struct hash_seed seed;
	struct module *modules;
	uint32_t n_modules, capacity_modules;
	struct function *functions;
	uint32_t n_functions, capacity_functions;
	struct slots function_slots;
	struct address *addresses;
	uint32_t n_addresses, capacity_addresses;
	struct slots address_slots;
	struct arena names;
	size_t bytes_max;
	uint32_t generation;
	struct symbol found; /* kept for its memory */
	struct buf text;
	struct symbol_place place; /* handed out */
};

int symbols__new(size_t bytes_max, struct symbols **ret)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));
	int err;

	if (!symbols)
		return -ENOMEM;
	err = hash_seed__draw(&symbols->seed);
	if (err) {
		free(symbols);
		return err;
	}
	symbols->bytes_max = bytes_max;
	*ret = symbols;
	return 0;
}

static void forget(struct symbols *symbols)
{
	arena__free(&symbols->names);
	free(symbols->functions);
	free(symbols->addresses);
	free(symbols->function_slots.slots);
	free(symbols->address_slots.slots);
	symbols->functions = NULL;
	symbols->addresses = NULL;
	symbols->function_slots = symbols->address_slots = (struct slots){};
	symbols->n_functions = symbols->capacity_functions = 0;
	symbols->n_addresses = symbols->capacity_addresses = 0;
	symbols->generation++;
}

struct symbols *symbols__free(struct symbols *symbols)
{
	uint32_t i;

	if (!symbols)
		return NULL;
	forget(symbols);
	for (i = 0; i < symbols->n_modules; i++) {
		free(symbols->modules[i].name);
		symbol_file__free(symbols->modules[i].file);
	}
	free(symbols->modules);
	symbol__free(&symbols->found);
	buf__free(&symbols->text);
	free(symbols);
	return NULL;
}

int symbols__add(struct symbols *symbols, const char *name, struct symbol_file *file, bool jit,
		 uint32_t *ret_module)
{
	struct module module = {.jit = jit};
	int err;

	err = array__reserve((void **)&symbols->modules, sizeof(module), symbols->n_modules,
			     &symbols->capacity_modules);
	if (!err && !(module.name = strdup(name)))
		err = -ENOMEM;
	if (err)
		return err;
	module.file = file;
	*ret_module = symbols->n_modules;
	symbols->modules[symbols->n_modules++] = module;
	return 0;
}

struct symbol_file *symbols__file(const struct symbols *symbols, uint32_t module)
{
	return module < symbols->n_modules ? symbols->modules[module].file : NULL;
}

uint32_t symbols__generation(const struct symbols *symbols)
{
	return symbols->generation;
}

size_t symbols__bytes(const struct symbols *symbols)
{
	return symbols->names.bytes + symbols->capacity_functions * sizeof(*symbols->functions) +
	       symbols->capacity_addresses * sizeof(*symbols->addresses) +
	       (symbols->function_slots.capacity + symbols->address_slots.capacity) *
		       sizeof(*symbols->function_slots.slots);
}

static const char *keep(struct symbols *symbols, const char *text, size_t len)
{
	char *copy = arena__take(&symbols->names, len + 1);

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

static bool hash_function(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct symbols *s = holder;

	*ret = hash__pair(&s->seed, s->functions[row].start, s->functions[row].module);
	return true;
}

static bool hash_address(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct symbols *s = holder;

	*ret = hash__pair(&s->seed, s->addresses[row].offset, s->addresses[row].module);
	return true;
}

/* The function of symbols->found. */
static int function_of(struct symbols *s, uint32_t module, uint32_t *ret)
{
	struct symbol *found = &s->found;
	struct function function = {
		.start = found->start, .module = module, .source = found->source};
	uint64_t hash = hash__pair(&s->seed, found->start, module);
	uint32_t at, row;
	int err;

	for (at = s->function_slots.capacity ? slots__first(&s->function_slots, hash) : 0;
	     slots__row(&s->function_slots, at, &row); at = slots__next(&s->function_slots, at))
		/* A table's alias may begin where another table's symbol does. */
		if (s->functions[row].start == found->start && s->functions[row].module == module &&
		    !strcmp(s->functions[row].name, found->name.data)) {
			*ret = row;
			return 0;
		}
	err = slots__reserve(&s->function_slots, s->n_functions, hash_function, s);
	if (!err)
		err = array__reserve((void **)&s->functions, sizeof(function), s->n_functions,
				     &s->capacity_functions);
	buf__clear(&s->text);
	if (!err)
		err = symbol__display(found->name.data, found->name.len, s->modules[module].jit,
				      &s->text);
	if (err)
		return err;
	function.name = keep(s, found->name.data, found->name.len);
	function.display = keep(s, s->text.data, s->text.len);
	function.kernel_module =
		found->module.len ? keep(s, found->module.data, found->module.len) : "";
	if (!function.name || !function.display || !function.kernel_module)
		return -ENOMEM;
	slots__enter(&s->function_slots, hash, s->n_functions);
	s->functions[s->n_functions] = function;
	*ret = s->n_functions++;
	return 0;
}

static int resolve(struct symbols *s, struct address *address)
{
	struct symbol_file *file = s->modules[address->module].file;
	int err = -ENOENT;

	address->function = UINT32_MAX;
	if (file)
		err = symbol_file__vaddr(file, address->offset, &address->vaddr);
	if (!err)
		err = symbol_file__find(file, address->vaddr, &s->found);
	if (!err)
		return function_of(s, address->module, &address->function);
	if (err == -ENOMEM)
		return err;
	buf__clear(&s->text);
	err = buf__printf(&s->text, "%s+0x%llx", s->modules[address->module].name,
			  (unsigned long long)address->offset);
	if (!err && !(address->display = keep(s, s->text.data, s->text.len)))
		err = -ENOMEM;
	return err;
}

static void hand_out(struct symbols *s, const struct address *address)
{
	s->place = (struct symbol_place){.module = s->modules[address->module].name,
					 .kernel_module = "",
					 .display = address->display,
					 .vaddr = address->vaddr,
					 .offset = address->offset,
					 .function = address->function};
	if (address->function != UINT32_MAX) {
		const struct function *function = &s->functions[address->function];

		s->place.name = function->name;
		s->place.display = function->display;
		s->place.kernel_module = function->kernel_module;
		s->place.start = function->start;
		s->place.offset = address->vaddr - function->start;
		s->place.source = function->source;
	}
}

int symbols__resolve(struct symbols *s, uint32_t module, uint64_t offset,
		     const struct symbol_place **ret)
{
	struct address address = {.offset = offset, .module = module};
	uint64_t hash = hash__pair(&s->seed, offset, module);
	uint32_t at, row;
	int err;

	if (module >= s->n_modules)
		return -EINVAL;
	for (at = s->address_slots.capacity ? slots__first(&s->address_slots, hash) : 0;
	     slots__row(&s->address_slots, at, &row); at = slots__next(&s->address_slots, at))
		if (s->addresses[row].offset == offset && s->addresses[row].module == module)
			goto found;
	if (symbols__bytes(s) > s->bytes_max)
		forget(s);
	err = slots__reserve(&s->address_slots, s->n_addresses, hash_address, s);
	if (!err)
		err = array__reserve((void **)&s->addresses, sizeof(address), s->n_addresses,
				     &s->capacity_addresses);
	if (!err)
		err = resolve(s, &address);
	if (err)
		return err;
	slots__enter(&s->address_slots, hash, s->n_addresses);
	row = s->n_addresses++;
	s->addresses[row] = address;
found:
	hand_out(s, &s->addresses[row]);
	*ret = &s->place;
	return 0;
}
