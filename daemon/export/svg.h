/* SPDX-License-Identifier: MIT */
/* Flame graphs: what other folders may use of them. Private to this folder and those after it. */
#ifndef CPROFD_EXPORT_SVG_H
#define CPROFD_EXPORT_SVG_H

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

/* The picture alone, as an element of a page: a <p> that says what it shows, and an <svg>. The page has what the script asks
 * for: an input #search, and #found and #reset. -errno. */
int svg__inline(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret);

struct buf;
/* The parts of a picture around its frames, in this order: begin, words of the caller's, tools, frames, end. */
int svg__put_begin(struct buf *out, unsigned height, const char *title);
int svg__put_tools(struct buf *out);
int svg__put_end(struct buf *out);
/* What XML cannot hold becomes a '?', what it would read as markup is spelled. */
int svg__put_xml(struct buf *out, const char *text);
/* As many letters as there is room for, in a rect of so many px. */
int svg__put_label(struct buf *out, const char *name, double width);

#endif
