/* SPDX-License-Identifier: MIT */
/* Which kind is a loss, by its name in a ledger (include/cprofd/loss.h)? */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "cprofd/loss.h"

/* A loss of whole samples; not of frames or details. Unknown names: false. */
static inline bool loss__is_sample(const char *name)
{
/* The second column of CPROFD_LOSSES says what is lost; here only whole samples count. */
#define SAMPLE 1
#define FRAMES 0
#define DETAIL 0
#define ROW(id, kind, name, sentence) {name, kind},
	static const struct {
		const char *name;
		bool sample;
	} losses[] = {CPROFD_LOSSES(ROW)};
#undef ROW
#undef SAMPLE
#undef FRAMES
#undef DETAIL
	size_t i;

	for (i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (!strcmp(losses[i].name, name))
			return losses[i].sample;
	return false;
}
