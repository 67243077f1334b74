/* SPDX-License-Identifier: MIT */
/* A script or a style: a file of the tree that is part of the program as text. The Makefile makes NAME.js.inc of NAME.js,
 * the text of one of these. */
#ifndef CPROFD_EXPORT_ASSET_H
#define CPROFD_EXPORT_ASSET_H

struct asset {
	const char *hash; /* as a Content-Security-Policy names it: "sha256-..." */
	const char *text;
};

#endif
