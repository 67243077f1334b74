/* What the names of the interpreter's functions say (weave__mark()): names are read from a file. Owner: places. Threads: one. */
#ifndef CPROFD_KNOWN_MARKS_H
#define CPROFD_KNOWN_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "modules/modules.h"
#include "weave/places.h"

#define KNOWN_MARKS 1024u

struct known_mark {
	uint64_t start, names;
	uint32_t module;
	uint8_t mark;
	bool filled;
};

struct known_marks {
	struct known_mark rows[KNOWN_MARKS];
	struct hash_seed seed;
};

/* Of the function at `start`. `names`: a number that differs when an answer may. */
bool known_marks__find(const struct known_marks *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum weave_mark *ret);
void known_marks__keep(struct known_marks *known, const struct modules_found *found, uint64_t start, uint64_t names,
		       enum weave_mark mark);

#endif
