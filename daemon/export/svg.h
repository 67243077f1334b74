/* The fixed parts of an SVG flame graph: its style and its script. Private to
 * this folder. */
#ifndef CPROFD_EXPORT_SVG_H
#define CPROFD_EXPORT_SVG_H

/* Geometry that svg.c and the script share, in px. */
#define SVG_WIDTH 1200u
#define SVG_TOP 60u /* below the title and the search box */
#define SVG_ROW 17u
#define SVG_CHAR 6.6 /* of a 11 px monospace letter */

extern const char svg_style[], svg_script[];

#endif
