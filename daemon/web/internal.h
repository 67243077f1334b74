/* SPDX-License-Identifier: MIT */
/* Private to this directory. */
#pragma once

#include "export/svg.h"
#include "web/web.h"

/* What the page is made of (assets.c). */
struct web_file {
	const char *name, *type; /* "": the page itself */
	const struct asset *asset;
};
extern const struct web_file web_files[]; /* ended by a NULL name */
