/* SPDX-License-Identifier: MIT */
/* A script or style sheet that is compiled into the program as text. The Makefile turns NAME.js into NAME.js.inc,
 * the initialiser of one struct asset. */
#pragma once

/* An inline script runs only if its hash is in the policy of the page, so a name of a function that looks
 * like a script cannot run, even if its escaping were wrong. */
struct asset {
	const char *hash; /* for the page's Content-Security-Policy: "sha256-..." */
	const char *text;
};
