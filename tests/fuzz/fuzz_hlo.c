/* SPDX-License-Identifier: MIT */
/* The bytes are HLO text; each word of it is asked for. */
#include <stdlib.h>
#include <string.h>

#include "export/hlo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct hlo *hlo;
	int err = hlo__new(at, size, &hlo);

	while (!err && at < end) {
		size_t len = 0;
		char word[256];

		while (at < end && (*at == ' ' || *at == '%'))
			at++;
		while (at + len < end && at[len] != ' ' && at[len] != '\n' && len < sizeof(word) - 1)
			len++;
		memcpy(word, at, len);
		word[len] = '\0';
		if (hlo__find(hlo, word) && !hlo__found(hlo))
			abort();
		at += len + 1;
	}
	if (!err)
		hlo__free(hlo);
	return 0;
}
