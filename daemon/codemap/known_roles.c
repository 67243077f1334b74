/* SPDX-License-Identifier: MIT */
/* A cache in which each name has one row: a role that takes the place of another costs a look at the name again,
 * nothing else. */
#include "codemap/known_roles.h"

static uint32_t row_of(const struct known_roles *known, const struct modules_found *found, uint64_t start)
{
	return hash__pair(&known->seed, start, found->module->id) % KNOWN_ROLES;
}

bool known_roles__find(const struct known_roles *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum frame_role *ret)
{
	const struct known_role *row = &known->rows[row_of(known, found, start)];

	*ret = row->role;
	return row->filled && row->start == start && row->module == found->module->id && row->names == names;
}

void known_roles__keep(struct known_roles *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum frame_role role)
{
	known->rows[row_of(known, found, start)] = (struct known_role){start, names, found->module->id, (uint8_t)role, true};
}
