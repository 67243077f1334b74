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

static uint32_t mark_of(const struct known_places *known, const struct modules_found *found, uint64_t start)
{
	return hash__pair(&known->seed, start, found->module->id) % KNOWN_MARKS;
}

bool known_places__mark(const struct known_places *known, const struct modules_found *found, uint64_t start,
			uint64_t names, enum weave_mark *ret)
{
	const struct known_mark *row = &known->marks[mark_of(known, found, start)];

	*ret = row->mark;
	return row->filled && row->start == start && row->module == found->module->id && row->names == names;
}

void known_places__keep_mark(struct known_places *known, const struct modules_found *found, uint64_t start,
			     uint64_t names, enum weave_mark mark)
{
	known->marks[mark_of(known, found, start)] =
		(struct known_mark){start, names, found->module->id, (uint8_t)mark, true};
}
