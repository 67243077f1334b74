#include "serve/known_places.h"

struct known_place_row {
	uint64_t vaddr, start, function;
	const struct callable *callable;
	uint64_t names;
	uint32_t module;
	uint8_t kind, mark;
	bool interpreter, filled;
};

static struct known_place_row *row_of(struct known_places *known, const struct modules_found *found)
{
	if (!found->vaddr_known)
		return NULL;
	if (!known->rows)
		known->rows = calloc(KNOWN_PLACES, sizeof(*known->rows));
	return known->rows ? &known->rows[hash__pair(&known->seed, found->vaddr, found->module->id) % KNOWN_PLACES] : NULL;
}

bool known_places__find(struct known_places *known, const struct modules_found *found, uint64_t names,
			struct place *ret)
{
	const struct known_place_row *row = row_of(known, found);

	if (!row || !row->filled || row->vaddr != found->vaddr || row->module != found->module->id ||
	    row->interpreter != found->interpreter || row->names != names)
		return false;
	*ret = (struct place){.module = row->module,
			      .function = row->function,
			      .vaddr = row->vaddr,
			      .start = row->start,
			      .kind = row->kind,
			      .mark = row->mark,
			      .callable = row->callable};
	return true;
}

void known_places__keep(struct known_places *known, const struct modules_found *found, uint64_t names,
			const struct place *place)
{
	struct known_place_row *row = place->pending ? NULL : row_of(known, found);

	if (row)
		*row = (struct known_place_row){.vaddr = place->vaddr,
						.start = place->start,
						.function = place->function,
						.callable = place->callable,
						.names = names,
						.module = (uint32_t)place->module,
						.kind = place->kind,
						.mark = place->mark,
						.interpreter = found->interpreter,
						.filled = true};
}
