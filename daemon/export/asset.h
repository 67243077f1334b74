/* SPDX-License-Identifier: MIT */
/* A script or style sheet that is compiled into the program as text. The Makefile turns NAME.js into NAME.js.inc,
 * the initialiser of one struct asset. */
#ifndef CPROFD_EXPORT_ASSET_H
#define CPROFD_EXPORT_ASSET_H

struct asset {
	const char *hash; /* for the page's Content-Security-Policy: "sha256-..." */
	const char *text;
};

#endif
