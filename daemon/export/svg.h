/* What SVG flame graphs have in common: style, script, words. Private to this folder and diff/. */
#ifndef CPROFD_EXPORT_SVG_H
#define CPROFD_EXPORT_SVG_H

/* Geometry that svg.c and the script share, in px. */
#define SVG_WIDTH 1200u
#define SVG_TOP 60u /* below the title and the search box */
#define SVG_ROW 17u
#define SVG_CHAR 6.6 /* of a 11 px monospace letter */

/* The script reads data-width and data-letter of the document's root. */
extern const char svg_style[], svg_script[];

struct buf;
/* What XML cannot hold becomes a '?', what it would read as markup is spelled. */
int svg__put_xml(struct buf *out, const char *text);
/* As many letters as there is room for, in a rect of so many px. */
int svg__put_label(struct buf *out, const char *name, double width);

#endif
