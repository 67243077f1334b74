/* SPDX-License-Identifier: MIT */
/* What only tests ask of daemon/modules: how many files have a table by now. */
#pragma once

#include "modules/internal.h"

static inline uint32_t modules__count(const struct modules *modules, enum module_state state)
{
	uint32_t i, n = 0;

	for (i = 0; i < modules->n_files; i++)
		n += modules->files[i]->seen.state == state;
	return n;
}
