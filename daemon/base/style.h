/* SPDX-License-Identifier: MIT */
/* Colours for text on a terminal: few, and never the only sign of something. Untrusted names are written by safe_text,
 * not here. Streams other than stdout and stderr stay plain. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum style {
	STYLE_HEAD, /* head line of a table or a thread */
	STYLE_DIM,  /* less important: files, column names, native frames of a dump */
	STYLE_WARN, /* a warning */
	STYLE_FAIL,
	STYLE_MORE, /* takes longer */
	STYLE_LESS,
};

enum style_when { STYLE_AUTO, STYLE_ALWAYS, STYLE_NEVER };
/* AUTO: on terminals, unless NO_COLOR (https://no-color.org) or TERM forbids it. Until it is called nothing has a colour. */
void style__allow(enum style_when when);

/* Text that is collected for stdout has its colours; NULL: no longer. */
void style__like_stdout(FILE *out);
void style__begin(FILE *out, enum style style);
void style__end(FILE *out);
