/* SPDX-License-Identifier: MIT */
/* The rows of CPROFD_LOSSES, found by name. */
#include "events/loss_names.h"

#include <stddef.h>
#include <string.h>

#include "cprofd/loss.h"

/* The second column says what is lost; here only whole samples count. */
#define SAMPLE 1
#define FRAMES 0
#define DETAIL 0
#define ROW(id, kind, name, sentence) {name, sentence, kind},
static const struct loss_row {
	const char *name, *sentence;
	bool sample;
} losses[] = {CPROFD_LOSSES(ROW)};

static const struct loss_row *find(const char *name)
{
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (!strcmp(losses[i].name, name))
			return &losses[i];
	return NULL;
}

bool loss__is_sample(const char *name)
{
	const struct loss_row *loss = find(name);

	return loss && loss->sample;
}

const char *loss__sentence(const char *name)
{
	const struct loss_row *loss = find(name);

	return loss ? loss->sentence : NULL;
}
