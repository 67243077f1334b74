/* SPDX-License-Identifier: MIT */
/* A file that is written gzip'ed, or as it is. Zero-initialised but for `out` is empty and plain; the FILE is the
 * caller's. Errors: -errno. One thread. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <zlib.h>

struct gzip {
	FILE *out;
	z_stream zip;
	bool begun;
};

/* From here on what is written is compressed; `level` as zlib has it. */
int gzip__begin(struct gzip *gzip, int level);
int gzip__write(struct gzip *gzip, const void *data, size_t len);
/* Writes what zlib still holds, and gzip's trailer. */
int gzip__end(struct gzip *gzip);
/* All of a file at once. */
int gzip__all(FILE *out, int level, const void *data, size_t len);
void gzip__free(struct gzip *gzip);
