/* SPDX-License-Identifier: MIT */
/* Hides frames: says which functions' frames a model leaves out of its stacks.
 *
 * A hidden frame is in no stack: its time goes to its caller, and what it called appears to be called by that
 * caller. No sample is left out and no time changes; a stack of hidden frames only becomes the single frame
 * HIDE_NOTE. Owner: the options are borrowed. Threading: none kept. Errors: -errno. */
#pragma once

#include "events/events.h"
#include "export/export.h"

#define HIDE_NOTE "(hidden)"

enum visibility {
	VISIBILITY_SHOWN,
	VISIBILITY_HIDDEN,
	VISIBILITY_IMPORT,   /* hidden: importlib and zipimport */
	VISIBILITY_MACHINE,  /* native code that importlib calls itself or the module through: hidden if below it */
};

struct hide;

/* Does any option hide frames? */
bool hide__wanted(const struct export_options *options);
int hide__new(const struct export_options *options, struct hide **ret);
enum visibility hide__function(struct hide *hide, const struct function_row *row);
/* After the recording was read. -ENOENT: a pattern matched nothing. */
int hide__missing(const struct hide *hide, struct export_missing *ret);
void hide__free(struct hide *hide);
