/* SPDX-License-Identifier: MIT */
/* What the names of the interpreter's functions say (frame_role__of()): names are read from a file. Owner: the code map. Threads: one. */
#ifndef CPROFD_CODEMAP_KNOWN_ROLES_H
#define CPROFD_CODEMAP_KNOWN_ROLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "modules/modules.h"
#include "weave/weave.h"

#define KNOWN_ROLES 1024u

struct known_role {
	uint64_t start, names;
	uint32_t module;
	uint8_t role;
	bool filled;
};

struct known_roles {
	struct known_role rows[KNOWN_ROLES];
	struct hash_seed seed;
};

/* Of the function at `start`. `names`: a number that differs when an answer may. */
bool known_roles__find(const struct known_roles *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum frame_role *ret);
void known_roles__keep(struct known_roles *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum frame_role role);

#endif
