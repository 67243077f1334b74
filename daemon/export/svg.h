/* SPDX-License-Identifier: MIT */
/* Flame graphs: what other directories use of them. Private to this directory and those after it. */
#pragma once

#include "export/export.h"

/* Geometry that svg.c and the script share, in px. */
#define SVG_WIDTH 1200u
#define SVG_TOP 78u /* below the title and the search box */
#define SVG_ROW 17u
#define SVG_CHAR 6.6 /* of a 11 px monospace letter */

/* A script or style sheet that is compiled into the program as text. The Makefile turns NAME.js into NAME.js.inc,
 * the initialiser of one struct asset.
 *
 * An inline script runs only if its hash is in the policy of the page, so a name of a function that looks
 * like a script cannot run, even if its escaping were wrong. */
struct asset {
	const char *hash; /* for the page's Content-Security-Policy: "sha256-..." */
	const char *text;
};

/* The script reads data-width and data-letter of the document's root. */
extern const struct asset svg_style, svg_script;

/* The picture as an element of an HTML page: a <p> that describes it, and an <svg>. The page provides what the
 * script needs: an input #search, and #found and #reset. -errno. */
int svg__inline(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret);

struct buf;
struct intern;
/* The parts of a picture around its frames, in this order: begin, the caller's text, tools, frames, end.
 * svg__put_begin() leaves the title open: `title`, cut where the search box begins, then the caller's text. */
int svg__put_begin(struct buf *out, unsigned height, const char *title);
int svg__put_tools(struct buf *out);
int svg__put_end(struct buf *out);
/* Escapes markup; what XML cannot contain becomes '?' or a blank. */
int svg__put_xml(struct buf *out, const char *text);
/* As much of the name as fits into a rectangle of `width` px, with an ellipsis if it is truncated. */
int svg__put_label(struct buf *out, const char *name, double width);
/* The rest of a frame, after its tooltip: `<g><title>` and text. */
int svg__put_frame(struct buf *out, double x, double width, unsigned y, const char *colour, const char *name);

/* Branches, whose keys begin with the parent's id (uint32_t, below its children's); 0 is the root. Widths are in any
 * unit; what is narrower than `least` is left out. `put` draws one frame; x and width are in px. */
struct svg_tree {
	const struct intern *branches;
	double least;
	double (*width)(void *of, uint32_t id);
	int (*put)(void *of, uint32_t id, double x, double width, uint32_t depth);
};
/* Draws parents before their children, and children in the order of their ids, which is that of appearance: from left
 * to right as the program ran. *ret_depth: of the innermost frame. */
int svg__layout(const struct svg_tree *tree, void *of, uint32_t *ret_depth);
