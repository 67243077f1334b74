/* SPDX-License-Identifier: MIT */
/* One copy of each text: equal texts have one id, 1, 2 ..., and one address, which stays valid until texts__free().
 * (intern.h is for keys of any bytes, whose address may change.) Zero-initialised is empty, without a limit. */
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "base/slots.h"

struct texts {
	const char **of; /* [id - 1] */
	uint32_t n, capacity;
	struct slots slots;
	struct arena strings;
	struct hash_seed seed; /* drawn with the first text: the target chooses them */
	size_t most;	       /* bytes of text; 0: no limit */
};

uint32_t texts__id(struct texts *texts, const char *text, size_t len); /* 0: there is no room. No NUL in it */
const char *texts__keep(struct texts *texts, const char *text);	       /* NULL: there is no room */
const char *texts__get(const struct texts *texts, uint32_t id);	       /* of 0: "" */
size_t texts__bytes(const struct texts *texts);			       /* that it holds */
void texts__free(struct texts *texts);				       /* it is empty then; the limit stays */
