/* SPDX-License-Identifier: MIT */
/* The bytes are an in-memory ELF image. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jit/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_image image;
	uint32_t i, k;

	if (jit_image__parse(data, size, &image))
		return 0;
	for (i = 0; i < image.n_ranges; i++)
		if (image.ranges[i].end <= image.ranges[i].start ||
		    (i && image.ranges[i].start < image.ranges[i - 1].end))
			abort();
	for (i = k = 0; i < image.n_symbols; i++) {
		const struct jit_image_symbol *s = &image.symbols[i];

		while (k < image.n_ranges && image.ranges[k].end <= s->start)
			k++;
		if (k == image.n_ranges || s->start < image.ranges[k].start || !s->size ||
		    s->size > image.ranges[k].end - s->start || (i && s->start <= s[-1].start))
			abort();
		if (s->name >= image.names_len || !memchr(image.names + s->name, 0, image.names_len - s->name))
			abort();
	}
	for (i = 0; i < 2; i++)
		if (image.probe[i].len && (image.probe[i].offset > size ||
					   image.probe[i].len > size - image.probe[i].offset))
			abort();
	jit_image__free(&image);
	return 0;
}
