/* What was said of addresses of files, without their names: mappings change often, what lies in a file does not.
 * Owner: places. Threads: one. 0.4 MB, from the first address on. */
#ifndef CPROFD_KNOWN_PLACES_H
#define CPROFD_KNOWN_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/hash.h"
#include "modules/modules.h"
#include "weave/places.h"

#define KNOWN_PLACES 8192u
#define KNOWN_MARKS 1024u

struct known_mark {
	uint64_t start, names;
	uint32_t module;
	uint8_t mark;
	bool filled;
};

struct known_places {
	struct known_place_row *rows; /* owned; NULL: none yet */
	struct known_mark marks[KNOWN_MARKS];
	struct hash_seed seed;
};

/* `names`: a number that differs when an answer may. ret->name is NULL. */
bool known_places__find(struct known_places *known, const struct modules_found *found, uint64_t names,
			struct place *ret);
void known_places__keep(struct known_places *known, const struct modules_found *found, uint64_t names,
			const struct place *place);

/* What the name of the interpreter's function at `start` says (weave__mark()): names are read from a file. */
bool known_places__mark(const struct known_places *known, const struct modules_found *found, uint64_t start,
			uint64_t names, enum weave_mark *ret);
void known_places__keep_mark(struct known_places *known, const struct modules_found *found, uint64_t start,
			     uint64_t names, enum weave_mark mark);

#endif
