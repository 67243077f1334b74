/* SPDX-License-Identifier: MIT */
/* May this request be answered? Three kinds of callers must not get anything:
 *
 *     another user of the machine         has no token
 *     a page of another origin            has no token; its requests say Origin or Sec-Fetch-Site
 *     such a page after DNS rebinding     is of this origin to its browser, but says its own name as the Host
 *
 * Only GET is served, and nothing that is served changes anything. */
#include "web/web.h"

#include <stdio.h>
#include <string.h>

/* Takes the same time wherever the two differ. */
static bool token_is(const char *given, const char *token)
{
	unsigned char difference = 0;

	for (size_t i = 0; i < WEB_TOKEN_CHARS; i++)
		difference |= (unsigned char)(given[i] ^ token[i]);
	return !difference;
}

/* The page itself is opened by a link from elsewhere, such as a terminal; what belongs to it is not. */
static bool is_foreign(const struct web_request *request, const char *name)
{
	const char *site = request->fetch_site, *dest = request->fetch_dest;

	if (!site || !strcmp(site, "same-origin") || !strcmp(site, "none"))
		return false;
	return *name || (dest && strcmp(dest, "document"));
}

unsigned web__judge(const struct web_request *request, uint16_t port, const char token[WEB_TOKEN_CHARS], const char **ret_name)
{
	char host[32], origin[40];
	const char *path = request->path;

	*ret_name = "";
	snprintf(host, sizeof(host), "127.0.0.1:%u", port);
	snprintf(origin, sizeof(origin), "http://%s", host);
	if (request->hosts != 1 || !request->host || strcmp(request->host, host))
		return 403;
	if (request->origin && strcmp(request->origin, origin))
		return 403;
	if (*path != '/' || strlen(path) < WEB_TOKEN_CHARS + 2 || path[WEB_TOKEN_CHARS + 1] != '/' || !token_is(path + 1, token))
		return 404;
	*ret_name = path + WEB_TOKEN_CHARS + 2;
	if (is_foreign(request, *ret_name))
		return 403;
	if (strcmp(request->method, "GET"))
		return 405;
	return request->body ? 413 : 0;
}
