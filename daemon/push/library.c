/* SPDX-License-Identifier: MIT */
#include "push/library.h"

#include <dlfcn.h>
#include <errno.h>

#include "push/push.h"

struct curl_library curl;

int push__load(void)
{
	/* Debian has it with two libraries for TLS; either will do. */
	void *loaded = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL) ?: dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);

	if (!loaded)
		return -ENOTSUP;
#define CURL_LIBRARY_FIND(name)                                                                                        \
	curl.name = (__typeof__(curl.name))dlsym(loaded, #name);                                                       \
	if (!curl.name)                                                                                                \
		return -ENOTSUP;
	CURL_LIBRARY(CURL_LIBRARY_FIND)
	return curl.curl_global_init(CURL_GLOBAL_DEFAULT) ? -ENOTSUP : 0;
}
