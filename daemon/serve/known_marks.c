#include "serve/known_marks.h"

static uint32_t row_of(const struct known_marks *known, const struct modules_found *found, uint64_t start)
{
	return hash__pair(&known->seed, start, found->module->id) % KNOWN_MARKS;
}

bool known_marks__find(const struct known_marks *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum weave_mark *ret)
{
	const struct known_mark *row = &known->rows[row_of(known, found, start)];

	*ret = row->mark;
	return row->filled && row->start == start && row->module == found->module->id && row->names == names;
}

void known_marks__keep(struct known_marks *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum weave_mark mark)
{
	known->rows[row_of(known, found, start)] = (struct known_mark){start, names, found->module->id, (uint8_t)mark, true};
}
