/* SPDX-License-Identifier: MIT */
#include "web/library.h"

#include <dlfcn.h>
#include <errno.h>

#include "web/web.h"

struct library library;

int web__load(void)
{
	void *loaded = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);

	if (!loaded)
		return -ENOTSUP;
#define LIBRARY_FIND(name)                                                                                             \
	library.name = (__typeof__(library.name))dlsym(loaded, #name);                                                 \
	if (!library.name)                                                                                             \
		return -ENOTSUP;
	LIBRARY(LIBRARY_FIND)
	return 0;
}
