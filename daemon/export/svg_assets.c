/* SPDX-License-Identifier: MIT */
/* The style sheet and script of flame graphs, compiled in (svg.h). */
#include "export/svg.h"

const struct asset svg_style =
#include "svg.css.inc"
	;
const struct asset svg_script =
#include "svg.js.inc"
	;
