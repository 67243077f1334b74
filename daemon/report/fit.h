/* SPDX-License-Identifier: MIT */
/* Fits names and paths into columns. A name that is too long loses its template arguments, then its middle; a path
 * loses its beginning. An ellipsis (one character of the width) shows it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Characters, as all widths here. */
int fit__letters(const char *text);
/* Padded to `width` characters; a negative width: not padded. True: the name is complete. */
bool fit__name(FILE *out, const char *name, int width);
/* Cuts the beginning, as the end of a path is more useful; at a '/' if one is near. */
void fit__path(FILE *out, const char *path, int width);
/* Breaks lines that are longer than `width` between words; what follows is indented as the line is. A word that is too
 * long stays whole. Escape sequences of colours (ESC [ ... m) take no columns. */
void fit__lines(FILE *out, const char *text, int width);
/* What `put` writes, through fit__lines(): for a terminal of `width` columns, with the colours of stdout. 0: as it is.
 * Returns what `put` returned, or -errno. */
int fit__terminal(int width, int (*put)(void *of, FILE *out), void *of, FILE *out);
