/* SPDX-License-Identifier: MIT */
/* The files of the live page, compiled in (export/svg.h). */
#include "html/html.h"
#include "web/internal.h"

static const struct asset live_page =
#include "live.html.inc"
	;
static const struct asset live_style =
#include "live.css.inc"
	;
static const struct asset live_script =
#include "live.js.inc"
	;
static const struct asset live_model =
#include "live_model.js.inc"
	;
static const struct asset live_time =
#include "live_time.js.inc"
	;
static const struct asset live_flame =
#include "live_flame.js.inc"
	;
static const struct asset live_tables =
#include "live_tables.js.inc"
	;
static const struct asset live_words =
#include "live_words.js.inc"
	;

#define SCRIPT "text/javascript; charset=utf-8"
#define STYLE "text/css; charset=utf-8"
const struct web_file web_files[] = {
	{"", "text/html; charset=utf-8", &live_page},
	{"page.css", STYLE, &html_style},
	{"live.css", STYLE, &live_style},
	{"live.js", SCRIPT, &live_script},
	{"live_model.js", SCRIPT, &live_model},
	{"live_time.js", SCRIPT, &live_time},
	{"live_flame.js", SCRIPT, &live_flame},
	{"live_tables.js", SCRIPT, &live_tables},
	{"live_words.js", SCRIPT, &live_words},
	{},
};
