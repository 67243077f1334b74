/* SPDX-License-Identifier: MIT */
/* Names and paths in columns. A name that does not fit loses the arguments of its templates, then its middle; a path
 * its begin. An ellipsis says so; it is one letter of the width. Pure. */
#ifndef CPROFD_REPORT_FIT_H
#define CPROFD_REPORT_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Padded to `width` letters; of a negative width not padded. Whether it is whole. */
bool fit__name(FILE *out, const char *name, int width);
/* The end of a path tells more than its begin: it is cut at a '/' where one is near. */
void fit__path(FILE *out, const char *path, int width);

#endif
