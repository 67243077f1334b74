/* SPDX-License-Identifier: MIT */
/* The bytes are /proc/PID/maps. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "target/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t last = 0;
	struct maps maps;
	size_t i, len;

	if (maps__parse((const char *)data, size, &maps))
		return 0;
	for (i = 0; i < maps.n; i++) {
		const struct mapping *m = &maps.items[i];
		const char *name = mapping__name(m, &len);

		if (m->start < last || m->end <= m->start || maps__find(&maps, m->start) != m ||
		    maps__find(&maps, m->end - 1) != m)
			abort();
		if (m->path < (const char *)data || m->path + m->path_len > (const char *)data + size ||
		    name + len != m->path + m->path_len)
			abort();
		last = m->end;
	}
	maps__free(&maps);
	return 0;
}
