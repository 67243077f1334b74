/* SPDX-License-Identifier: MIT */
/* The stores of profiles, and how they are spoken to. */
#include "export/otlp.h"
#include "export/pyroscope.h"
#include "push/push.h"

#define CREDENTIALS "credentials are given with --header-file FILE, as a line 'Authorization: Bearer TOKEN'"
#define SMALLER "requests are smaller with a shorter --every"

#define OTLP \
	.path = "/v1development/profiles", .packed = true, \
	.refusals = {{401, CREDENTIALS}, \
		     {403, CREDENTIALS}, \
		     {404, "a Collector takes profiles if it is started with --feature-gates=service.profilesSupport and has a pipeline for them"}, \
		     {413, SMALLER}, \
		     {0, "is this the address of an OTLP receiver, such as http://localhost:4318?"}}

const struct push_store push_otlp = {.content_type = "Content-Type: application/x-protobuf", .partial = true, .encode = otlp__encode, OTLP};
/* Its answers are JSON, too, and not read. */
const struct push_store push_otlp_json = {.content_type = "Content-Type: application/json", .encode = otlp_json__encode, OTLP};

/* Connect's unary calls (connectrpc.com/docs/protocol). */
const struct push_store push_pyroscope = {
	.path = "/push.v1.PusherService/Push",
	.content_type = "Content-Type: application/proto",
	.units = true,
	.encode = pyroscope__encode,
	.refusals = {{401, CREDENTIALS " (or Basic)"},
		     {403, CREDENTIALS " (or Basic)"},
		     {413, SMALLER},
		     {422, "a store of several tenants takes profiles with --tenant NAME only"},
		     {0, "is this the address of a Pyroscope, such as http://localhost:4040?"}},
};
