/* SPDX-License-Identifier: MIT */
/* libmicrohttpd, loaded by web__load(). Private to this directory. It brings TLS along, which would double the time
 * that each `cprofd` takes to start; so it is not linked. */
#pragma once

#include <microhttpd.h>

#define LIBRARY(X)                                                                                                     \
	X(MHD_start_daemon) X(MHD_stop_daemon) X(MHD_run) X(MHD_get_timeout) X(MHD_get_daemon_info)                    \
	X(MHD_create_response_from_callback) X(MHD_create_response_from_buffer) X(MHD_create_response_from_fd64)       \
	X(MHD_add_response_header) X(MHD_queue_response) X(MHD_destroy_response) X(MHD_suspend_connection)             \
	X(MHD_resume_connection) X(MHD_lookup_connection_value) X(MHD_get_connection_values)                           \
	X(MHD_set_connection_option) X(MHD_get_connection_info)

#define LIBRARY_MEMBER(name) __typeof__(name) *name;
struct library {
	LIBRARY(LIBRARY_MEMBER)
};
extern struct library library;
