/* Names and paths in columns: what does not fit ends (a path: begins) in an ellipsis, which is one letter of the width.
 * Pure. */
#ifndef CPROFD_REPORT_FIT_H
#define CPROFD_REPORT_FIT_H

#include <stddef.h>
#include <stdio.h>

/* Padded to `width` letters; of a negative width not padded. */
void fit__name(FILE *out, const char *name, int width);
/* The end of a path tells more than its begin: it is cut at a '/' where one is near. */
void fit__path(FILE *out, const char *path, int width);

#endif
