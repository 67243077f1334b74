/* SPDX-License-Identifier: MIT */
/* Colours of text for people, on a terminal that has them: few, and never the only way to tell something. Names of others never
 * come here: they are written by safe_text. What goes to another stream than stdout and stderr is plain. */
#ifndef CPROFD_STYLE_H
#define CPROFD_STYLE_H

#include <stdbool.h>
#include <stdio.h>

enum style {
	STYLE_HEAD, /* what a table or a thread is */
	STYLE_DIM,  /* beside the point: files, columns' names, native frames of a dump */
	STYLE_WARN, /* what is not to be trusted */
	STYLE_FAIL,
	STYLE_MORE, /* takes longer */
	STYLE_LESS,
};

enum style_when { STYLE_AUTO, STYLE_ALWAYS, STYLE_NEVER };
/* AUTO: on terminals, unless NO_COLOR (https://no-color.org) or TERM forbids it. Until it is called nothing has a colour. */
void style__allow(enum style_when when);

void style__begin(FILE *out, enum style style);
void style__end(FILE *out);

#endif
