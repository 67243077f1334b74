/* SPDX-License-Identifier: MIT */
/* The files of the live page, compiled in (export/svg.h). */
#include "web/internal.h"

const struct web_file web_files[] = {
	{},
};
