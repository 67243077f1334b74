/* SPDX-License-Identifier: MIT */
/* libcurl, loaded by push__load(). Private to this directory. It brings TLS, HTTP/2 and LDAP along, of which no other
 * command has a use; so it is not linked (web/library.h). */
#pragma once

#define CURL_DISABLE_TYPECHECK /* its macros take functions alone */
#include <curl/curl.h>

#define CURL_LIBRARY(X)                                                                                                \
	X(curl_global_init) X(curl_easy_init) X(curl_easy_setopt) X(curl_easy_getinfo) X(curl_easy_reset)              \
	X(curl_easy_strerror) X(curl_easy_cleanup) X(curl_slist_append) X(curl_slist_free_all) X(curl_multi_init)      \
	X(curl_multi_add_handle) X(curl_multi_remove_handle) X(curl_multi_perform) X(curl_multi_poll)                  \
	X(curl_multi_info_read) X(curl_multi_cleanup)

#define CURL_LIBRARY_MEMBER(name) __typeof__(name) *name;
struct curl_library {
	CURL_LIBRARY(CURL_LIBRARY_MEMBER)
};
extern struct curl_library curl;
