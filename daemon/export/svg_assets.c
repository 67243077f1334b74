/* SPDX-License-Identifier: MIT */
#include "export/svg.h"

const struct asset svg_style =
#include "svg.css.inc"
	;
const struct asset svg_script =
#include "svg.js.inc"
	;
