/* SPDX-License-Identifier: MIT */
/* Flame graphs: what other directories use of them. Private to this directory and those after it. */
#pragma once

#include <stdio.h>

#include "export/asset.h"
#include "export/export.h"

/* Geometry that svg.c and the script share, in px. */
#define SVG_WIDTH 1200u
#define SVG_TOP 78u /* below the title and the search box */
#define SVG_ROW 17u
#define SVG_CHAR 6.6 /* of a 11 px monospace letter */

/* The script reads data-width and data-letter of the document's root. */
extern const struct asset svg_style, svg_script;

/* The picture as an element of an HTML page: a <p> that describes it, and an <svg>. The page provides what the
 * script needs: an input #search, and #found and #reset. -errno. */
int svg__inline(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret);

struct buf;
/* The parts of a picture around its frames, in this order: begin, the caller's text, tools, frames, end.
 * svg__put_begin() leaves the title open: `title`, cut where the search box begins, then the caller's text. */
int svg__put_begin(struct buf *out, unsigned height, const char *title);
int svg__put_tools(struct buf *out);
int svg__put_end(struct buf *out);
/* Escapes markup; what XML cannot contain becomes '?' or a blank. */
int svg__put_xml(struct buf *out, const char *text);
/* As much of the name as fits into a rectangle of `width` px, with an ellipsis if it is truncated. */
int svg__put_label(struct buf *out, const char *name, double width);
