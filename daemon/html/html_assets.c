/* SPDX-License-Identifier: MIT */
/* Style sheet and scripts of the page, compiled in (export/svg.h). */
#include "html/html.h"

const struct asset html_style =
#include "page.css.inc"
	;
const struct asset html_tables =
#include "tables.js.inc"
	;
const struct asset html_time_line =
#include "time_line.js.inc"
	;
